"""The embedded frontier: files of lines for each domain, coordination in SQLite, nothing to install or to start.

    FOLDER/state.sqlite     coordination (`state`), and a journal of the lines that are not surely on the disk yet
    FOLDER/domains/…        the URLs that wait (`lanes`)
    FOLDER/seen/*.run       which URLs are known (`seen`)

A commit is one transaction of SQLite. Thousands of files cannot be synced with each: lines are written to their files
without a sync, and into the journal inside the transaction. A checkpoint, after so many new URLs, syncs the files,
writes the known hashes out and empties the journal; whoever opens the folder after a crash writes the journal's lines
again, at the same positions.

A claim is synced as well: after a power cut a host must not be asked before its time (P06).
One process at a time. Its death ends its leases: whoever opens the folder has the proof.
"""

from __future__ import annotations

import logging
import math
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import msgspec

from webmill.crawl.frontier import backup
from webmill.crawl.frontier.base import (
    ClaimedUrl,
    ClaimRequest,
    CommitResult,
    DomainTurn,
    FrontierStats,
    FrontierUpdate,
    LastVisit,
    RobotsEntry,
)
from webmill.crawl.frontier.change import PRIORITY, FrontierChange
from webmill.crawl.frontier.claiming import Candidate, Consumed, claim_urls
from webmill.crawl.frontier.hops import unpack_hops
from webmill.crawl.frontier.journal import NO_POSITION, Journal, JournalEntry
from webmill.crawl.frontier.listing import waiting_links
from webmill.crawl.frontier.new_urls import NewUrls, find_new_urls
from webmill.crawl.frontier.queue_backup import QUEUES_FILE, restore_queues, write_queues
from webmill.crawl.frontier.seen_urls import MERGE_FAN_IN, SeenUrls, hash_url
from webmill.crawl.frontier.sorted_hash_run import HASHES_PER_WORD
from webmill.crawl.frontier.sqlite_state import SCHEMA, SqliteState
from webmill.crawl.frontier.url_queue_files import (
    FILE_SIZE,
    MAX_OPEN_FILES,
    MAX_UNWRITTEN,
    UrlQueue,
    UrlQueueFiles,
    decode_lines,
)
from webmill.errors import Unavailable
from webmill.infra import atomic
from webmill.infra.lock import exclusive
from webmill.model import Link

log = logging.getLogger(__name__)

MAX_NEW_URLS = 1 << 17  # new URLs between two checkpoints
MAX_JOURNAL_BYTES = 32 << 20  # bytes, likewise
PAGE = 1000
STATE_FILE, QUEUES_FOLDER, SEEN_FOLDER = "state.sqlite", "domains", "seen"
BACKEND, VERSION = "local", len(SCHEMA.steps)


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
    """What a step has brought: for the journal, for the set of known URLs, for the caller."""

    entries: list[JournalEntry]
    hashes: list[bytes]
    imported: int
    excluded: int

    def committed(self, fresh: NewUrls, lost: Iterable[int]) -> CommitResult:
        return CommitResult(
            added=len(self.hashes) - self.imported,
            known=fresh.known + fresh.repeats.total(),
            excluded=self.excluded,
            lost=frozenset(lost),
            imported=self.imported,
        )


class LocalFrontier:
    def __init__(self, folder: Path, *, limits: FrontierLimits | None = None) -> None:
        limits = limits or FrontierLimits()
        self._limits, self._lock = limits, threading.RLock()
        self._journal_bytes = 0
        self._unpaid = 0  # new URLs since merges went on
        self._must_rewrite = False
        atomic.make_folder(folder)
        with ExitStack() as stack:
            stack.enter_context(exclusive(folder, "frontier", doing="crawling"))
            self._state = SqliteState(folder / STATE_FILE)
            stack.callback(self._state.close)
            self._journal = Journal(self._state)
            self._lanes = UrlQueueFiles(
                folder / QUEUES_FOLDER, size=limits.file, max_open=limits.open_files, waiting=limits.waiting
            )
            stack.callback(self._lanes.close)
            self._seen = SeenUrls(
                folder / SEEN_FOLDER, self._state.database, fan=limits.fan, hashes_per_word=limits.hashes_per_word
            )
            stack.callback(self._seen.close)
            self._recover()
            self._stack = stack.pop_all()
        self._closed = False

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
        consumed: list[Consumed] = []
        with self._lock:
            with state.database.write():
                self._end_leases(now)
                change = FrontierChange(state, now=now)
                domains = state.due_domains(request)
                last = state.tallied().get("tokens", 0)
                for token, domain in enumerate(domains, last + 1):
                    chosen, read = claim_urls(domain, request, state=state, lanes=self._lanes)
                    consumed += read
                    held = [candidate.held for candidate in chosen]
                    change.start_turn(domain, held, token=token, until=until, next_=now + request.hold)
                    turns.append(DomainTurn(domain.name, token, until, tuple(map(claimed_url, chosen))))
                change.counts["tokens"] = len(turns)
                change.save()
            for part in consumed:
                self._lanes.drop(part.lane, was=part.start, read=part.stop, end=part.end)
        return turns

    def _end_leases(self, now: float, *, since: float | None = None) -> None:
        change = FrontierChange(self._state, now=now)
        change.expire(since=since)
        change.save()

    def extend(self, tokens: Iterable[int], *, now: float, lease: float) -> frozenset[int]:
        wanted = set(tokens)
        with self._lock, self._state.database.write_relaxed() as run:  # no lease outlives this process
            sql = "UPDATE turn SET until = ? WHERE token = ? AND until > ? RETURNING token"
            kept = {token for each in wanted for (token,) in run(sql, (now + lease, each, now))}
        return frozenset(wanted - kept)

    def next_turn(self, *, revisits: bool = False, resources_only: bool = False) -> float | None:
        return self._state.next_resource_turn() if resources_only else self._state.next_turn(revisits=revisits)

    # Steps

    def commit(self, step: FrontierUpdate, *, now: float) -> CommitResult:
        with self._lock:
            self._care()
            fresh = find_new_urls(step, self._seen)
            with self._state.database.write():
                change = FrontierChange(self._state, now=now)
                lost = change.settle(step.settled)
                added = self._add(fresh, change)
                change.save()
                self._note(step)
            self._took(added)
        return added.committed(fresh, lost)

    def _took(self, added: AddedUrls) -> None:
        self._seen.add(added.hashes)
        self._unpaid += len(added.hashes)
        self._journal_bytes += sum(len(lines) for *_, lines in added.entries)

    def _add(self, fresh: NewUrls, change: FrontierChange) -> AddedUrls:
        """Lines to their files, behind the end; and into the journal. Both mean nothing unless the step succeeds."""
        added = AddedUrls([], [], 0, 0)
        domains = change.domains([*(visit.domain for visit in fresh.visits), *fresh.links])
        for visit in fresh.visits:
            domain = domains[visit.domain]
            change.import_visit(domain, visit.done)
            added.hashes.append(visit.hash)
            added.entries.append((domain.id, PRIORITY, NO_POSITION, visit.data))
        added.imported = len(fresh.visits)
        for name, links in fresh.links.items():
            domain = domains[name]
            if domain.excluded:
                added.excluded += len(links) + fresh.repeats.pop(name, 0)
                continue
            added.hashes += [link.hash for link in links]
            lanes: dict[int, list[bytes]] = {}
            for link in links:
                lanes.setdefault(link.priority, []).append(link.data)
            for priority, parts in lanes.items():
                data = b"".join(parts)
                at = change.append(domain, priority, size=len(data), count=len(parts))
                self._lanes.write(UrlQueue(domain.hash, priority), at, data)
                added.entries.append((domain.id, priority, at, data))
        self._journal.append(added.entries)
        return added

    def _note(self, step: FrontierUpdate) -> None:
        many = self._state.database.many
        many("INSERT OR REPLACE INTO robots VALUES (?, ?, ?, ?, ?, ?)", map(msgspec.structs.astuple, step.robots))
        many("INSERT OR REPLACE INTO note VALUES (?, ?)", step.notes.items())

    # Questions

    def visit(self, url: str) -> LastVisit | None:
        return self._state.visit(url)

    def visits(self, *, since: float = 0.0, until: float | None = None) -> Iterator[LastVisit]:
        """`until` itself is not among them."""
        after = (since, -1)
        while page := self._state.visits_after(*after, count=PAGE):
            for id_, visit in page:
                if until is not None and visit.time >= until:
                    return
                after = (visit.time, id_)
                yield visit

    def waiting(self) -> Iterator[Link]:
        return waiting_links(self._state, self._lanes, self._lock)

    def robots(self, origin: str) -> RobotsEntry | None:
        sql = "SELECT origin, fetched, expires, status, body, failing_since FROM robots WHERE origin = ?"
        rows = self._state.database.read(sql, (origin,))
        return RobotsEntry(**dict(zip(RobotsEntry.__struct_fields__, rows[0], strict=True))) if rows else None

    def notes(self) -> dict[str, str]:
        return dict(self._state.database.read("SELECT name, value FROM note"))

    def stats(self) -> FrontierStats:
        return self._state.stats()

    # Exclusions

    def exclude(self, domains: Iterable[str]) -> int:
        with self._lock, self._state.database.write():
            change = FrontierChange(self._state, now=0.0)
            changed = change.exclude(domains)
            change.save()
        return changed

    def include(self, domains: Iterable[str]) -> int:
        with self._lock, self._state.database.write():
            change = FrontierChange(self._state, now=0.0)
            changed = change.include(domains)
            change.save()
        return changed

    def excluded(self) -> Iterator[str]:
        name = ""
        sql = "SELECT name FROM domain WHERE excluded AND name > ? ORDER BY name LIMIT ?"
        while page := self._state.database.read(sql, (name, PAGE)):
            for (name,) in page:
                yield name

    # Care

    def _care(self) -> None:
        """Before a step, so that what fails here leaves the step undone."""
        if len(self._seen) >= self._limits.table or self._journal_bytes >= self._limits.journal:
            self._checkpoint()
        self._seen.advance(self._unpaid)
        self._unpaid = 0

    def _checkpoint(self) -> None:
        if not len(self._seen):
            return
        if self._must_rewrite:
            for _ in self._journal.replay(self._lanes):
                pass
        self._must_rewrite = True
        self._lanes.sync()
        self._must_rewrite = False
        with self._seen.flushing() as number, self._state.database.write() as run:
            self._seen.register(run, number)
            self._journal.clear()
        self._journal_bytes = 0

    def _recover(self) -> None:
        for lines in self._journal.replay(self._lanes):
            self._seen.add(hash_url(url) for _, url, _ in decode_lines(lines))
            self._journal_bytes += len(lines)
        self._unpaid = len(self._seen)
        with self._state.database.write():
            self._end_leases(math.inf, since=0.0)

    def back_up(self, folder: Path) -> None:
        with self._lock, backup.create_folder(folder) as draft:
            self._state.database.copy_to(draft / STATE_FILE)
            (draft / SEEN_FOLDER).mkdir()
            for path in self._seen.paths():
                backup.link_or_copy(path, draft / SEEN_FOLDER / path.name)
            write_queues(draft / QUEUES_FILE, self._state.each(), self._lanes)
            backup.write_manifest(draft, backend=BACKEND, version=VERSION, stats=self.stats())

    def compact(self) -> None:
        """Drop what was consumed: at the beginning of lanes, and files that a kill has left."""
        with self._lock:
            for hash_, priority, number in self._lanes.files():
                domain = self._state.by_hash(hash_)
                read, end = domain.lanes.get(priority, (0, 0)) if domain else (0, 0)
                if not domain or number not in self._lanes.numbers(read=read, end=end):
                    self._lanes.remove(UrlQueue(hash_, priority), number)
                elif number == self._lanes.numbers(read=read, end=end)[0]:
                    self._lanes.compact(UrlQueue(domain.hash, priority), read=read, end=end)


def restore(source: Path, folder: Path, *, limits: FrontierLimits | None = None) -> None:
    """Make what was backed up to `source` a frontier in `folder`, which must be absent or empty."""
    manifest = backup.read_manifest(source, backend=BACKEND, version=VERSION)
    limits = limits or FrontierLimits()
    with backup.create_folder(folder) as draft:
        shutil.copyfile(source / STATE_FILE, draft / STATE_FILE)
        (draft / SEEN_FOLDER).mkdir()
        for name in manifest.files:
            if name.startswith(f"{SEEN_FOLDER}/"):
                backup.link_or_copy(source / name, draft / name)
        restore_queues(source / QUEUES_FILE, draft / QUEUES_FOLDER, size=limits.file)


def claimed_url(candidate: Candidate) -> ClaimedUrl:
    held = candidate.held
    reached_by = unpack_hops(held.priority, held.hops)
    return ClaimedUrl(held.url, held.depth, held.priority, held.attempts, candidate.last, *reached_by)
