"""A domain and its URLs, as the frontier in memory has them."""

from __future__ import annotations

from collections.abc import Container

import msgspec

from webmill.crawl.frontier.base import PAGE_RESOURCE, PRIORITIES, ClaimRequest, LastVisit, RevisitRule, is_due
from webmill.crawl.frontier.hops import unpack_hops
from webmill.model import Link


class KnownUrl(msgspec.Struct, kw_only=True):
    """A URL and its state."""

    link: Link
    place: int
    state: str = "waiting"  # in hand, visited
    not_before: float | None = None  # None: it never was in hand
    attempts: int = 1  # of the next time
    last: LastVisit | None = None
    revisit_due: float | None = msgspec.field(default=None, name="again")

    def rank(self, request: ClaimRequest) -> tuple[int, int, float, int] | None:
        """Return its place in the queue; None when it is not to be asked now."""
        now = request.now
        if request.resources_only and (self.link.priority != PAGE_RESOURCE or self.state != "waiting"):
            return None
        if self.state == "waiting" and (self.not_before or 0.0) <= now:
            return (self.link.priority, 2 if self.not_before is None else 0, 0.0, self.place)
        if self.state == "visited" and request.revisits and self.revisit_due is not None and self.revisit_due <= now:
            return (self.link.priority, 1, self.revisit_due, self.place)
        return None

    def is_due(self, rule: RevisitRule, *, now: float) -> bool:
        """Tell whether it was visited and is due again by `rule`."""
        return self.last is not None and is_due(self.last, self.revisit_due, rule, now=now)


class MemoryDomain(msgspec.Struct, kw_only=True):
    name: str
    number: int
    urls: dict[str, KnownUrl] = {}
    next: float = 0.0
    due: float | None = None
    revisit_due: float | None = msgspec.field(default=None, name="again")  # `due`, when revisits count as well
    resource_due: float | None = msgspec.field(default=None, name="errand")  # `due`, when only page resources count
    token: int = 0
    until: float = 0.0
    is_excluded: bool = False
    rank: int = 0

    def in_hand(self) -> list[KnownUrl]:
        return [known for known in self.urls.values() if known.state == "in hand"]

    def schedule(self, since: float) -> None:
        """Set when it comes up: not before its time, nor before it has something. What was earlier already, stays."""
        waiting = self._waiting(range(PAGE_RESOURCE, PRIORITIES))
        revisits = [
            known.revisit_due
            for known in self.urls.values()
            if known.state == "visited" and known.revisit_due is not None
        ]
        self.due = self._earlier(self.due, waiting, since)
        self.revisit_due = self._earlier(self.revisit_due, waiting + revisits, since)
        self.resource_due = self._earlier(self.resource_due, self._waiting([PAGE_RESOURCE]), since)

    def _waiting(self, priorities: Container[int]) -> list[float]:
        return [
            known.not_before or 0.0
            for known in self.urls.values()
            if known.state == "waiting" and known.link.priority in priorities
        ]

    def due_time(self, *, revisits: bool, resources_only: bool) -> float | None:
        return self.resource_due if resources_only else self.revisit_due if revisits else self.due

    def _earlier(self, before: float | None, times: list[float], since: float) -> float | None:
        if self.token or self.is_excluded or not times:
            return None
        time = max(self.next, since, min(times))
        return time if before is None else min(before, time)


def as_kept(link: Link, hops: int) -> Link:
    """Return the link as another frontier reads it from its line."""
    return Link(link.url, link.depth, link.priority, *unpack_hops(link.priority, hops))


def give_back(known: KnownUrl, *, not_before: float, attempts: int) -> None:
    """Let a URL wait again. One that was visited before stays visited, to be visited again."""
    known.attempts = attempts
    if known.last is None:
        known.state, known.not_before = "waiting", not_before
    else:
        known.state, known.revisit_due = "visited", max(known.revisit_due or 0.0, not_before)
