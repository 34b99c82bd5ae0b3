"""The state of a local frontier in one SQLite file: whose turn it is, and where its URLs lie.

docs/reference/frontier.md explains the tables. Every lookup goes by an index, every change is a row of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec

from webmill.crawl.frontier.base import (
    PAGE_RESOURCE,
    PRIORITIES,
    ClaimRequest,
    FrontierStats,
    LastVisit,
    RevisitRule,
)
from webmill.crawl.frontier.hops import pack_hops
from webmill.crawl.frontier.seen_urls import hash_url
from webmill.crawl.frontier.state import (
    DomainState,
    MadeVisit,
    PostponedRevisit,
    RetryEntry,
    StoredVisit,
    TurnRow,
    UrlRow,
    earliest,
    encode_json,
    stats_from,
)
from webmill.crawl.frontier.url_queue_files import hash_domain
from webmill.infra import sqlite

SCHEMA = sqlite.Schema(
    tag=int.from_bytes(b"WMfr"),
    steps=(
        """
        CREATE TABLE domain (
            id INTEGER PRIMARY KEY,  -- counts up: the order in which they came
            key INTEGER NOT NULL,  -- the first 64 bits of the hash of the name
            name TEXT NOT NULL,
            excluded INTEGER NOT NULL,
            token INTEGER NOT NULL,  -- of the turn that it has, or 0
            next REAL NOT NULL,  -- not to be asked before
            due REAL,  -- when it comes up, if something waits and it has no turn
            again REAL,  -- the same for its revisits, where that is earlier
            retries INTEGER NOT NULL,  -- rows in `retry`
            revisits INTEGER NOT NULL,  -- rows in `visit` with a time to visit again
            lanes TEXT NOT NULL  -- JSON: {priority: [read, end]}, positions in its files
        );
        CREATE INDEX domain_key ON domain (key);
        CREATE INDEX domain_due ON domain (due) WHERE due IS NOT NULL;
        CREATE INDEX domain_again ON domain (again) WHERE again IS NOT NULL;
        CREATE INDEX domain_excluded ON domain (name) WHERE excluded;

        CREATE TABLE turn (
            token INTEGER PRIMARY KEY,
            domain INTEGER NOT NULL,
            until REAL NOT NULL,
            items TEXT NOT NULL  -- JSON: [[url, depth, priority, attempts, place, visit], …] still in hand
        );
        CREATE INDEX turn_until ON turn (until);

        CREATE TABLE retry (
            domain INTEGER NOT NULL,
            priority INTEGER NOT NULL,
            place INTEGER NOT NULL,  -- its position in its lane
            not_before REAL NOT NULL,
            attempts INTEGER NOT NULL,
            depth INTEGER NOT NULL,
            url TEXT NOT NULL,
            PRIMARY KEY (domain, priority, place)
        ) WITHOUT ROWID;
        CREATE INDEX retry_time ON retry (domain, not_before);

        CREATE TABLE visit (
            id INTEGER PRIMARY KEY,
            key INTEGER NOT NULL,  -- the first 64 bits of the hash of the URL
            domain INTEGER NOT NULL,
            priority INTEGER NOT NULL,
            time REAL NOT NULL,
            again REAL,
            attempts INTEGER NOT NULL,  -- of the next visit
            body TEXT NOT NULL  -- JSON: the Visit
        );
        CREATE INDEX visit_key ON visit (key);
        CREATE INDEX visit_time ON visit (time);
        CREATE INDEX visit_again ON visit (domain, priority, again) WHERE again IS NOT NULL;

        CREATE TABLE gate (key TEXT PRIMARY KEY, time REAL NOT NULL) WITHOUT ROWID;
        CREATE TABLE robots (
            origin TEXT PRIMARY KEY,
            fetched REAL NOT NULL,
            expires REAL NOT NULL,
            status INTEGER NOT NULL,
            body BLOB NOT NULL,
            failing_since REAL NOT NULL
        );
        CREATE TABLE note (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
        CREATE TABLE tally (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;

        CREATE TABLE run (number INTEGER PRIMARY KEY, level INTEGER NOT NULL);
        CREATE TABLE journal (number INTEGER PRIMARY KEY, lines BLOB NOT NULL);
        """,
        # Lines have hops as well now, in what were the highest bits of the depth: those that are there have none.
        "ALTER TABLE retry ADD COLUMN hops INTEGER NOT NULL DEFAULT 0; DROP TABLE gate",
        # Page resources have a queue of their own, and a time of their own: `due`, if there were nothing else.
        """
        ALTER TABLE domain ADD COLUMN errand REAL;
        CREATE INDEX domain_errand ON domain (errand) WHERE errand IS NOT NULL;
        """,
    ),
)
PAGE = 1000
VISITS_AT_ONCE = 5000
SELECT_DOMAIN = (
    "SELECT id, name, excluded, token, next, due, again, errand, retries, revisits, lanes FROM domain WHERE "
)
# A seek for each priority, where a scan would read all revisits of a domain.
EARLIEST_REVISIT = """
    WITH RECURSIVE priority (number) AS (SELECT -1 UNION ALL SELECT number + 1 FROM priority WHERE number < 9)
    SELECT min((SELECT min(again) FROM visit WHERE domain = ? AND priority = number AND again IS NOT NULL))
    FROM priority
"""
LEASES_END = "SELECT min(max(until, next)) FROM turn JOIN domain ON domain.id = turn.domain WHERE NOT excluded"


_queues = msgspec.json.Decoder(dict[int, tuple[int, int]])
_urls = msgspec.json.Decoder(list[UrlRow])
_visit = msgspec.json.Decoder(LastVisit)


def decode_domain(row: Sequence[Any]) -> DomainState:
    """Return a domain from its columns, as `SELECT_DOMAIN` names them."""
    return DomainState(*(*row[:-1], _queues.decode(row[-1])))


def decode_visit(body: str) -> LastVisit:
    """Return a visit from its row. Older frontiers say `file` for `filename`; within a value the quotes are escaped."""
    return _visit.decode(body.replace(',"file":"', ',"filename":"', 1))


def key_of(hash_: bytes) -> int:
    return int.from_bytes(hash_[:8], signed=True)


class SqliteState:
    """A `FrontierState` in SQLite."""

    def __init__(self, path: Path) -> None:
        self.database = sqlite.Database(path, schema=SCHEMA)
        self.database.read("PRAGMA cache_size=-32768")  # KiB
        self.database.read("PRAGMA wal_autocheckpoint=8192")  # pages: less often, so that pages are written once

    def write(self) -> AbstractContextManager[sqlite.Run]:
        return self.database.write()

    def close(self) -> None:
        self.database.close()

    # Domains

    def find_domains(self, names: Iterable[str]) -> dict[str, DomainState]:
        keys = {key_of(hash_domain(name)) for name in names}
        rows = self.database.many(SELECT_DOMAIN + "key = ?", ((key,) for key in keys))
        return {row[1]: decode_domain(row) for row in rows}

    def load_domains(self, ids: Iterable[int]) -> dict[int, DomainState]:
        rows = self.database.many(SELECT_DOMAIN + "id = ?", ((id_,) for id_ in ids))
        return {row[0]: decode_domain(row) for row in rows}

    def all_domains(self) -> Iterator[DomainState]:
        last = 0
        while rows := self.database.read(SELECT_DOMAIN + "id > ? ORDER BY id LIMIT ?", (last, PAGE)):
            yield from (decode_domain(row) for row in rows)
            last = rows[-1][0]

    def reload_domain(self, domain: DomainState) -> DomainState:
        return self.load_domains([domain.id])[domain.id]

    def find_by_hash(self, hash_: bytes) -> DomainState | None:
        rows = self.database.read(SELECT_DOMAIN + "key = ?", (key_of(hash_),))
        domains = (decode_domain(row) for row in rows)
        return next((domain for domain in domains if domain.hash == hash_), None)

    def create_domains(self, names: Iterable[str]) -> dict[str, DomainState]:
        last = self.database.read("SELECT max(id) FROM domain")[0][0] or 0
        return {name: DomainState(id_, name, is_new=True) for id_, name in enumerate(names, last + 1)}

    def save_domains(self, domains: Iterable[DomainState]) -> None:
        new, old = [], []
        for row in domains:
            values = (row.excluded, row.token, row.not_before, row.due, row.revisit_due, row.retries, row.revisits)
            queues = encode_json(row.queues)
            if row.is_new:
                new.append((row.id, key_of(row.hash), row.name, *values, queues, row.resource_due))
            else:
                old.append((*values, queues, row.resource_due, row.id))
        self.database.many("INSERT INTO domain VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", new)
        update = (
            "UPDATE domain SET excluded = ?, token = ?, next = ?, due = ?, again = ?, retries = ?, revisits = ?,"
            " lanes = ?, errand = ? WHERE id = ?"
        )
        self.database.many(update, old)

    def save_queues(self, domains: Iterable[DomainState]) -> None:
        """Save the positions alone, which leaves the indexes untouched."""
        rows = ((encode_json(row.queues), row.id) for row in domains)
        self.database.many("UPDATE domain SET lanes = ? WHERE id = ?", rows)

    def due_domains(self, request: ClaimRequest) -> list[DomainState]:
        count, now, revisits = request.turns, request.now, request.revisits
        if request.resources_only:
            rows = self.database.read(SELECT_DOMAIN + "errand <= ? ORDER BY errand, id LIMIT ?", (now, count))
            return [decode_domain(row) for row in rows]
        rows = self.database.read(SELECT_DOMAIN + "due <= ? ORDER BY due, id LIMIT ?", (now, count))
        if revisits:
            rows += self.database.read(SELECT_DOMAIN + "again <= ? ORDER BY again, id LIMIT ?", (now, count))
        found = {row[0]: decode_domain(row) for row in rows}
        order = sorted(
            found.values(), key=lambda row: (earliest(row.due, row.revisit_due if revisits else None), row.id)
        )
        return order[:count]

    def next_turn(self, *, revisits: bool) -> float | None:
        again = ("SELECT min(again) FROM domain WHERE again IS NOT NULL",) if revisits else ()
        return self._earliest("SELECT min(due) FROM domain WHERE due IS NOT NULL", LEASES_END, *again)

    def next_resource_turn(self) -> float | None:
        return self._earliest("SELECT min(errand) FROM domain WHERE errand IS NOT NULL", LEASES_END)

    def _earliest(self, *questions: str) -> float | None:
        rows = self.database.read(" UNION ALL ".join(questions))
        return min((time for (time,) in rows if time is not None), default=None)

    # What waits

    def earliest_retry(self, domain: int) -> float:
        return float(self.database.read("SELECT min(not_before) FROM retry WHERE domain = ?", (domain,))[0][0])

    def earliest_resource_retry(self, domain: int) -> float | None:
        sql = "SELECT min(not_before) FROM retry WHERE domain = ? AND priority = ?"
        time: float | None = self.database.read(sql, (domain, PAGE_RESOURCE))[0][0]
        return time

    def earliest_revisit(self, domain: int) -> float:
        return float(self.database.read(EARLIEST_REVISIT, (domain,))[0][0])

    def due_retries(self, domain: int, *, now: float, count: int) -> list[UrlRow]:
        sql = (
            "SELECT url, depth, priority, attempts, place, 0, hops FROM retry WHERE domain = ? AND not_before <= ?"
            " ORDER BY priority, place LIMIT ?"
        )
        return [UrlRow(*row) for row in self.database.read(sql, (domain, now, count))]

    def due_revisits(self, domain: int, *, now: float, count: int) -> list[tuple[UrlRow, LastVisit]]:
        found: list[tuple[UrlRow, LastVisit]] = []
        sql = (
            "SELECT id, attempts, body FROM visit WHERE domain = ? AND priority = ? AND again <= ?"
            " ORDER BY again, id LIMIT ?"
        )
        for priority in range(PAGE_RESOURCE, PRIORITIES):
            for id_, attempts, body in self.database.read(sql, (domain, priority, now, count - len(found))):
                last = decode_visit(body)
                found.append((UrlRow(last.url, last.depth, priority, attempts, 0, id_, pack_hops(last)), last))
            if len(found) == count:
                break
        return found

    def add_retries(self, retries: Iterable[RetryEntry]) -> None:
        self.database.many("INSERT INTO retry VALUES (?, ?, ?, ?, ?, ?, ?, ?)", retries)

    def all_retries(self, domain: DomainState) -> Iterator[UrlRow]:
        after = (PAGE_RESOURCE - 1, 0)
        sql = (
            "SELECT url, depth, priority, attempts, place, 0, hops FROM retry"
            " WHERE domain = ? AND (priority, place) > (?, ?) ORDER BY priority, place LIMIT ?"
        )
        while page := [UrlRow(*row) for row in self.database.read(sql, (domain.id, *after, PAGE))]:
            yield from page
            after = (page[-1].priority, page[-1].position)

    def delete_retries(self, rows: Iterable[tuple[int, int, int]]) -> None:
        self.database.many("DELETE FROM retry WHERE domain = ? AND priority = ? AND place = ?", rows)

    # Turns

    def find_turns(self, tokens: Iterable[int]) -> dict[int, TurnRow]:
        sql = "SELECT token, domain, until, items FROM turn WHERE token = ?"
        rows = self.database.many(sql, ((token,) for token in tokens))
        return {token: TurnRow(domain, until, _urls.decode(items)) for token, domain, until, items in rows}

    def urls_in_hand(self, domain: DomainState) -> list[UrlRow]:
        return [url for turn in self.find_turns([domain.token]).values() for url in turn.urls] if domain.token else []

    def expired_turns(self, *, now: float) -> dict[int, TurnRow]:
        rows = self.database.read("SELECT token FROM turn WHERE until <= ?", (now,))
        return self.find_turns(token for (token,) in rows)

    def save_turns(self, turns: Iterable[tuple[int, TurnRow]]) -> None:
        values = ((token, turn.domain, turn.until, encode_json(turn.urls)) for token, turn in turns)
        self.database.many("INSERT OR REPLACE INTO turn VALUES (?, ?, ?, ?)", values)

    def delete_turns(self, tokens: Iterable[int]) -> None:
        self.database.many("DELETE FROM turn WHERE token = ?", ((token,) for token in tokens))

    # Visits

    def save_visits(self, visits: Iterable[MadeVisit]) -> None:
        first, later = [], []
        for row, domain, visit, revisit_due in visits:
            if row.visit_id:
                later.append((visit.time, revisit_due, encode_json(visit), row.visit_id))
            else:
                key = key_of(hash_url(visit.url.encode()))
                first.append((key, domain, row.priority, visit.time, revisit_due, encode_json(visit)))
        insert = "INSERT INTO visit (key, domain, priority, time, again, attempts, body) VALUES (?, ?, ?, ?, ?, 1, ?)"
        self.database.many(insert, first)
        self.database.many("UPDATE visit SET time = ?, again = ?, attempts = 1, body = ? WHERE id = ?", later)

    def postpone_revisits(self, revisits: Iterable[PostponedRevisit]) -> None:
        self.database.many("UPDATE visit SET again = max(again, ?), attempts = ? WHERE id = ?", revisits)

    def visit(self, url: str) -> LastVisit | None:
        rows = self.database.read("SELECT body FROM visit WHERE key = ?", (key_of(hash_url(url.encode())),))
        visits = (decode_visit(body) for (body,) in rows)
        return next((visit for visit in visits if visit.url == url), None)

    def find_visits(self, urls: Iterable[str]) -> dict[str, StoredVisit]:
        sql = (
            "SELECT visit.id, domain.name, priority, time, visit.again, body"
            " FROM visit JOIN domain ON domain.id = visit.domain WHERE visit.key = ?"
        )
        found = {}
        for url in urls:
            for id_, domain, priority, time, again, body in self.database.read(sql, (key_of(hash_url(url.encode())),)):
                if decode_visit(body).url == url:
                    found[url] = StoredVisit(id_, b"", domain, priority, time, again)
        return found

    def due_visits(self, rule: RevisitRule, *, now: float) -> Iterator[list[StoredVisit]]:
        last = 0
        sql = (  # a quote within a text of the body is escaped: these are keys
            "SELECT visit.id, domain.name, priority, time, visit.again"
            " FROM visit JOIN domain ON domain.id = visit.domain WHERE visit.id > ? AND visit.again IS NOT NULL"
            """ AND (visit.again <= ? OR iif(instr(body, '"gone":true') OR instr(body, '"error":"robots"')"""
            """ OR instr(body, '"error":"excluded"'), time + coalesce(json_extract(body, '$.interval'), 0.0),"""
            " time + max(?, min(visit.again - time, ?))) - ? <= ?) ORDER BY visit.id LIMIT ?"
        )
        values = (now, rule.shortest, rule.longest, rule.slack, now, VISITS_AT_ONCE)
        while rows := self.database.read(sql, (last, *values)):
            last = rows[-1][0]
            yield [StoredVisit(id_, b"", *columns) for id_, *columns in rows]

    def advance_revisits(self, visits: Iterable[StoredVisit], *, now: float) -> None:
        self.database.many(
            "UPDATE visit SET again = ?, attempts = 1 WHERE id = ?", ((now, visit.id) for visit in visits)
        )

    def delete_visits(self, visits: Iterable[StoredVisit]) -> None:
        self.database.many("DELETE FROM visit WHERE id = ?", ((visit.id,) for visit in visits))

    def visits_after(self, time: float, id_: int, *, count: int) -> list[tuple[int, LastVisit]]:
        sql = "SELECT id, body FROM visit WHERE (time, id) > (?, ?) ORDER BY time, id LIMIT ?"
        return [(row, decode_visit(body)) for row, body in self.database.read(sql, (time, id_, count))]

    # Counts

    def add_counts(self, changes: Counter[str]) -> None:
        sql = "INSERT INTO tally VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = value + excluded.value"
        self.database.many(sql, ((name, change) for name, change in sorted(changes.items()) if change))

    def counts(self) -> dict[str, int]:
        return dict(self.database.read("SELECT name, value FROM tally"))

    def stats(self) -> FrontierStats:
        return stats_from(self.counts())
