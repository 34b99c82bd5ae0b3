"""The embedded frontier: files of lines for each domain, coordination in SQLite, nothing to install or to start.

    FOLDER/state.sqlite     coordination (`sqlite_state`), and a journal of the lines that may not be on the disk yet
    FOLDER/domains/…        the URLs that wait (`url_queue_files`)
    FOLDER/seen/*.run       which URLs are known (`seen_urls`)

A claim is synced as well: after a power cut a host must not be asked before its time (P06).
One process at a time. Its death ends its leases: whoever opens the folder has the proof.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec

from webmill.crawl.frontier import backup
from webmill.crawl.frontier.base import CommitResult, FrontierUpdate, LastVisit, RobotsEntry
from webmill.crawl.frontier.change import FrontierChange
from webmill.crawl.frontier.file_frontier import QUEUES_FOLDER, SEEN_FOLDER, FileFrontier, FrontierLimits
from webmill.crawl.frontier.journal import SqliteJournal, replay
from webmill.crawl.frontier.new_urls import find_new_urls
from webmill.crawl.frontier.queue_backup import QUEUES_FILE, restore_queues, write_queues
from webmill.crawl.frontier.seen_urls import SeenUrls, hash_url
from webmill.crawl.frontier.sqlite_schema import SCHEMA
from webmill.crawl.frontier.sqlite_state import SqliteState
from webmill.crawl.frontier.url_queue_files import UrlQueue, UrlQueueFiles, decode_lines
from webmill.errors import BadInput
from webmill.infra import atomic
from webmill.infra.lock import exclusive
from webmill.infra.sqlite import Database

PAGE = 1000
STATE_FILE = "state.sqlite"
BACKEND, VERSION = "local", len(SCHEMA.steps)


class LocalFrontier(FileFrontier):
    def __init__(self, folder: Path, *, limits: FrontierLimits | None = None) -> None:
        limits = limits or FrontierLimits()
        atomic.make_folder(folder)
        with ExitStack() as stack:
            stack.enter_context(exclusive(folder, "frontier", doing="crawling"))
            refuse_lost_state(folder)
            self._sqlite = SqliteState(folder / STATE_FILE)
            stack.callback(self._sqlite.close)
            self._database = self._sqlite.database
            queues = UrlQueueFiles(
                folder / QUEUES_FOLDER, size=limits.file, max_open=limits.open_files, waiting=limits.waiting
            )
            stack.callback(queues.close)
            seen = SeenUrls(
                folder / SEEN_FOLDER, self._database, fan=limits.fan, hashes_per_word=limits.hashes_per_word
            )
            stack.callback(seen.close)
            super().__init__(
                state=self._sqlite, journal=SqliteJournal(self._sqlite), queues=queues, seen=seen, limits=limits
            )
            self._recover()
            self._stack = stack.pop_all()

    def _recover(self) -> None:
        """Write the journal's lines again, and end the leases of the process that is gone."""
        for lines in replay(self._journal, self._queues):
            self._seen.add(hash_url(url) for _, url, _ in decode_lines(lines))
            self._journal_bytes += len(lines)
        self._unmerged = len(self._seen)
        with self._state.write():
            self._end_leases(math.inf, since=0.0)

    def extend(self, tokens: Iterable[int], *, now: float, lease: float) -> frozenset[int]:
        wanted = set(tokens)
        with self._lock, self._database.write_relaxed() as run:  # no lease outlives this process
            sql = "UPDATE turn SET until = ? WHERE token = ? AND until > ? RETURNING token"
            kept = {token for each in wanted for (token,) in run(sql, (now + lease, each, now))}
        return frozenset(wanted - kept)

    def commit(self, update: FrontierUpdate, *, now: float) -> CommitResult:
        with self._lock:
            self._maintain()
            new = find_new_urls(update, self._seen)
            with self._state.write():
                change = FrontierChange(self._state, now=now)
                lost = change.settle(update.settled)
                added = self._add(new, change)
                change.set_ranks(update.ranks)
                change.save()
                self._save_robots_and_notes(update)
            self._remember(added)
        return added.result(new, lost)

    def _save_robots_and_notes(self, update: FrontierUpdate) -> None:
        many = self._database.many
        many("INSERT OR REPLACE INTO robots VALUES (?, ?, ?, ?, ?, ?)", map(msgspec.structs.astuple, update.robots))
        many("INSERT OR REPLACE INTO note VALUES (?, ?)", update.notes.items())

    # Questions

    def visits(self, *, since: float = 0.0, until: float | None = None) -> Iterator[LastVisit]:
        after = (since, -1)
        while page := self._sqlite.visits_after(*after, count=PAGE):
            for id_, visit in page:
                if until is not None and visit.time >= until:
                    return
                after = (visit.time, id_)
                yield visit

    def robots(self, origin: str) -> RobotsEntry | None:
        return robots_of(self._database, origin)

    def notes(self) -> dict[str, str]:
        return dict(self._database.read("SELECT name, value FROM note"))

    def excluded(self) -> Iterator[str]:
        name = ""
        sql = "SELECT name FROM domain WHERE excluded AND name > ? ORDER BY name LIMIT ?"
        while page := self._database.read(sql, (name, PAGE)):
            for (name,) in page:
                yield name

    # Maintenance

    def _finish_checkpoint(self) -> None:
        with self._seen.flushing() as number, self._database.write() as run:
            self._seen.register(run, number)
            self._journal.clear()

    def back_up(self, folder: Path) -> None:
        with self._lock, backup.create_folder(folder) as draft:
            self._database.copy_to(draft / STATE_FILE)
            (draft / SEEN_FOLDER).mkdir()
            for path in self._seen.paths():
                backup.link_or_copy(path, draft / SEEN_FOLDER / path.name)
            write_queues(draft / QUEUES_FILE, self._state.all_domains(), self._queues)
            backup.write_manifest(draft, backend=BACKEND, version=VERSION, stats=self.stats())

    def compact(self) -> None:
        """Drop what was consumed: at the beginning of queues, and files that a kill has left."""
        with self._lock:
            for hash_, priority, number in self._queues.files():
                domain = self._sqlite.find_by_hash(hash_)
                read, end = domain.queues.get(priority, (0, 0)) if domain else (0, 0)
                if not domain or number not in self._queues.file_numbers(read=read, end=end):
                    self._queues.remove(UrlQueue(hash_, priority), number)
                elif number == self._queues.file_numbers(read=read, end=end)[0]:
                    self._queues.compact(UrlQueue(domain.hash, priority), read=read, end=end)


def robots_of(database: Database, origin: str) -> RobotsEntry | None:
    """Return the robots.txt of an origin as it was last asked for."""
    sql = "SELECT origin, fetched, expires, status, body, failing_since FROM robots WHERE origin = ?"
    rows = database.read(sql, (origin,))
    return RobotsEntry(**dict(zip(RobotsEntry.__struct_fields__, rows[0], strict=True))) if rows else None


def refuse_lost_state(folder: Path) -> None:
    """Refuse to begin anew where there are files of a frontier, but not the state that tells what they are."""
    state = folder / STATE_FILE
    is_there = state.is_file() and state.stat().st_size
    if not is_there and any((folder / SEEN_FOLDER).glob("*.run")):
        message = "is missing, and without it the frontier is lost; `webmill frontier restore` brings back a backup"
        raise BadInput(message, reason="corrupt", source=str(state))


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
