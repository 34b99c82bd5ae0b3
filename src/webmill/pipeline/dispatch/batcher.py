"""The batcher: captures that a selection wants, from the index of a crawl to a queue, in batches.

    summary ─▶ groups of blocks ─▶ fetched ahead ─▶ looked through by the executor ─▶ in order ─▶ batches ─▶ queue
                                                                                                   └▶ checkpoint

The same selection of the same index gives the same batches under the same ids, whatever the concurrency and however
often it was killed. Damage is counted and kept with its place; a server or a queue that is out of reach ends the run,
and the next goes on from the last window that was published.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing
from functools import partial
from hashlib import blake2b
from itertools import islice
from pathlib import Path

import msgspec

from webmill.commoncrawl.batch import batch_id, join_items
from webmill.commoncrawl.selection import Selection, compile_selection
from webmill.errors import Conflict, Unavailable
from webmill.index.lookup.sorted_file import Pages
from webmill.infra import waiting
from webmill.infra.executor.base import Executor, TaskFailed
from webmill.infra.lock import exclusive
from webmill.infra.metrics import Metrics
from webmill.infra.queue.base import Message, Queue
from webmill.infra.retry import BackoffPolicy, retrying
from webmill.infra.storage.base import Readable, Stat
from webmill.pipeline.dispatch.blocks import (
    BLOCKS_IN_A_PIECE,
    FetchedGroup,
    IndexReject,
    ScanResult,
    ShardReader,
    SummaryRange,
    count_blocks,
    fetch_group,
    find_summary_ranges,
    group_blocks,
    map_ahead,
    read_summary,
    run_in_thread,
    scan_group,
    split_groups,
)
from webmill.pipeline.dispatch.metrics import count_published, count_scanned, count_unpublished, show_progress
from webmill.pipeline.dispatch.state import (
    BatcherCounts,
    BatcherFolder,
    BatcherPosition,
    Checkpoint,
    RejectFile,
    SeenDigests,
)

log = logging.getLogger(__name__)

BATCH_SIZE = 50
MAX_QUEUED = 10_000
MAX_BATCH_BYTES = 8 << 20  # a batch is closed early when its captures are that large: queues have their limits
PUBLISH_WINDOW = 256  # batches that are published together
SAVE_EVERY = 64  # groups without a batch
FEW_BLOCKS = 64  # are looked through here: starting processes would take longer
SCAN_THREADS = 2  # pieces looked through here at once: one inflates while another is sifted


class IndexSource(msgspec.Struct, frozen=True):
    """An index: its summary, where its blocks are, and the name that it has in ids."""

    name: str
    storage: Readable
    summary: str
    shards: ShardReader


class BatcherOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How batches are made. `dedup`: only the first capture of each digest. `limit`: captures of all runs."""

    batch_size: int = BATCH_SIZE
    dedup: bool = False
    limit: int | None = None
    max_queued: int = MAX_QUEUED
    concurrency: int = 4  # requests at once


class BatcherContext(msgspec.Struct, frozen=True):
    """What a run reports to, and how it waits."""

    metrics: Metrics
    total: Callable[[int], None] = lambda _: None  # how many blocks there are
    advance: Callable[[int], None] = lambda _: None
    sleep: Callable[[float], None] = waiting.sleep


class BatcherReport(msgspec.Struct, frozen=True, kw_only=True):
    """Counts are of all runs together; `published` is of this one."""

    run: str
    batches: int
    published: int
    counts: BatcherCounts
    rejected_file: str
    resumed: bool
    nothing_to_do: bool


def derive_run_id(source: IndexSource, wanted: Selection, options: BatcherOptions) -> str:
    """Return an id of what decides which captures are in which batch, and of nothing else."""
    asked = msgspec.json.encode([source.name, wanted, options.batch_size, options.dedup, options.limit])
    return blake2b(asked, digest_size=6).hexdigest()


def dispatch(
    source: IndexSource,
    wanted: Selection,
    queue: Queue,
    *,
    root: Path,
    executor: Executor | None,
    options: BatcherOptions,
    around: BatcherContext,
    restart: bool = False,
) -> BatcherReport:
    """Publish batches of the selected captures. `root` has checkpoints; without an executor, threads scan blocks.

    Conflict: the index is another by now, or another process does the same.
    """
    wanted = msgspec.structs.replace(wanted, digests=options.dedup)
    compile_selection(wanted)  # a wrong regular expression is told before anything is asked for
    run = derive_run_id(source, wanted, options)
    state = BatcherFolder(root, run=run)
    with exclusive(state.folder.parent, run, doing="publishing this selection"):
        if restart:
            state.forget()
        return _BatcherRun(source, wanted, queue, run=run, state=state, options=options, around=around).work(
            executor, restart=restart
        )


class _BatcherRun:
    """One run: its position, and what it carries from group to group."""

    def __init__(
        self,
        source: IndexSource,
        wanted: Selection,
        queue: Queue,
        *,
        run: str,
        state: BatcherFolder,
        options: BatcherOptions,
        around: BatcherContext,
    ) -> None:
        self._source, self._wanted, self._queue, self._run = source, wanted, queue, run
        self._state, self._options, self._around = state, options, around
        self._checkpoint: Checkpoint = state.checkpoint(queue, run=run)
        self._published = 0
        self._unsaved = 0  # groups
        self._publishing: Future[None] | None = None

    def work(self, executor: Executor | None, *, restart: bool) -> BatcherReport:
        stat = self._source.storage.stat(self._source.summary)
        place = None if restart else self._checkpoint.load()
        resumed = place is not None
        self._place = place or BatcherPosition(index=index_identity(stat))
        if self._place.index != index_identity(stat):
            raise Conflict(
                f"{self._source.name} is not the index that this run began with: choose another --output (of "
                "`webmill cc batch`: begin anew with --from-scratch; what it published stays in the queue), or bring "
                "the old index back"
            )
        if self._place.finished:
            return self._report(resumed=resumed, nothing_to_do=True)
        if restart:
            self._publish([], self._place)
        self._carry = [bytes(item) for item in msgspec.json.decode(self._place.carry, type=list[msgspec.Raw])]
        with ExitStack() as stack:
            self._rejects = stack.enter_context(
                closing(RejectFile(self._state.rejected, size=self._place.reject_bytes))
            )
            self._digests = stack.enter_context(closing(self._open_digests())) if self._options.dedup else None
            stack.callback(self._finish_publishing)
            for answer in stack.enter_context(closing(self._answers(executor, stat))):
                self._settle(answer)
                if self._wanted_yet() == 0:
                    break
            self._end(stat)
        return self._report(resumed=resumed, nothing_to_do=False)

    def _open_digests(self) -> SeenDigests:
        return SeenDigests(self._state.folder / "digests.sqlite", at=self._place.at, count=self._place.digests)

    def _report(self, *, resumed: bool, nothing_to_do: bool) -> BatcherReport:
        return BatcherReport(
            run=self._run,
            batches=self._place.batches,
            published=self._published,
            counts=self._place.counts,
            rejected_file=str(self._state.rejected),
            resumed=resumed,
            nothing_to_do=nothing_to_do,
        )

    # --- from the index ---

    def _answers(self, executor: Executor | None, stat: Stat) -> Generator[ScanResult, None, None]:
        storage, ranges = self._source.storage, self._wanted.ranges
        pages = Pages(storage, stat)
        extents = find_summary_ranges(pages, ranges)
        self._measure(pages, extents)
        needed = group_blocks(read_summary(storage, stat, extents, start=self._place.at), ranges)
        fetched = map_ahead(partial(fetch_group, shards=self._source.shards), needed, at_once=self._options.concurrency)
        pieces = split_groups(fetched, blocks=BLOCKS_IN_A_PIECE)
        if executor is None or self._blocks <= FEW_BLOCKS:
            return map_ahead(partial(scan_group, self._wanted), pieces, at_once=SCAN_THREADS)
        return scan_in_order(executor, self._wanted, pieces)

    def _measure(self, pages: Pages, extents: Sequence[SummaryRange]) -> None:
        self._extents = extents
        self._blocks = count_blocks(pages, extents)
        self._around.total(self._blocks)
        self._around.advance(self._place.counts.blocks)
        show_progress(self._around.metrics, extents, at=self._place.at, blocks=self._blocks)

    # --- to the queue ---

    def _settle(self, answer: ScanResult) -> None:
        """Publish what a group filled, and move the place behind the group."""
        self._rejects.add(answer.rejects)
        found = answer.items
        fresh = self._digests.fresh(found, answer.digests, place=answer.start) if self._digests else found
        items = fresh[: self._wanted_yet()]
        counts = add_counts(self._place.counts, answer, accepted=len(items), duplicates=len(found) - len(fresh))
        count_scanned(self._around.metrics, answer, accepted=len(items))
        stream = self._carry + items
        skipped = min(self._place.skip, len(stream))
        *batches, rest = cut_batches(stream[skipped:], size=self._options.batch_size)
        behind = msgspec.structs.replace(
            self._place,
            at=answer.end,
            skip=self._place.skip - skipped,
            batches=self._place.batches + len(batches),
            counts=counts,
            reject_bytes=self._rejects.size,
            digests=self._digests.count if self._digests else 0,
        )
        self._deliver(batches, behind=behind, rest=rest, skipped=skipped)
        self._around.advance(answer.blocks)
        show_progress(self._around.metrics, self._extents, at=answer.end, blocks=self._blocks)

    def _wanted_yet(self) -> int | None:
        limit = self._options.limit
        return None if limit is None else max(0, limit - self._place.counts.accepted)

    def _deliver(self, batches: list[list[bytes]], *, behind: BatcherPosition, rest: list[bytes], skipped: int) -> None:
        """Publish batches in windows. Until the last one the position stays before the group, and only `skip` grows."""
        behind = msgspec.structs.replace(behind, carry=msgspec.Raw(join_items(rest)))
        todo = iter(enumerate(batches, start=self._place.batches + 1))
        done = skipped
        while window := self._window(todo):
            done += sum(len(batch) for _, batch in window)
            last = window[-1][0]
            within = msgspec.structs.replace(self._place, skip=done, batches=last)
            messages = [Message(batch_id(self._run, number), join_items(batch)) for number, batch in window]
            self._publish(messages, behind if last == behind.batches else within)
        if not batches:
            self._pass_over(behind)
        self._carry = rest

    def _pass_over(self, behind: BatcherPosition) -> None:
        """Move on where there is nothing to publish. The position is stored now and then."""
        self._place = behind
        self._unsaved += 1
        if self._unsaved >= SAVE_EVERY:
            self._publish([], behind)

    def _window(self, todo: Iterator[tuple[int, list[bytes]]]) -> list[tuple[int, list[bytes]]]:
        first = next(todo, None)
        if first is None:
            return []
        return [first, *islice(todo, self._room() - 1)]

    def _room(self) -> int:
        """Return how many batches may be published now. Wait while the queue is full."""
        self._finish_publishing()
        most, pause = self._options.max_queued, 0.05
        while (ready := retrying(self._queue.stats, policy=BackoffPolicy()).ready) >= most:
            self._around.sleep(pause)
            pause = min(2.0, pause * 2)
        return min(PUBLISH_WINDOW, most - ready)

    def _publish(self, messages: Sequence[Message], place: BatcherPosition) -> None:
        """Publish while the next group is scanned. The publication before is finished first, so the order is kept."""
        self._finish_publishing()
        self._publishing = run_in_thread(partial(self._publish_now, messages), place)
        self._place, self._unsaved = place, 0

    def _publish_now(self, messages: Sequence[Message], place: BatcherPosition) -> None:
        def once() -> None:
            try:
                self._checkpoint.publish(messages, place)
            except Unavailable:
                count_unpublished(self._around.metrics)
                raise

        retrying(once, policy=BackoffPolicy())
        self._published += len(messages)
        count_published(self._around.metrics, len(messages))

    def _finish_publishing(self) -> None:
        publishing, self._publishing = self._publishing, None
        if publishing:
            publishing.result()

    def _end(self, stat: Stat) -> None:
        """Publish the remainder, and that the run is complete."""
        rest = self._carry
        place = msgspec.structs.replace(
            self._place, carry=msgspec.Raw(b"[]"), finished=True, batches=self._place.batches + bool(rest)
        )
        self._publish([Message(batch_id(self._run, place.batches), join_items(rest))] if rest else [], place)
        show_progress(self._around.metrics, self._extents, at=stat.size, blocks=self._blocks)


def index_identity(stat: Stat) -> str:
    """Return what changes when the index does: its etag or, where a server has none, its date."""
    return f"{stat.size} {stat.etag or (stat.modified.isoformat() if stat.modified else '')}"


def scan_in_order(
    executor: Executor, wanted: Selection, fetched: Iterator[FetchedGroup]
) -> Generator[ScanResult, None, None]:
    """Yield the scanned groups in the order of the index."""
    early: dict[int, ScanResult] = {}
    following = 0
    with closing(executor.run(partial(scan_group, wanted), fetched)) as outcomes:
        for outcome in outcomes:
            early[outcome.index] = reject_group(outcome) if isinstance(outcome, TaskFailed) else outcome.value
            while following in early:
                yield early.pop(following)
                following += 1


def reject_group(failed: TaskFailed[FetchedGroup]) -> ScanResult:
    """Return the rejects of a group of blocks that kills the workers that scan it."""
    if failed.error:
        raise failed.error
    group = failed.item.group
    rejects = [IndexReject("block", "look_failed", failed.reason, block.shard, block.offset) for block in group.blocks]
    return ScanResult(group.start, group.end, 0, 0, [], [], {}, [*group.rejects, *failed.item.rejects, *rejects])


def add_counts(counts: BatcherCounts, answer: ScanResult, *, accepted: int, duplicates: int) -> BatcherCounts:
    filtered = dict(counts.filtered)
    for name, count in (*answer.filtered.items(), ("duplicate", duplicates)):
        if count:
            filtered[name] = filtered.get(name, 0) + count
    return BatcherCounts(
        blocks=counts.blocks + answer.blocks,
        lines=counts.lines + answer.lines,
        accepted=counts.accepted + accepted,
        rejected=counts.rejected + len(answer.rejects),
        filtered=filtered,
    )


def cut_batches(items: list[bytes], *, size: int) -> list[list[bytes]]:
    """Return the full batches and, as the last element, what is left, which may be empty."""
    if max(map(len, items), default=0) * size > MAX_BATCH_BYTES:
        return _cut_by_size(items, size=size)
    full = len(items) - len(items) % size
    return [*(items[at : at + size] for at in range(0, full, size)), items[full:]]


def _cut_by_size(items: list[bytes], *, size: int) -> list[list[bytes]]:
    batches: list[list[bytes]] = []
    start = weight = 0
    for at, item in enumerate(items):
        if at > start and (at - start == size or weight + len(item) > MAX_BATCH_BYTES):
            batches.append(items[start:at])
            start, weight = at, 0
        weight += len(item)
    if len(items) - start == size:
        return [*batches, items[start:], []]
    return [*batches, items[start:]]
