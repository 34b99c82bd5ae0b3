"""What frontiers with their URLs in files share, wherever their state is: claims, new URLs, checkpoints, listings.

A commit is one transaction of the state. Thousands of files cannot be synced with each: lines are written to their
files without a sync, and into the journal inside the transaction. A checkpoint, after so many new URLs, syncs the
files, writes the known hashes out and empties the journal; whoever opens the frontier after a crash writes the
journal's lines again, at the same positions.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from typing import NamedTuple, Self

import msgspec

from webmill.crawl.frontier.base import (
    PAGE_RESOURCE,
    ClaimedUrl,
    ClaimRequest,
    CommitResult,
    DomainTurn,
    FrontierStats,
    FrontierUpdate,
    LastVisit,
    RevisitRule,
    VisitDone,
)
from webmill.crawl.frontier.change import PRIORITY, FrontierChange
from webmill.crawl.frontier.hops import unpack_hops
from webmill.crawl.frontier.journal import NO_POSITION, Journal, JournalEntry, replay
from webmill.crawl.frontier.new_urls import NewUrls
from webmill.crawl.frontier.seen_urls import MERGE_FAN_IN, SeenUrls
from webmill.crawl.frontier.sorted_hash_run import HASHES_PER_WORD
from webmill.crawl.frontier.state import DomainState, FrontierState, TurnRow, UrlRow, stats_from
from webmill.crawl.frontier.url_queue_files import FILE_SIZE, MAX_OPEN_FILES, MAX_UNWRITTEN, UrlQueue, UrlQueueFiles
from webmill.errors import BadInput, Unavailable
from webmill.model import Link

log = logging.getLogger(__name__)

MAX_NEW_URLS = 1 << 17  # between two checkpoints
MAX_JOURNAL_BYTES = 32 << 20  # likewise
LINES_AT_ONCE = 1000
QUEUES_FOLDER, SEEN_FOLDER = "domains", "seen"
RETRY, REVISIT, NEW = range(3)  # the order among equal priorities


class Candidate(NamedTuple):
    priority: int
    kind: int
    rank: int  # among its kind
    row: UrlRow
    last: LastVisit | None = None
    end: int = 0  # of its line


class ConsumedPart(NamedTuple):
    """The part of a queue that a claim has read."""

    queue: UrlQueue
    start: int
    stop: int
    end: int


class FrontierLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of what is kept where. The defaults are for crawls; tests make them tiny."""

    table: int = MAX_NEW_URLS
    journal: int = MAX_JOURNAL_BYTES
    file: int = FILE_SIZE
    open_files: int = MAX_OPEN_FILES
    waiting: int = MAX_UNWRITTEN
    fan: int = MERGE_FAN_IN
    hashes_per_word: int = HASHES_PER_WORD


class AddedUrls(msgspec.Struct):
    """What an update has brought: for the journal, for the set of known URLs, for the caller."""

    entries: list[JournalEntry]
    hashes: list[bytes]
    imported: int
    excluded: int
    brought_forward: int = 0

    def result(self, new: NewUrls, lost: Iterable[int]) -> CommitResult:
        return CommitResult(
            added=len(self.hashes) - self.imported,
            known=new.known + new.repeats.total(),
            excluded=self.excluded,
            lost=frozenset(lost),
            imported=self.imported,
            brought_forward=self.brought_forward,
        )


class FileFrontier(ABC):
    """Subclasses open the parts and give them to `__init__`; then they recover what a crash has left."""

    def __init__(
        self,
        *,
        state: FrontierState,
        journal: Journal,
        queues: UrlQueueFiles,
        seen: SeenUrls,
        limits: FrontierLimits,
    ) -> None:
        self._state, self._journal, self._queues, self._seen, self._limits = state, journal, queues, seen, limits
        self._lock = threading.RLock()
        self._journal_bytes = 0
        self._unmerged = 0  # new URLs since merges went on
        self._must_rewrite = False
        self._closed = False
        self._stack = ExitStack()  # all that is to be closed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                self._checkpoint()  # the next start has nothing to write again
            except Unavailable as error:
                log.warning("frontier_checkpoint_failed", extra={"why": str(error)})
            finally:
                self._stack.close()

    # Turns

    def claim(self, request: ClaimRequest) -> list[DomainTurn]:
        state, now, until = self._state, request.now, request.now + request.lease
        turns: list[DomainTurn] = []
        consumed: list[ConsumedPart] = []
        with self._lock:
            with state.write():
                self._end_leases(now)
                change = FrontierChange(state, now=now)
                last = state.counts().get("tokens", 0)
                domains = state.due_domains(request, last=last)
                for domain in domains:
                    chosen, read = claim_urls(domain, request, state=state, queues=self._queues)
                    if not chosen:  # what it came up for was visited meanwhile, without a claim
                        change.reschedule(domain)
                        continue
                    consumed += read
                    token = last + len(turns) + 1
                    turn = TurnRow(domain.id, until, [candidate.row for candidate in chosen])
                    change.start_turn(domain, turn, token=token, not_before=now + request.hold)
                    turns.append(DomainTurn(domain.name, token, until, tuple(map(claimed_url, chosen)), domain.rank))
                change.counts["tokens"] = len(turns)
                change.save()
            for part in consumed:
                self._queues.drop(part.queue, was=part.start, read=part.stop, end=part.end)
        return turns

    def _end_leases(self, now: float, *, since: float | None = None) -> None:
        change = FrontierChange(self._state, now=now)
        change.expire(since=since)
        change.save()

    def next_turn(self, *, revisits: bool = False, resources_only: bool = False) -> float | None:
        return self._state.next_resource_turn() if resources_only else self._state.next_turn(revisits=revisits)

    @abstractmethod
    def commit(self, update: FrontierUpdate, *, now: float) -> CommitResult: ...

    # Revisits

    def bring_forward(self, rule: RevisitRule, *, now: float) -> int:
        count = 0
        for some in self._state.due_visits(rule, now=now):
            with self._lock, self._state.write():
                change = FrontierChange(self._state, now=now)
                count += change.advance(some)
                change.save()
        return count

    def retry(self, urls: Sequence[str]) -> int:
        with self._lock, self._state.write():
            change = FrontierChange(self._state, now=0.0)
            found = self._state.find_visits(urls)
            domains = change.domains(visit.domain for visit in found.values())
            in_hand = {row.url for domain in domains.values() for row in self._state.urls_in_hand(domain)}
            free = {url: visit for url, visit in found.items() if url not in in_hand}
            lasts = {url: self._state.visit(url) for url in free}
            for url, last in lasts.items():
                if last and not last.has_page:
                    change.requeue(free[url], last)
            change.advance([free[url] for url, last in lasts.items() if last and last.has_page])
            change.save()
        return len(free)

    def record(self, visits: Sequence[VisitDone], *, now: float) -> None:
        found = self._state.find_visits([done.url for done in visits])
        self.commit(FrontierUpdate(visited=[done for done in visits if done.url not in found]), now=now)
        with self._lock, self._state.write():
            change = FrontierChange(self._state, now=now)
            domains = change.domains(visit.domain for visit in found.values())
            in_hand = {row.url for domain in domains.values() for row in self._state.urls_in_hand(domain)}
            for done in visits:
                known = found.get(done.url)
                if known and known.time < done.visit.time and done.url not in in_hand:
                    change.renew(known, done)
            change.save()

    def _apply_news(self, links: Sequence[Link], change: FrontierChange) -> int:
        """Make known URLs due that have changed since their visit; return how many."""
        if not links:
            return 0
        found = self._state.find_visits(link.url for link in links)
        outdated = {link.url: found[link.url] for link in links if link.url in found}
        news = {link.url: link.modified for link in links}
        return change.advance([visit for url, visit in outdated.items() if visit.time < news[url]])

    # New URLs

    def _add(self, new: NewUrls, change: FrontierChange) -> AddedUrls:
        """Write lines behind the end of their files, and into the journal. Both mean nothing unless the transaction
        succeeds."""
        added = AddedUrls([], [], 0, 0)
        domains = change.domains([*(visit.domain for visit in new.visits), *new.links])
        for visit in new.visits:
            domain = domains[visit.domain]
            change.import_visit(domain, visit.done)
            added.hashes.append(visit.hash)
            added.entries.append((domain.id, PRIORITY, NO_POSITION, visit.data))
        added.imported = len(new.visits)
        for name, links in new.links.items():
            domain = domains[name]
            if domain.excluded:
                added.excluded += len(links) + new.repeats.pop(name, 0)
                continue
            added.hashes += [link.hash for link in links]
            queues: dict[int, list[bytes]] = {}
            for link in links:
                queues.setdefault(link.priority, []).append(link.data)
            for priority, parts in queues.items():
                data = b"".join(parts)
                at = change.append(domain, priority, size=len(data), count=len(parts))
                self._queues.write(UrlQueue(domain.hash, priority), at, data)
                added.entries.append((domain.id, priority, at, data))
        self._journal.append(added.entries)
        added.brought_forward = self._apply_news(new.news, change)
        return added

    def _remember(self, added: AddedUrls) -> None:
        """Remember new URLs as known: the transaction that has added them counts."""
        self._seen.add(added.hashes)
        self._unmerged += len(added.hashes)
        self._journal_bytes += sum(len(lines) for *_, lines in added.entries)

    # Questions

    def visit(self, url: str) -> LastVisit | None:
        return self._state.visit(url)

    def stats(self) -> FrontierStats:
        return stats_from(self._state.counts())

    def waiting(self) -> Iterator[Link]:
        for domain in self._state.all_domains():
            came_back = self._state.all_retries(domain) if domain.retries else ()
            for row in chain(came_back, self._state.urls_in_hand(domain)):
                if not row.visit_id:
                    yield Link(row.url, row.depth, row.priority, *unpack_hops(row.priority, row.hops))
            try:
                yield from self._queued_links(domain)
            except BadInput as error:
                if not domain.excluded:
                    raise
                log.warning("frontier_lane_damaged", extra={"domain": domain.name, "why": str(error)})

    def _queued_links(self, domain: DomainState) -> Iterator[Link]:
        for priority, (position, end) in sorted(domain.queues.items()):
            queue = UrlQueue(domain.hash, priority)
            while position < end:
                with self._lock:
                    read, end = self._state.reload_domain(domain).queues[priority]  # lines read meanwhile may be gone
                    lines = self._queues.read(queue, max(read, position), end, count=LINES_AT_ONCE)
                position = lines[-1].end if lines else end
                yield from (Link(line.url, line.depth, priority, *unpack_hops(priority, line.hops)) for line in lines)

    # Exclusions and ranks

    def exclude(self, domains: Iterable[str]) -> int:
        return self._change(lambda change: change.exclude(domains))

    def include(self, domains: Iterable[str]) -> int:
        return self._change(lambda change: change.include(domains))

    def prioritise(self, domains: Iterable[str], rank: int) -> int:
        return self._change(lambda change: change.prioritise(domains, rank))

    def _change(self, act: Callable[[FrontierChange], int]) -> int:
        with self._lock, self._state.write():
            change = FrontierChange(self._state, now=0.0)
            changed = act(change)
            change.save()
        return changed

    # Maintenance

    def _maintain(self) -> None:
        """Checkpoint and merge when it is time: before an update, so that what fails here leaves it undone."""
        if len(self._seen) >= self._limits.table or self._journal_bytes >= self._limits.journal:
            self._checkpoint()
        self._seen.advance(self._unmerged)
        self._unmerged = 0

    def _checkpoint(self) -> None:
        """Make the lines that were written to files durable there, and empty the journal."""
        if not len(self._seen):
            return
        self._check_owner()
        if self._must_rewrite:
            for _ in replay(self._journal, self._queues):
                pass
        self._must_rewrite = True
        self._queues.sync()
        self._must_rewrite = False
        self._finish_checkpoint()
        self._journal_bytes = 0

    def _check_owner(self) -> None:
        """Raise `Conflict` when another process may have these files."""
        return

    @abstractmethod
    def _finish_checkpoint(self) -> None:
        """Write the newest hashes as a run, and empty the journal."""


def claimed_url(candidate: Candidate) -> ClaimedUrl:
    row = candidate.row
    reached_by = unpack_hops(row.priority, row.hops)
    return ClaimedUrl(row.url, row.depth, row.priority, row.attempts, candidate.last, *reached_by)


def claim_urls(
    domain: DomainState, request: ClaimRequest, *, state: FrontierState, queues: UrlQueueFiles
) -> tuple[list[Candidate], list[ConsumedPart]]:
    """Choose the first URLs of a domain and take them from where they wait. The positions and counts of `domain` are
    moved on; the caller saves them."""
    found = list(find_candidates(domain, request, state=state, queues=queues))
    if request.resources_only:  # they are the first ones, if there are any
        found = [candidate for candidate in found if candidate.priority == PAGE_RESOURCE]
    first = REVISIT if request.revisits_first else None
    chosen = sorted(found, key=lambda each: (each.kind != first, *each[:3]))[: request.urls_per_turn]
    retries = [(domain.id, each.priority, each.row.position) for each in chosen if each.kind == RETRY]
    state.delete_retries(retries)
    domain.retries -= len(retries)
    ends = {each.priority: each.end for each in chosen if each.kind == NEW}
    return chosen, [advance_queue(domain, priority, end) for priority, end in ends.items()]


def find_candidates(
    domain: DomainState, request: ClaimRequest, *, state: FrontierState, queues: UrlQueueFiles
) -> Iterator[Candidate]:
    """Yield the first ones of each kind: what is not among them cannot be among the first of all."""
    now, count = request.now, request.urls_per_turn
    if domain.retries:
        for rank, row in enumerate(state.due_retries(domain.id, now=now, count=count)):
            yield Candidate(row.priority, RETRY, rank, row)
    if request.revisits and not request.resources_only and domain.revisits:
        for rank, (row, last) in enumerate(state.due_revisits(domain.id, now=now, count=count)):
            yield Candidate(row.priority, REVISIT, rank, row, last)
    for priority, (read, end) in sorted(domain.queues.items()):
        if read < end and count:
            lines = queues.read(UrlQueue(domain.hash, priority), read, end, count=count)
            count -= len(lines)
            for line in lines:
                row = UrlRow(line.url, line.depth, priority, 1, line.start, 0, line.hops)
                yield Candidate(priority, NEW, line.start, row, None, line.end)


def advance_queue(domain: DomainState, priority: int, stop: int) -> ConsumedPart:
    start, end = domain.queues[priority]
    domain.queues[priority] = (stop, end)
    return ConsumedPart(UrlQueue(domain.hash, priority), start, stop, end)
