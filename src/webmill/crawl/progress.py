"""What a shard tells of itself, several times a second: small, and enough for the view, the metrics and the budgets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

SLOWEST = 5


class Nodes(msgspec.Struct, frozen=True, kw_only=True):
    """How a crawl on many nodes stands, as one of them sees it."""

    nodes: int
    shards: int
    shards_here: int
    shards_nowhere: int
    pages: int
    notice: str = ""  # what it waits for


class Snapshot(msgspec.Struct, kw_only=True):
    """`pages` and `waiting` are the crawl's; all other counts are since this process began."""

    shard: int
    pages: int = 0
    waiting: int = 0
    in_hand: int = 0
    visited: int = 0
    domains: int = 0
    domains_waiting: int = 0
    expired: int = 0
    granted: int = 0
    revoked: int = 0  # how often pages were given back
    turns: int = 0  # domains that are asked at this moment
    fetched: int = 0  # answers, robots.txt and sitemaps included
    robots: int = 0
    requisites: int = 0
    bytes: int = 0  # as they came over the wire
    links: int = 0  # new ones
    revisits: int = 0  # records that only say "as before"
    errors: dict[str, int] = {}
    refused: dict[str, int] = {}  # links and URLs that were not asked, by reason
    endings: dict[str, int] = {}  # links that were not followed since they end so: pdf, jpg …
    statuses: dict[str, int] = {}  # 2xx, 3xx …
    slowest: list[tuple[str, float]] = []  # hosts and their seconds per answer
    seconds: float = 0.0  # in fetches, all added up
    is_idle: bool = False  # nothing can be asked, or not soon enough to wait for it
    is_spent: bool = False  # the same of requisites
    is_resting: bool = False  # nothing is asked at this moment, since nothing may be
    wake: float | None = None  # when it may; None: nothing waits
    errand: float | None = None  # likewise, of requisites
    awaited: str = ""  # the domain that may be asked then, where that is known
    is_hungry: bool = False  # a domain may be asked now, and is not
    work: int = 0  # grows with whatever is done: two equal ones mean that nothing was
    trouble: str = ""  # why nothing is written at the moment
    complaint: str = ""  # why the last order that failed did
    queue_age: float = 0.0  # seconds that a domain waits which may be asked: the longest
    probe: int = 0  # the last one that it answers
    is_stopping: bool = False  # what is under way may end, nothing else is begun
    nodes: Nodes | None = None  # of a crawl on many


class Hosts:
    """Seconds per answer of the hosts asked last; bounded."""

    def __init__(self, most: int = 2000) -> None:
        self._most = most
        self._seconds: dict[str, tuple[int, float]] = {}

    def note(self, host: str, seconds: float) -> None:
        count, total = self._seconds.pop(host, (0, 0.0))
        self._seconds[host] = (count + 1, total + seconds)
        if len(self._seconds) > self._most:
            del self._seconds[next(iter(self._seconds))]

    def slowest(self) -> list[tuple[str, float]]:
        means = ((host, total / count) for host, (count, total) in self._seconds.items())
        return sorted(means, key=lambda pair: -pair[1])[:SLOWEST]


class Postponed:
    """Which domain may be asked when, of those that were asked last; bounded. A frontier tells the time alone."""

    def __init__(self, most: int = 2000) -> None:
        self._most = most
        self._times: dict[str, tuple[float, ...]] = {}

    def note(self, domain: str, *times: float) -> None:
        self._times.pop(domain, None)
        self._times[domain] = times
        if len(self._times) > self._most:
            del self._times[next(iter(self._times))]

    def find(self, time: float | None) -> str:
        """Empty when it was not one of those."""
        if time is None:
            return ""
        return next((name for name, times in self._times.items() if any(abs(time - one) < 0.1 for one in times)), "")


def added(snapshots: Iterable[Snapshot]) -> Snapshot:
    """All shards as one."""
    total = Snapshot(shard=-1, is_idle=True, is_spent=True, is_resting=True)
    kinds: dict[str, Counter[str]] = {name: Counter() for name in COUNTS}
    for one in snapshots:
        for name in _SUMS:
            setattr(total, name, getattr(total, name) + getattr(one, name))
        for name, counts in kinds.items():
            counts.update(getattr(one, name))
        total.slowest += one.slowest
        total.is_idle &= one.is_idle
        total.is_spent &= one.is_spent
        total.is_resting &= one.is_resting
        if one.wake is not None and (total.wake is None or one.wake < total.wake):
            total.wake, total.awaited = one.wake, one.awaited
        total.errand = min((time for time in (total.errand, one.errand) if time is not None), default=None)
        total.trouble = total.trouble or one.trouble
        total.complaint = total.complaint or one.complaint
        total.queue_age = max(total.queue_age, one.queue_age)
    for name, counts in kinds.items():
        setattr(total, name, dict(counts))
    total.slowest = sorted(total.slowest, key=lambda pair: -pair[1])[:SLOWEST]
    return total


COUNTS = ("errors", "refused", "endings", "statuses")  # by kind
_SUMS = [
    field.name
    for field in msgspec.structs.fields(Snapshot)
    if field.type in (int, float) and field.name not in ("shard", "queue_age")
]
