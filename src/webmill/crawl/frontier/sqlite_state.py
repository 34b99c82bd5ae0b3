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
    MOST_RANK,
    PAGE_RESOURCE,
    PRIORITIES,
    ClaimRequest,
    FrontierStats,
    LastVisit,
    RevisitRule,
)
from webmill.crawl.frontier.hops import pack_hops
from webmill.crawl.frontier.seen_urls import hash_url
from webmill.crawl.frontier.sqlite_schema import SCHEMA
from webmill.crawl.frontier.state import (
    DomainState,
    MadeVisit,
    PostponedRevisit,
    ReadyDomain,
    RetryEntry,
    StoredVisit,
    TurnRow,
    UrlRow,
    choose_ready,
    earliest,
    encode_json,
    stats_from,
)
from webmill.crawl.frontier.url_queue_files import hash_domain
from webmill.infra import sqlite

PAGE = 1000
VISITS_AT_ONCE = 5000
SELECT_DOMAIN = (
    "SELECT id, name, excluded, token, next, due, again, errand, retries, revisits, rank, lanes FROM domain WHERE "
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
                new.append((row.id, key_of(row.hash), row.name, *values, queues, row.resource_due, row.rank))
            else:
                old.append((*values, queues, row.resource_due, row.rank, row.id))
        self.database.many("INSERT INTO domain VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", new)
        update = (
            "UPDATE domain SET excluded = ?, token = ?, next = ?, due = ?, again = ?, retries = ?, revisits = ?,"
            " lanes = ?, errand = ?, rank = ? WHERE id = ?"
        )
        self.database.many(update, old)

    def save_queues(self, domains: Iterable[DomainState]) -> None:
        """Save the positions alone, which leaves the indexes untouched."""
        rows = ((encode_json(row.queues), row.id) for row in domains)
        self.database.many("UPDATE domain SET lanes = ? WHERE id = ?", rows)

    def due_domains(self, request: ClaimRequest, *, last: int) -> list[DomainState]:
        count, now = request.turns, request.now
        if request.resources_only:
            rows = self.database.read(SELECT_DOMAIN + "errand <= ? ORDER BY errand, id LIMIT ?", (now, count))
            return [decode_domain(row) for row in rows]
        times = ("due", "again") if request.revisits else ("due",)
        rows = [row for time in times for row in self._read_due(time, request)]
        found = {row[0]: decode_domain(row) for row in rows}
        ready = [
            ReadyDomain(earliest(row.due, row.revisit_due if request.revisits else None), row.id, row.rank)
            for row in found.values()
        ]
        return [found[id_] for id_ in choose_ready(ready, request, last=last)]

    def _read_due(self, time: str, request: ClaimRequest) -> list[sqlite.Row]:
        """Return the first ones by rank and the first ones of all: what is in neither cannot have the next turn."""
        count, now, rows = request.turns, request.now, list[sqlite.Row]()
        sql = SELECT_DOMAIN + f"rank = ? AND rank > 0 AND {time} <= ? ORDER BY {time}, id LIMIT ?"
        for rank in range(MOST_RANK, request.ranks_from - 1, -1):
            if len(rows) < count:
                rows += self.database.read(sql, (rank, now, count - len(rows)))
        return rows + self.database.read(SELECT_DOMAIN + f"{time} <= ? ORDER BY {time}, id LIMIT ?", (now, count))

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
