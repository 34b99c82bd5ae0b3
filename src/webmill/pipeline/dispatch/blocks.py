"""The blocks of a ZipNum index that a selection needs: found in the summary, read in groups, looked through.

The place of everything is a byte of the summary: a batcher that stopped goes on from there. The summary is read in
pieces, each by a request of its own, since a stream would not live as long as a batcher that waits for its workers.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Protocol, TypeVar

import msgspec

from webmill.commoncrawl.selection import Selection, filter_block, ranges_between
from webmill.errors import BadInput, NotFound
from webmill.formats.cdx.cdxj import prefix_of
from webmill.formats.cdx.query import KeyRange
from webmill.formats.cdx.zipnum import MAX_BLOCK, MAX_SUMMARY_LINE, ZipnumBlock, parse_summary_line
from webmill.index.lookup.indexes import decode_checked_block
from webmill.index.lookup.sorted_file import FOR_LINES, Pages, bracket_key, line_at, line_start, lower_bound
from webmill.infra.storage.base import Readable, Stat

SUMMARY_PIECE = 1 << 20
BLOCKS_AT_ONCE = 32  # in one request, when they lie one behind the other
BYTES_AT_ONCE = 8 << 20
BLOCKS_IN_A_PIECE = 8
MAX_BISECTED = 256  # ranges: for more than that, reading the whole summary asks the server less often
ROWS_AT_ONCE = 4096  # that need nothing, before the place is told again
AFTER_ALL_KEYS = b"\xff"  # sorts behind all keys

T = TypeVar("T")
U = TypeVar("U")


class ShardReader(Protocol):
    def read(self, name: str, *, start: int, length: int) -> bytes: ...


class IndexReject(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of the index that cannot be read, with its place: of the summary (`summary`), a block that cannot be
    fetched (`download`) or decoded (`block`), or a line (`line`)."""

    kind: str
    reason: str
    message: str
    source: str
    offset: int
    line: int | None = None  # in the block, from 1
    raw: str = ""


class SummaryRange(msgspec.Struct, frozen=True):
    """A range of bytes of the summary, in whole lines."""

    low: int
    high: int


class SummaryLine(msgspec.Struct, frozen=True):
    """A line of the summary: a block, or why it is none."""

    start: int
    end: int
    block: ZipnumBlock | IndexReject


class BlockGroup(msgspec.Struct, frozen=True):
    """Blocks of one shard that lie one behind the other, and the part of the summary that they answer for."""

    start: int
    end: int
    blocks: list[ZipnumBlock]
    ends: list[int]  # of the blocks' lines in the summary
    rejects: list[IndexReject]


class FetchedGroup(msgspec.Struct, frozen=True):
    """A group with its compressed blocks; None for one that could not be had."""

    group: BlockGroup
    data: list[bytes | None]
    rejects: list[IndexReject]


class ScanResult(msgspec.Struct, frozen=True):
    """The result of scanning a group."""

    start: int
    end: int
    blocks: int
    lines: int
    items: list[bytes]
    digests: list[str]
    filtered: dict[str, int]
    rejects: list[IndexReject]


# --- the summary ----------------------------------------------------------------------------------------------------


def find_summary_ranges(pages: Pages, ranges: Sequence[KeyRange]) -> list[SummaryRange]:
    """Return the parts of the summary that may list blocks with these keys; all of it for no keys or very many."""
    if not ranges or len(ranges) > MAX_BISECTED:
        return [SummaryRange(0, len(pages))] if len(pages) else []
    found: list[SummaryRange] = []
    for part in ranges:
        low, _ = bracket_key(pages, prefix_of(part.start), max_line=MAX_SUMMARY_LINE)
        high = lower_bound(pages, part.end, low=low, max_line=MAX_SUMMARY_LINE)
        if found and low <= found[-1].high:
            found[-1] = SummaryRange(found[-1].low, max(high, found[-1].high))
        elif low < high:
            found.append(SummaryRange(low, high))
    return found


def count_blocks(pages: Pages, extents: Sequence[SummaryRange]) -> int:
    """Return how many blocks these parts list, by their running numbers; without those, an estimate."""
    return sum(_count(pages, extent) for extent in extents)


def _count(pages: Pages, extent: SummaryRange) -> int:
    first = line_at(pages, extent.low, max_line=MAX_SUMMARY_LINE)
    last = first
    for back in (512, 4096, MAX_SUMMARY_LINE):
        start = line_start(pages, max(extent.low, extent.high - back), most=FOR_LINES * MAX_SUMMARY_LINE)
        if start < extent.high:
            last = pages[start : extent.high].removesuffix(b"\n").rpartition(b"\n")[2]
            break
    try:
        numbers = [parse_summary_line(line, line_number=0).number for line in (first, last)]
    except BadInput:
        numbers = [None]
    if None not in numbers and numbers[-1] >= numbers[0]:  # type: ignore[operator]  # neither is None
        return numbers[-1] - numbers[0] + 1  # type: ignore[operator]
    return max(1, (extent.high - extent.low) // max(1, len(first)))


def read_summary(
    storage: Readable, stat: Stat, extents: Iterable[SummaryRange], *, start: int
) -> Iterator[SummaryLine]:
    """Yield the lines from byte `start` on. Raise `Conflict` if the summary is replaced meanwhile."""
    for extent in extents:
        low = max(start, extent.low)
        if low < extent.high:
            yield from _read_range(storage, stat, SummaryRange(low, extent.high))


def _read_range(storage: Readable, stat: Stat, extent: SummaryRange) -> Iterator[SummaryLine]:
    at, carry = extent.low, b""
    for low in range(extent.low, extent.high, SUMMARY_PIECE):
        piece = storage.read(stat.key, start=low, length=min(SUMMARY_PIECE, extent.high - low), etag=stat.etag or None)
        *lines, carry = (carry + piece).split(b"\n")
        for line in lines:
            yield _parse_summary_line(stat.key, at, line, ending=1)
            at += len(line) + 1
        if len(carry) > MAX_SUMMARY_LINE:  # refused as it stands, before it fills the memory
            yield _parse_summary_line(stat.key, at, carry, ending=0)
            at, carry = at + len(carry), b""
    if carry:  # the last line may lack its end
        yield _parse_summary_line(stat.key, at, carry, ending=0)


def _parse_summary_line(source: str, at: int, line: bytes, *, ending: int) -> SummaryLine:
    end = at + len(line) + ending
    try:
        block = parse_summary_line(line, line_number=1)
        if block.length > MAX_BLOCK:
            raise BadInput(f"line 1: a block of {block.length} bytes", reason="block_too_large")
    except BadInput as error:
        message, raw = error.message.removeprefix("line 1: "), line[:1024].decode("utf-8", "replace")
        return SummaryLine(at, end, IndexReject("summary", error.reason, message, source, at, raw=raw))
    return SummaryLine(at, end, block)


# --- groups ---------------------------------------------------------------------------------------------------------


def group_blocks(lines: Iterable[SummaryLine], ranges: Sequence[KeyRange]) -> Iterator[BlockGroup]:
    """Yield groups of blocks that may have captures of the ranges. The position moves over the other blocks as well."""
    group: BlockGroup | None = None
    for row, after in _with_next(lines):
        if isinstance(row.block, IndexReject):
            needed: list[ZipnumBlock] = []
            rejects = [row.block]
        else:
            needed = [row.block] if not ranges or ranges_between(ranges, row.block.key, after) else []
            rejects = []
        if group and not _fits(group, row, needed):
            yield group
            group = None
        if group:
            ends = group.ends + [row.end] * len(needed)
            group = BlockGroup(group.start, row.end, group.blocks + needed, ends, group.rejects + rejects)
        else:
            group = BlockGroup(row.start, row.end, needed, [row.end] * len(needed), rejects)
    if group:
        yield group


def _with_next(lines: Iterable[SummaryLine]) -> Iterator[tuple[SummaryLine, bytes]]:
    """Yield each line with the key of the next block, beyond which its own block has nothing."""
    waiting: list[SummaryLine] = []
    for row in lines:
        if isinstance(row.block, ZipnumBlock) or len(waiting) > ROWS_AT_ONCE:
            key = row.block.key if isinstance(row.block, ZipnumBlock) else AFTER_ALL_KEYS
            yield from ((before, key) for before in waiting)
            waiting = []
        waiting.append(row)
    yield from ((before, AFTER_ALL_KEYS) for before in waiting)


def _fits(group: BlockGroup, row: SummaryLine, needed: list[ZipnumBlock]) -> bool:
    if not needed or not group.blocks:
        return row.start - group.start < ROWS_AT_ONCE * 100 and len(group.rejects) < ROWS_AT_ONCE
    first, last, block = group.blocks[0], group.blocks[-1], needed[0]
    if last.shard != block.shard or last.offset + last.length != block.offset:
        return False
    return len(group.blocks) < BLOCKS_AT_ONCE and block.offset + block.length - first.offset <= BYTES_AT_ONCE


# --- blocks ---------------------------------------------------------------------------------------------------------


def fetch_group(group: BlockGroup, shards: ShardReader) -> FetchedGroup:
    """Fetch all blocks in one request; if that is refused, each by its own. `Unavailable` is raised to the caller."""
    if not group.blocks:
        return FetchedGroup(group, [], [])
    first, last = group.blocks[0], group.blocks[-1]
    try:
        data = shards.read(first.shard, start=first.offset, length=last.offset + last.length - first.offset)
    except (BadInput, NotFound) as error:
        if len(group.blocks) == 1:
            return FetchedGroup(group, [None], [_reject_block("download", first, error)])
        return _fetch_one_by_one(group, shards)
    starts = [block.offset - first.offset for block in group.blocks]
    parts = [data[at : at + block.length] for at, block in zip(starts, group.blocks, strict=True)]
    return FetchedGroup(group, [*parts], [])


def _fetch_one_by_one(group: BlockGroup, shards: ShardReader) -> FetchedGroup:
    single = [
        fetch_group(BlockGroup(group.start, group.end, [block], [group.end], []), shards) for block in group.blocks
    ]
    return FetchedGroup(group, [one.data[0] for one in single], [reject for one in single for reject in one.rejects])


def split_groups(fetched: Iterable[FetchedGroup], *, blocks: int) -> Iterator[FetchedGroup]:
    """Split what comes in one request: it is too much for one process, while others would wait.

    A reject goes with its place, since a batcher may go on from the end of any piece.
    """
    for whole in fetched:
        group, start, failed = whole.group, whole.group.start, iter(whole.rejects)
        for at in range(0, max(1, len(group.blocks)), blocks):
            part = slice(at, at + blocks)
            end = group.end if at + blocks >= len(group.blocks) else group.ends[part][-1]
            rejects = [reject for reject in group.rejects if start <= reject.offset < end]
            data = whole.data[part]
            missing = list(islice(failed, data.count(None)))
            yield FetchedGroup(BlockGroup(start, end, group.blocks[part], group.ends[part], rejects), data, missing)
            start = end


def scan_group(wanted: Selection, fetched: FetchedGroup) -> ScanResult:
    """Inflate and sift the blocks of a group. A pure function of its arguments: it may run in another process."""
    group = fetched.group
    answer = ScanResult(group.start, group.end, 0, 0, [], [], {}, [*group.rejects, *fetched.rejects])
    blocks = lines = 0
    for block, data in zip(group.blocks, fetched.data, strict=True):
        if data is None:
            continue
        try:
            sifted = filter_block(decode_checked_block(block, data), wanted)
        except BadInput as error:
            answer.rejects.append(_reject_block("block", block, error))
            continue
        blocks, lines = blocks + 1, lines + sifted.lines
        answer.items.extend(sifted.items)
        answer.digests.extend(sifted.digests)
        for name, count in sifted.filtered.items():
            answer.filtered[name] = answer.filtered.get(name, 0) + count
        answer.rejects.extend(
            IndexReject("line", bad.reason, bad.message, block.shard, block.offset, bad.number + 1, _printable(bad.raw))
            for bad in sifted.bad
        )
    return msgspec.structs.replace(answer, blocks=blocks, lines=lines)


def _reject_block(kind: str, block: ZipnumBlock, error: BadInput | NotFound) -> IndexReject:
    reason, message = (error.reason, error.message) if isinstance(error, BadInput) else ("not_found", str(error))
    return IndexReject(kind, reason, message, block.shard, block.offset)


def _printable(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def map_ahead(function: Callable[[T], U], items: Iterable[T], *, at_once: int) -> Generator[U, None, None]:
    """Yield the results in order, working on up to `at_once` items. When items end with an error,
    it is raised behind the results of those there were.

    Threads are left alone when nobody waits for them: one that sleeps before its next try must not hold up the end of
    the program.
    """
    source, running = iter(items), deque[Future[U]]()
    failure: Exception | None = None
    while True:
        while len(running) < at_once and not failure:
            try:
                running.append(run_in_thread(function, next(source)))
            except StopIteration:
                break
            except Exception as error:  # noqa: BLE001 - raised below
                failure = error
        if running:
            yield running.popleft().result()
        elif failure:
            raise failure
        else:
            return


def run_in_thread(function: Callable[[T], U], item: T) -> Future[U]:
    """Run the function in a thread of its own."""
    future: Future[U] = Future()

    def run() -> None:
        try:
            future.set_result(function(item))
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
