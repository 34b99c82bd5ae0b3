"""The coordination of a frontier whose URLs lie in files: whose turn it is, and how far each queue was read.

`FrontierState` is what `change`, `claiming` and `file_frontier` need of it. SQLite (`sqlite_state`) and Redis
(`redis.state`) each keep it in their own way; what is done with these rows is the same code for both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import msgspec

from webmill.crawl.frontier.base import (
    MOST_RANK,
    OLDEST_ONE_IN,
    PINNED_RANK,
    ClaimRequest,
    FrontierStats,
    LastVisit,
    RevisitRule,
)
from webmill.crawl.frontier.url_queue_files import hash_domain
from webmill.errors import BadInput

_encode = msgspec.json.Encoder().encode


class UrlRow(msgspec.Struct, frozen=True, array_like=True):
    """A URL in hand, or about to be. `visit_id` is the row of its last visit, or 0."""

    url: str
    depth: int
    priority: int
    attempts: int
    position: int  # in its queue
    visit_id: int
    hops: int = 0


class DomainState(msgspec.Struct):
    """A domain, while a transaction works on it."""

    id: int
    name: str
    excluded: int = 0
    token: int = 0  # of its turn, or 0
    not_before: float = 0.0  # not to be asked before
    due: float | None = None  # when it comes up, if something waits and it has no turn
    revisit_due: float | None = None  # the same for its revisits, where that is earlier
    resource_due: float | None = None  # `due`, if it had nothing but page resources
    retries: int = 0  # URLs that came back
    revisits: int = 0  # visits with a time to visit again
    rank: int = 0
    queues: dict[int, tuple[int, int]] = {}  # by priority: how far it was read, and its end
    is_new: bool = False

    @property
    def hash(self) -> bytes:
        return hash_domain(self.name)

    @property
    def has_queued_urls(self) -> bool:
        return any(read < end for read, end in self.queues.values())


class ReadyDomain(NamedTuple):
    """A domain that may have a turn: `since` when, and its number, which counts up as domains come."""

    since: float
    number: int
    rank: int


class TurnRow(NamedTuple):
    domain: int
    until: float
    urls: list[UrlRow]  # still in hand


class RetryEntry(NamedTuple):
    """A URL that came back, in the order of the columns."""

    domain: int
    priority: int
    position: int
    not_before: float
    attempts: int
    depth: int
    url: str
    hops: int


class MadeVisit(NamedTuple):
    row: UrlRow
    domain: int
    visit: LastVisit
    revisit_due: float | None


class PostponedRevisit(NamedTuple):
    not_before: float
    attempts: int
    visit_id: int


class StoredVisit(NamedTuple):
    """A visit as far as its next time is concerned."""

    id: int
    hash: bytes  # of its URL; empty where the id is enough
    domain: str
    priority: int
    time: float
    revisit_due: float | None


class FrontierState(Protocol):
    """All changes are made inside a `write` block, and count together when it ends. Domains that a transaction has not
    met are found by name only; ids are for those that it has."""

    def write(self) -> AbstractContextManager[object]: ...
    def close(self) -> None: ...

    # Domains

    def find_domains(self, names: Iterable[str]) -> dict[str, DomainState]:
        """Return those that exist."""
        ...

    def load_domains(self, ids: Iterable[int]) -> dict[int, DomainState]: ...
    def create_domains(self, names: Iterable[str]) -> dict[str, DomainState]: ...
    def save_domains(self, domains: Iterable[DomainState]) -> None: ...

    def save_queues(self, domains: Iterable[DomainState]) -> None:
        """Save domains of which nothing but the positions in queues has changed."""
        ...

    def due_domains(self, request: ClaimRequest, *, last: int) -> list[DomainState]:
        """Return the domains whose turn is next, in their order. `last` is the token of the last turn."""
        ...

    def all_domains(self) -> Iterator[DomainState]:
        """Yield all domains with something that waits or is in hand, as they are when they are read."""
        ...

    def reload_domain(self, domain: DomainState) -> DomainState: ...

    # Turns

    def find_turns(self, tokens: Iterable[int]) -> dict[int, TurnRow]: ...
    def expired_turns(self, *, now: float) -> dict[int, TurnRow]: ...
    def save_turns(self, turns: Iterable[tuple[int, TurnRow]]) -> None: ...
    def delete_turns(self, tokens: Iterable[int]) -> None: ...
    def urls_in_hand(self, domain: DomainState) -> list[UrlRow]: ...

    # What waits

    def due_retries(self, domain: int, *, now: float, count: int) -> list[UrlRow]: ...
    def due_revisits(self, domain: int, *, now: float, count: int) -> list[tuple[UrlRow, LastVisit]]: ...
    def all_retries(self, domain: DomainState) -> Iterator[UrlRow]: ...
    def add_retries(self, retries: Iterable[RetryEntry]) -> None: ...

    def delete_retries(self, rows: Iterable[tuple[int, int, int]]) -> None:
        """Delete by domain, priority and position."""
        ...

    def earliest_retry(self, domain: int) -> float: ...
    def earliest_revisit(self, domain: int) -> float: ...
    def earliest_resource_retry(self, domain: int) -> float | None: ...

    def next_turn(self, *, revisits: bool) -> float | None:
        """Return the earliest time of all domains, and of the leases that will end."""
        ...

    def next_resource_turn(self) -> float | None: ...

    # Visits and counts

    def save_visits(self, visits: Iterable[MadeVisit]) -> None: ...
    def postpone_revisits(self, revisits: Iterable[PostponedRevisit]) -> None: ...
    def visit(self, url: str) -> LastVisit | None: ...

    def find_visits(self, urls: Iterable[str]) -> dict[str, StoredVisit]:
        """Return the visits of those that were visited."""
        ...

    def due_visits(self, rule: RevisitRule, *, now: float) -> Iterator[list[StoredVisit]]:
        """Yield the visits that are to be repeated by `rule`, some at a time. What changes meanwhile may be missed."""
        ...

    def advance_revisits(self, visits: Iterable[StoredVisit], *, now: float) -> None:
        """Make these due now. Their domains are met already."""
        ...

    def delete_visits(self, visits: Iterable[StoredVisit]) -> None:
        """Forget that these were visited: they wait again."""
        ...

    def add_counts(self, changes: Counter[str]) -> None: ...
    def counts(self) -> dict[str, int]: ...


def choose_ready(ready: Iterable[ReadyDomain], request: ClaimRequest, *, last: int) -> list[int]:
    """Return the numbers of the domains that have the next turns: by rank and time, but now and then by time alone."""
    by_time = sorted(ready, key=lambda one: (one.since, one.number))
    count = (last + request.turns) // OLDEST_ONE_IN - last // OLDEST_ONE_IN
    by_rank = sorted(by_time[count:], key=lambda one: -one.rank if one.rank >= request.ranks_from else 0)
    return [one.number for one in (by_time[:count] + by_rank)[: request.turns]]


def checked_rank(rank: int) -> int:
    if not 0 <= rank <= MOST_RANK:
        raise BadInput(f"{rank} is no rank of a domain; use 0 to {MOST_RANK}", reason="bad_rank")
    return rank


def is_pinned(rank: int) -> bool:
    """Tell whether a person has given this rank."""
    return rank >= PINNED_RANK


def encode_json(value: Any) -> str:
    return _encode(value).decode()


def earliest(*times: float | None) -> float:
    return min(time for time in times if time is not None)


def stats_from(counts: dict[str, int]) -> FrontierStats:
    return FrontierStats(**{name: counts.get(name, 0) for name in FrontierStats.__struct_fields__})
