"""The three tables of the crawler that kept its frontier in PostgreSQL, and what their rows mean here.

    visited_urls     url, crawled_timestamp, http_status_code; its content_storage_path, redirected_to_url are left
    frontier         url, domain, depth, added_timestamp
    domain_metadata  domain, robots_txt_content, robots_txt_expires_timestamp, is_manually_excluded,
                     last_scheduled_fetch_timestamp

Each is read in an order that is total but for equal rows, so that reading can continue from any key. The order is that
of bytes, whatever the locale of the database. Times are seconds since 1970, or timestamps.

`read` rejects a row with `BadInput`; `commit` is one step of a shard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, Protocol

import msgspec

from webmill.compat.frontier.postgres import DatabaseSnapshot, Row
from webmill.crawl.frontier.base import (
    MOST_DEPTH,
    CommitResult,
    Frontier,
    FrontierUpdate,
    LastVisit,
    RobotsEntry,
    VisitDone,
)
from webmill.crawl.seeds import parse_domain, parse_seed
from webmill.errors import BadInput, Misconfigured
from webmill.infra.clock import SteadyClock
from webmill.infra.host_schedule.fixed_delays import HostSchedule, ReservationUpdate
from webmill.model import Link

_NUMBERS = frozenset({"int2", "int4", "int8", "float4", "float8", "numeric"})
_TIMES = frozenset({"timestamp", "timestamptz"})
DAY = 86400.0
DELAY = 70.0  # of the old crawler, from one request to a domain to the next
ROBOTS_AGE = DAY  # for which it kept a robots.txt
# What it noted instead of a status where there was no answer.
NO_ANSWER = {
    900: "imported: failed",
    901: "imported: no connection",
    902: "imported: timeout",
    0: "imported: no status",
}


class SourceTable(msgspec.Struct, frozen=True):
    name: str
    key: tuple[str, ...]  # the order; the first columns of a row
    columns: tuple[str, ...]  # the others


VISITED = SourceTable("visited_urls", ("crawled_timestamp", "url"), ("http_status_code",))
FRONTIER = SourceTable("frontier", ("domain", "added_timestamp", "url"), ("depth",))
DOMAINS = SourceTable(
    "domain_metadata",
    ("domain",),
    (
        "robots_txt_content",
        "robots_txt_expires_timestamp",
        "is_manually_excluded",
        "last_scheduled_fetch_timestamp",
    ),
)


def select_query(table: SourceTable, database: DatabaseSnapshot, *, start: Sequence[str | float]) -> str:
    """Return the query for all rows from this key on, sorted: key first, then the other columns."""
    types = database.columns(table.name)
    missing = [column for column in (*table.key, *table.columns) if column not in types]
    if missing:
        message = f"the table {table.name} has no column {', '.join(missing)}: is this the crawler's database?"
        raise Misconfigured(message)
    key = [_key(column, types) for column in table.key]
    others = [_value(column, types) for column in table.columns]
    places = ", ".join(["%s"] * len(start))
    where = f" WHERE ({', '.join(key)}) >= ({places})" if start else ""
    return f'SELECT {", ".join([*key, *others])} FROM "{table.name}"{where} ORDER BY {", ".join(key)}'  # noqa: S608


def _key(column: str, types: Mapping[str, str]) -> str:
    value = _value(column, types)
    if types[column] in _NUMBERS | _TIMES:
        return f"coalesce({value}, 0)"
    return f"coalesce({value}::text, '') COLLATE \"C\""


def _value(column: str, types: Mapping[str, str]) -> str:
    if types[column] in _TIMES:
        return f'extract(epoch FROM "{column}")::float8'
    return f'"{column}"::float8' if types[column] in _NUMBERS else f'"{column}"'


def to_number(value: Any) -> float:
    """Return a number; 0 for an empty column, `NaN` and `Infinity`."""
    return float(value) if isinstance(value, int | float) and isfinite(value) else 0.0


class TableReader(Protocol):
    table: SourceTable
    adds_urls: bool

    def read(self, row: Row) -> Any: ...

    def url(self, record: Any) -> str:
        """Return the URL that decides which shard the row belongs to."""
        ...

    def commit(self, frontier: Frontier, records: Sequence[Any], notes: Mapping[str, str]) -> CommitResult:
        """Commit the records and notes atomically; harmless when repeated."""
        ...


class WaitingRows:
    table, adds_urls = FRONTIER, True

    def __init__(self, *, priority: int, clock: Callable[[], float]) -> None:
        self._priority, self._clock = priority, clock

    def read(self, row: Row) -> Link:
        _, _, url, depth = row
        steps = int(to_number(depth))
        if not 0 <= steps <= MOST_DEPTH:
            raise BadInput(f"depth {depth}", reason="bad_depth")
        return Link(parse_seed(url), depth=steps, priority=self._priority)

    def url(self, record: Link) -> str:
        return record.url

    def commit(self, frontier: Frontier, records: Sequence[Link], notes: Mapping[str, str]) -> CommitResult:
        return frontier.commit(FrontierUpdate(links=records, notes=notes), now=self._clock())


class VisitedRows:
    """Visited URLs. They are no pages of this crawl, which has no records of them."""

    table, adds_urls = VISITED, True

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock

    def read(self, row: Row) -> VisitDone:
        time, url, code = row
        status = int(to_number(code))
        error = NO_ANSWER.get(status, "")
        return VisitDone(
            LastVisit(url=parse_seed(url), time=to_number(time), status=0 if error else status, error=error),
            is_page=False,
        )

    def url(self, record: VisitDone) -> str:
        return record.url

    def commit(self, frontier: Frontier, records: Sequence[VisitDone], notes: Mapping[str, str]) -> CommitResult:
        return frontier.commit(FrontierUpdate(visited=records, notes=notes), now=self._clock())


class DomainRow(msgspec.Struct, frozen=True):
    name: str
    robots: tuple[RobotsEntry, ...]
    is_excluded: bool
    next: float  # no request before this time


class DomainRows:
    """Domains. Their robots.txt was fetched by https, then http, from the domain itself: so it is known for these two.

    An empty one may have been an error of the server, which was not distinguished: it is fetched again.
    """

    table, adds_urls = DOMAINS, False

    def __init__(self, gates: HostSchedule, *, clock: SteadyClock) -> None:
        self._gates, self._clock = gates, clock

    def read(self, row: Row) -> DomainRow:
        name, robots, expires, excluded, last = row
        domain = parse_domain(name)
        latest = self._clock() + DAY  # nothing is kept for longer; later times are what a wrong clock leaves behind
        next_ = min(to_number(last) + DELAY, latest) if to_number(last) else 0.0
        kept = robots_of(domain, robots, min(to_number(expires), latest))
        return DomainRow(domain, kept, bool(to_number(excluded)), next_)

    def url(self, record: DomainRow) -> str:
        return f"http://{record.name}/"

    def commit(self, frontier: Frontier, records: Sequence[DomainRow], notes: Mapping[str, str]) -> CommitResult:
        frontier.exclude(domain.name for domain in records if domain.is_excluded)
        now = self._clock()
        held = {f"domain:{one.name}": ReservationUpdate(0.0, one.next) for one in records if one.next > now}
        if held:
            self._gates.update([held], clock=self._clock)
        robots = [each for domain in records for each in domain.robots]
        return frontier.commit(FrontierUpdate(robots=robots, notes=notes), now=now)


def robots_of(domain: str, content: str | None, expires: float) -> tuple[RobotsEntry, ...]:
    body = (content or "").encode("utf-8", "surrogateescape")
    if not body.strip():
        return ()
    fetched = max(expires - ROBOTS_AGE, 0.0)
    return tuple(
        RobotsEntry(origin=f"{scheme}://{domain}", fetched=fetched, expires=expires, status=200, body=body)
        for scheme in ("https", "http")
    )
