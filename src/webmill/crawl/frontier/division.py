"""Local frontiers whose domains are divided anew: each goes, with all that is known of it, to the one that owns it.

    rest ─▶ divide ─▶ complete ─▶ sum_content      the sums of all sources must be those of all targets

Sources are frontiers that were opened and closed: no turn is left, and no line is in the journal alone. Rows and lines
are copied as they are, at their positions; the exact set of known URLs is made anew, since a hash does not tell its
domain. Memory grows with neither URLs nor domains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, Self

import msgspec

from webmill.crawl.frontier.file_frontier import LINES_AT_ONCE, MAX_NEW_URLS, QUEUES_FOLDER, SEEN_FOLDER
from webmill.crawl.frontier.local import STATE_FILE, LocalFrontier
from webmill.crawl.frontier.queue_backup import read_parts
from webmill.crawl.frontier.seen_urls import SeenUrls, hash_url
from webmill.crawl.frontier.sqlite_schema import SCHEMA
from webmill.crawl.frontier.sqlite_state import SqliteState, decode_visit
from webmill.crawl.frontier.state import DomainState
from webmill.crawl.frontier.url_queue_files import QueuedLine, UrlQueue, UrlQueueFiles
from webmill.errors import BadInput, Unavailable
from webmill.infra import atomic
from webmill.infra.sqlite import Database, Row

PAGE = 1000
ROBOTS_AT_ONCE = 64  # each may have half a megabyte
HASHES_AT_ONCE = 10_000
OPEN_FILES, UNWRITTEN = 4, 1 << 18  # of each target: there may be hundreds
DOMAINS = (
    "SELECT id, name, key, excluded, next, due, again, retries, revisits, lanes, errand, rank FROM domain"
    " WHERE id > ? ORDER BY id LIMIT ?"
)
RETRIES = (
    "SELECT retry.domain, priority, place, name, domain.key, not_before, attempts, depth, url, hops"
    " FROM retry CROSS JOIN domain ON domain.id = retry.domain"
    " WHERE (retry.domain, priority, place) > (?, ?, ?) ORDER BY retry.domain, priority, place LIMIT ?"
)
VISITS = (
    "SELECT visit.id, name, domain.key, visit.key, priority, time, visit.again, attempts, body"
    " FROM visit CROSS JOIN domain ON domain.id = visit.domain WHERE visit.id > ? ORDER BY visit.id LIMIT ?"
)
ROBOTS = (
    "SELECT origin, fetched, expires, status, body, failing_since FROM robots WHERE origin > ? ORDER BY origin LIMIT ?"
)
ADD_DOMAIN = (
    "INSERT INTO domain (name, key, excluded, next, due, again, retries, revisits, lanes, errand, rank, token)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)"
)
ADD_RETRY = (
    "INSERT INTO retry (priority, place, domain, not_before, attempts, depth, url, hops)"
    " VALUES (?, ?, (SELECT id FROM domain WHERE name = ? AND key = ?), ?, ?, ?, ?, ?)"
)
ADD_VISIT = (
    "INSERT INTO visit (domain, key, priority, time, again, attempts, body)"
    " VALUES ((SELECT id FROM domain WHERE name = ? AND key = ?), ?, ?, ?, ?, ?, ?)"
)
ADD_ROBOTS = "INSERT INTO robots (origin, fetched, expires, status, body, failing_since) VALUES (?, ?, ?, ?, ?, ?)"

_encode = msgspec.msgpack.Encoder().encode
Owner = Callable[[str], int]  # of a domain, or of an origin: which frontier it belongs to


class RowSum(msgspec.Struct):
    """How many rows there are, and the sum of their hashes: equal for equal rows, whatever their order."""

    count: int = 0
    sum: int = 0

    def add(self, values: Row) -> None:
        self.count += 1
        digest = blake2b(_encode(tuple(values)), digest_size=16).digest()
        self.sum = (self.sum + int.from_bytes(digest)) % (1 << 128)

    def add_rows(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.add(row)

    def plus(self, other: RowSum) -> RowSum:
        return RowSum(self.count + other.count, (self.sum + other.sum) % (1 << 128))


class FrontierContent(msgspec.Struct, kw_only=True):
    """What frontiers hold, to be compared with what others hold."""

    domains: RowSum = msgspec.field(default_factory=RowSum)
    queued: RowSum = msgspec.field(default_factory=RowSum)
    retries: RowSum = msgspec.field(default_factory=RowSum)
    visits: RowSum = msgspec.field(default_factory=RowSum)
    robots: RowSum = msgspec.field(default_factory=RowSum)

    def plus(self, other: FrontierContent) -> FrontierContent:
        names = self.__struct_fields__
        return FrontierContent(**{name: getattr(self, name).plus(getattr(other, name)) for name in names})


class RestedFrontier:
    """The files of a local frontier that nobody has open, to be read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = SqliteState(folder / STATE_FILE)
        self.queues = UrlQueueFiles(folder / QUEUES_FOLDER)
        self.database = self.state.database

    def close(self) -> None:
        self.queues.close()
        self.state.close()

    def rows(self, sql: str, *, keys: int = 1, count: int = PAGE) -> Iterator[list[Row]]:
        """Yield rows some at a time; the first `keys` columns are their order."""
        after: tuple[Any, ...] = ("",) if sql is ROBOTS else (-1, -2, -1)[:keys]
        while page := self.database.read(sql, (*after, count)):
            yield page
            after = tuple(page[-1][:keys])

    def lines(self, domain: DomainState) -> Iterator[tuple[int, QueuedLine]]:
        """Yield the lines that wait in the queues of a domain, with their priority."""
        for priority, (position, end) in domain.queues.items():
            queue = UrlQueue(domain.hash, priority)
            while lines := self.queues.read(queue, position, end, count=LINES_AT_ONCE):
                yield from ((priority, line) for line in lines)
                position = lines[-1].end

    def urls(self) -> Iterator[str]:
        """Yield every URL that is known."""
        for domain in self.state.all_domains():
            for _, line in self.lines(domain):
                yield line.url
        for page in self.rows(RETRIES, keys=3):
            yield from (str(row[8]) for row in page)
        for page in self.rows(VISITS):
            yield from (decode_visit(str(row[8])).url for row in page)


def rest(folder: Path) -> None:
    """Open and close a frontier, which ends its turns and writes its journal's lines to their files."""
    LocalFrontier(folder).close()
    with Database(folder / STATE_FILE, schema=SCHEMA) as database:
        if database.read("SELECT 1 FROM journal LIMIT 1") or database.read("SELECT 1 FROM turn LIMIT 1"):
            raise Unavailable(f"{folder} could not be brought to rest: is its disk full? Make room, and run this again")


def divide(sources: Sequence[Path], targets: Sequence[Path], *, owner: Owner, was: Owner) -> None:
    """Copy all domains of the sources to the targets. `owner` tells which target a domain belongs to, `was` in which
    source it is. What a source knows of domains of others (that they are excluded) is left behind."""
    with ExitStack() as stack:
        made = [stack.enter_context(DividedFrontier(folder)) for folder in targets]
        for number, folder in enumerate(sources):
            source = RestedFrontier(folder)
            stack.callback(source.close)
            copy_rows(source, made, owner=owner, is_own=lambda name, own=number: was(name) == own)  # type: ignore[misc]


class DividedFrontier:
    """A frontier that is being made, row by row."""

    def __init__(self, folder: Path) -> None:
        atomic.make_folder(folder)
        self.database = Database(folder / STATE_FILE, schema=SCHEMA)
        self.queues = UrlQueueFiles(folder / QUEUES_FOLDER, max_open=OPEN_FILES, waiting=UNWRITTEN)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self.queues.flush()
        finally:
            self.queues.close()
            self.database.close()

    def insert(self, sql: str, rows: Iterable[Row]) -> None:
        with self.database.write_relaxed():
            self.database.many(sql, rows)


def copy_rows(
    source: RestedFrontier, targets: Sequence[DividedFrontier], *, owner: Owner, is_own: Callable[[str], bool]
) -> None:
    def insert(sql: str, rows: Iterable[Row], *, name: int, first: int) -> None:
        """`name` is the column of the domain or origin; the columns from `first` on are inserted."""
        found: dict[int, list[Row]] = {}
        for row in rows:
            found.setdefault(owner(str(row[name])), []).append(row[first:])
        for target, some in found.items():
            targets[target].insert(sql, some)

    for page in source.rows(DOMAINS):
        require_own(source, (str(row[1]) for row in page if has_urls(row)), is_own=is_own)
        insert(ADD_DOMAIN, (row for row in page if is_own(str(row[1]))), name=1, first=1)
    for domain in source.state.all_domains():
        if is_own(domain.name):
            for part in read_parts(domain, source.queues):
                queue = UrlQueue(domain.hash, part.priority)
                targets[owner(domain.name)].queues.write(queue, part.position, part.data)
    for page in source.rows(RETRIES, keys=3):
        insert(ADD_RETRY, page, name=3, first=1)
    for page in source.rows(VISITS):
        require_own(source, {str(row[1]) for row in page}, is_own=is_own)
        insert(ADD_VISIT, page, name=1, first=1)
    for page in source.rows(ROBOTS, count=ROBOTS_AT_ONCE):
        insert(ADD_ROBOTS, (row for row in page if is_own(str(row[0]))), name=0, first=0)


def has_urls(row: Row) -> bool:
    """Tell whether URLs of a domain wait, or are to be visited again. `row` is as `DOMAINS` names it."""
    queues = msgspec.json.decode(str(row[9]), type=dict[int, tuple[int, int]])
    return bool(row[7] or row[8] or any(read < end for read, end in queues.values()))


def require_own(source: RestedFrontier, domains: Iterable[str], *, is_own: Callable[[str], bool]) -> None:
    for domain in domains:
        if not is_own(domain):
            message = f"has URLs of {domain}, which belongs to another shard: `webmill frontier restore` a backup"
            raise BadInput(message, reason="corrupt", source=str(source.folder))


def complete(folder: Path, *, counts: Mapping[str, int], notes: Mapping[str, str]) -> None:
    """Add to a divided frontier what follows from its rows: its counts and the set of known URLs. `counts`: those that
    do not follow. BadInput: a URL is there twice."""
    source = RestedFrontier(folder)
    try:
        known = learn_urls(source, folder / SEEN_FOLDER)
        database = source.database
        visited, retries = count_rows(database, "visit"), count_rows(database, "retry")
        found = {
            "waiting": known - visited,
            "visited": visited,
            "revisits": count_rows(database, "visit WHERE again IS NOT NULL"),
            "domains": count_rows(database, "domain"),
            "domains_waiting": count_rows(database, "domain WHERE due IS NOT NULL"),
        }
        if found["waiting"] < retries:
            raise BadInput("fewer URLs than rows", reason="corrupt", source=str(folder))
        with database.write():
            rows = (found | dict(counts)).items()
            database.many("INSERT OR REPLACE INTO tally VALUES (?, ?)", rows)
            database.many("INSERT OR REPLACE INTO note VALUES (?, ?)", notes.items())
    finally:
        source.close()


def count_rows(database: Database, table: str) -> int:
    return int(database.read(f"SELECT count(*) FROM {table}")[0][0])  # noqa: S608  names of ours


def learn_urls(source: RestedFrontier, folder: Path) -> int:
    seen, count = SeenUrls(folder, source.database), 0
    try:
        every = (hash_url(url.encode()) for url in source.urls())
        while hashes := list(islice(every, HASHES_AT_ONCE)):
            if not all(seen.unknown(hashes)) or len(set(hashes)) < len(hashes):
                raise BadInput("a URL is in two places: restore a backup", reason="corrupt", source=str(source.folder))
            seen.add(hashes)
            count += len(hashes)
            if len(seen) >= MAX_NEW_URLS:
                write_run(seen, source.database)
            seen.advance(len(hashes))
        if len(seen):
            write_run(seen, source.database)
    finally:
        seen.close()
    return count


def write_run(seen: SeenUrls, database: Database) -> None:
    with seen.flushing() as number, database.write() as run:
        seen.register(run, number)


def sum_content(folder: Path, *, is_own: Callable[[str], bool]) -> FrontierContent:
    """Return what a frontier holds of its own domains; of others it may know that they are excluded."""
    source, found = RestedFrontier(folder), FrontierContent()
    try:
        for page in source.rows(DOMAINS):
            found.domains.add_rows(row[1:] for row in page if is_own(str(row[1])))
        for domain in source.state.all_domains():
            for priority, line in source.lines(domain):
                found.queued.add((domain.name, priority, line.start, line.depth, line.hops, line.url))
        for page in source.rows(RETRIES, keys=3):
            found.retries.add_rows(row[1:] for row in page)
        for page in source.rows(VISITS):
            found.visits.add_rows(row[1:] for row in page)
        for page in source.rows(ROBOTS, count=ROBOTS_AT_ONCE):
            found.robots.add_rows(row for row in page if is_own(str(row[0])))
    finally:
        source.close()
    return found


def read_counts(folder: Path) -> dict[str, int]:
    with Database(folder / STATE_FILE, schema=SCHEMA) as database:
        return dict(database.read("SELECT name, value FROM tally"))


def read_notes(folder: Path) -> dict[str, str]:
    with Database(folder / STATE_FILE, schema=SCHEMA) as database:
        return dict(database.read("SELECT name, value FROM note"))
