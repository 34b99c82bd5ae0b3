"""What a shard reports of itself, several times a second: enough for the view, the metrics and the budgets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

SLOWEST = 5


class ClusterProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How a crawl on many nodes stands, as one of them sees it."""

    nodes: int
    shards: int
    shards_here: int
    shards_nowhere: int
    pages: int
    notice: str = ""  # what it waits for


_STORED_NAMES = {  # what status files and other nodes know these fields by
    "page_resources": "requisites",
    "is_exhausted": "is_spent",
    "is_waiting": "is_resting",
    "next_due": "wake",
    "resource_due": "errand",
    "waiting_for": "awaited",
    "has_due_work": "is_hungry",
    "write_error": "trouble",
    "command_error": "complaint",
}


class CrawlProgress(msgspec.Struct, kw_only=True, rename=_STORED_NAMES):
    """How one shard stands, or all of them. `pages` and `waiting` are the crawl's; all other counts are since this
    process began."""

    shard: int
    pages: int = 0
    waiting: int = 0  # URLs
    in_hand: int = 0  # URLs that are being visited
    visited: int = 0  # URLs
    domains: int = 0
    domains_waiting: int = 0
    expired: int = 0  # leases
    granted: int = 0  # pages that it may fetch, in all
    revoked: int = 0  # how often it gave pages back
    turns: int = 0  # domains that are being visited
    fetched: int = 0  # responses, robots.txt and sitemaps included
    robots: int = 0  # requests for robots.txt
    page_resources: int = 0  # responses
    bytes: int = 0  # as they came over the wire
    links: int = 0  # new ones
    revisits: int = 0  # records that only say "unchanged"
    errors: dict[str, int] = {}
    refused: dict[str, int] = {}  # links and URLs that were not requested, by reason
    endings: dict[str, int] = {}  # links that were not followed because of their ending: pdf, jpg …
    statuses: dict[str, int] = {}  # 2xx, 3xx …
    slowest: list[tuple[str, float]] = []  # hosts and their seconds per response
    seconds: float = 0.0  # in fetches, all added up
    pace: float = 0.0  # seconds between two requests to a host, on average; 0.0: not known yet
    is_idle: bool = False  # nothing is due, or not soon enough to wait for it
    is_exhausted: bool = False  # the same of page resources
    is_waiting: bool = False  # nothing is requested at this moment, since nothing is due
    is_paused: bool = False  # a person has paused it: nothing is requested until it is resumed
    held: str = ""  # what it waits for before it requests anything more: where archives are to go
    uploads: str = ""  # what waits for the store that archives are uploaded to
    uploads_since: float | None = None
    next_due: float | None = None  # when the next domain is due; None: nothing waits
    resource_due: float | None = None  # when the next page resource is due
    revisit_due: float | None = None  # when the next page is to be visited again, by a later run
    revisits_left: int = 0  # pages that this run is still to visit again
    waiting_for: str = ""  # the domain that is due next, where that is known
    has_due_work: bool = False  # a domain is due, and is not visited yet
    work: int = 0  # grows with whatever is done: two equal values mean that nothing was
    write_error: str = ""  # why nothing can be written at the moment
    command_error: str = ""  # why the last command that failed did
    queue_age: float = 0.0  # seconds for which the longest due domain has waited
    probe: int = 0  # the last one that it answers
    is_stopping: bool = False  # running requests may end, none is begun
    nodes: ClusterProgress | None = None  # of a crawl on many


class HostTimings:
    """Seconds per response of the hosts that were asked last; bounded."""

    def __init__(self, most: int = 2000) -> None:
        self._most = most
        self._seconds: dict[str, tuple[int, float]] = {}

    def add(self, host: str, seconds: float) -> None:
        count, total = self._seconds.pop(host, (0, 0.0))
        self._seconds[host] = (count + 1, total + seconds)
        if len(self._seconds) > self._most:
            del self._seconds[next(iter(self._seconds))]

    def slowest(self) -> list[tuple[str, float]]:
        means = ((host, total / count) for host, (count, total) in self._seconds.items())
        return sorted(means, key=lambda pair: -pair[1])[:SLOWEST]


class PostponedDomains:
    """When each of the last visited domains is due again; bounded. The frontier tells the time of the next one only."""

    def __init__(self, most: int = 2000) -> None:
        self._most = most
        self._times: dict[str, tuple[float, ...]] = {}

    def add(self, domain: str, *times: float) -> None:
        self._times.pop(domain, None)
        self._times[domain] = times
        if len(self._times) > self._most:
            del self._times[next(iter(self._times))]

    def domain_due_at(self, time: float | None) -> str:
        """Return the domain that is due at `time`, or "" when it is not among the last ones."""
        if time is None:
            return ""
        return next((name for name, times in self._times.items() if any(abs(time - one) < 0.1 for one in times)), "")


def estimate_left(seen: CrawlProgress) -> float | None:
    """Return in about how many seconds all that is known now is fetched: domains are asked side by side, each at its
    pace. None when there is nothing to estimate."""
    urls = seen.waiting + seen.in_hand + seen.revisits_left
    if not urls or not seen.pace:
        return None
    return urls * seen.pace / max(1, seen.domains_waiting, seen.turns)


def has_no_page(total: CrawlProgress) -> bool:
    """Return whether all that a run has are errors and redirects, and it could have stored a page."""
    others = count_others(total)
    is_unchanged = total.statuses.get("2xx") or total.statuses.get("304")
    return not total.write_error and not is_unchanged and bool(total.pages <= others or others or total.errors)


def count_others(total: CrawlProgress) -> int:
    """Return how many answers of a run were neither a page nor "not modified"."""
    return sum(total.statuses.get(name, 0) for name in ("3xx", "4xx", "5xx"))


def sum_progress(parts: Iterable[CrawlProgress]) -> CrawlProgress:
    """Return the progress of all shards as one."""
    total = CrawlProgress(shard=-1, is_idle=True, is_exhausted=True, is_waiting=True)
    kinds: dict[str, Counter[str]] = {name: Counter() for name in COUNTS}
    for one in parts:
        for name in _SUMS:
            setattr(total, name, getattr(total, name) + getattr(one, name))
        for name, counts in kinds.items():
            counts.update(getattr(one, name))
        total.slowest += one.slowest
        total.is_idle &= one.is_idle
        total.is_exhausted &= one.is_exhausted
        total.is_waiting &= one.is_waiting
        total.is_paused |= one.is_paused
        total.held = total.held or one.held
        if one.next_due is not None and (total.next_due is None or one.next_due < total.next_due):
            total.next_due, total.waiting_for = one.next_due, one.waiting_for
        total.resource_due = earlier(total.resource_due, one.resource_due)
        total.revisit_due = earlier(total.revisit_due, one.revisit_due)
        total.write_error = total.write_error or one.write_error
        total.command_error = total.command_error or one.command_error
        total.queue_age = max(total.queue_age, one.queue_age)
        total.pace = max(total.pace, one.pace)
    for name, counts in kinds.items():
        setattr(total, name, dict(counts))
    total.slowest = sorted(total.slowest, key=lambda pair: -pair[1])[:SLOWEST]
    return total


def earlier(one: float | None, other: float | None) -> float | None:
    return min((time for time in (one, other) if time is not None), default=None)


COUNTS = ("errors", "refused", "endings", "statuses")  # by kind
_SUMS = [
    field.name
    for field in msgspec.structs.fields(CrawlProgress)
    if field.type in (int, float) and field.name not in ("shard", "queue_age", "pace")
]
