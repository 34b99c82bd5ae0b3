"""One request, sent when it may be: times of its host, domain and address are booked, durably, before it is sent."""

from __future__ import annotations

import asyncio
from typing import Protocol
from weakref import WeakValueDictionary

import msgspec

from webmill.crawl.fetch import (
    AddressRules,
    DnsResolver,
    FetchedResponse,
    FetchFailure,
    FetchLimits,
    FetchRequest,
    HttpFetcher,
)
from webmill.crawl.frontier.base import domain_of
from webmill.crawl.options import Limits, Manners, Reach
from webmill.crawl.politeness.host_schedule import Booking, Kept
from webmill.crawl.progress import Hosts, Snapshot
from webmill.formats.url.normalise import host_of
from webmill.infra.clock import SteadyClock


class Booker(Protocol):
    async def book(self, booking: Booking) -> float | None:
        """None: these times are ours, durably. Else when to try again."""
        ...

    def correct(self, gates: dict[str, Kept]) -> None:
        """Soon: what became of a booking."""
        ...


class Pace(msgspec.Struct, frozen=True):
    """What a request is for, and what the robots.txt of its host asks for between any two."""

    is_requisite: bool = False
    crawl_delay: float = 0.0

    def delay(self, manners: Manners) -> float:
        """Until the host may be asked for one more of its kind. A robots.txt may ask for more than the operator, also
        where he asked for none."""
        return max(manners.soon if self.is_requisite else manners.delay, self.crawl_delay)


class Busy(msgspec.Struct, frozen=True):
    """Not now: its host, its domain or its address was asked too short a time ago."""

    until: float


class Asked(msgspec.Struct, frozen=True):
    """`free` is when host, domain and address may all be asked again."""

    answer: FetchedResponse | FetchFailure
    sent: float
    free: float


def open_fetcher(manners: Manners, limits: Limits, reach: Reach, *, connections: int) -> HttpFetcher:
    return HttpFetcher(
        user_agent=manners.user_agent,
        limits=FetchLimits(body=limits.body, total=limits.deadline, connect=manners.connect_time / 2),
        address_rules=AddressRules(allow_private=reach.allow_private),
        resolver=DnsResolver(fixed=reach.resolve),
        tls=reach.tls,
        connections=connections,
    )


class Asker:
    def __init__(
        self, fetcher: HttpFetcher, manners: Manners, booker: Booker, *, clock: SteadyClock, requisites: bool = False
    ) -> None:
        self._fetcher, self.manners, self._booker, self._clock = fetcher, manners, booker, clock
        self._requisites = requisites  # are asked for as well
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # of hosts that are asked now
        self.hosts = Hosts()
        self.fetched = self.bytes = 0
        self.seconds = 0.0

    async def ask(
        self, url: str, *, headers: tuple[tuple[str, str], ...] = (), pace: Pace, at_least: int = 0
    ) -> Asked | Busy:
        async with self._alone_on(host_of(url)):
            address = await self._fetcher.locate(url)
            if isinstance(address, FetchFailure):
                return Asked(address, self._clock(), self._clock())
            waits = self._waits(url, address.ip, pace)
            booked = await self._booked(waits)
            if isinstance(booked, Busy):
                return booked
            sent = self._clock()
            answer = await self._fetcher.fetch(FetchRequest(url=url, headers=headers, at_least=at_least), address)
        self._count(url, answer)
        if isinstance(answer, FetchedResponse):  # connecting may have taken long
            sent = max(sent, self._clock() - answer.exchange.seconds)
        elif answer.sent:
            sent = self._clock()
        if booked:
            self._booker.correct({key: Kept(until, sent + waits[key]) for key, until in booked.items()})
        return Asked(answer, sent, sent + max(waits.values(), default=0.0))

    def hold(self, url: str, until: float) -> None:
        """Its host has said so."""
        keys = ("host", "soon-host") if self._requisites else ("host",)
        self._booker.correct({f"{key}:{host_of(url)}": Kept(0.0, until) for key in keys})

    def _alone_on(self, host: str) -> asyncio.Lock:
        """A domain has one turn at a time; but a robots.txt may lead to hosts whose turn somebody else has."""
        return self._locks.setdefault(host, asyncio.Lock())

    def _waits(self, url: str, ip: str, pace: Pace) -> dict[str, float]:
        """A domain is asked as often as the operator says, a host maybe less often, an address that many share more.
        A requisite waits for what was asked last, whatever that was, and not for the time of the next page."""
        manners, host, domain = self.manners, host_of(url), domain_of(url)
        delay = max(manners.delay, pace.crawl_delay)
        waits = {f"addr:{ip}": min(delay, manners.address_delay)}
        if not pace.is_requisite:
            domain_delay = manners.delay if manners.domain_delay is None else manners.domain_delay
            waits |= {f"host:{host}": delay, f"domain:{domain}": domain_delay}
        if self._requisites:
            waits |= {f"soon-host:{host}": max(manners.soon, pace.crawl_delay), f"soon-domain:{domain}": manners.soon}
        return {key: wait for key, wait in waits.items() if wait}

    async def _booked(self, waits: dict[str, float]) -> dict[str, float] | Busy:
        """It holds for a request that is on its way within the window: not after a long pause of this process."""
        if not waits:
            return {}
        booking = Booking(now=self._clock(), window=self.manners.window, waits=waits)
        until = await self._booker.book(booking)
        if until is None and self._clock() - booking.now >= self.manners.window - self.manners.connect_time:
            until = self._clock()
        return {key: booking.until(key) for key in waits} if until is None else Busy(until)

    def _count(self, url: str, answer: FetchedResponse | FetchFailure) -> None:
        if isinstance(answer, FetchedResponse):
            self.fetched += 1
            self.bytes += len(answer.exchange.response)
            self.seconds += answer.exchange.seconds
            self.hosts.note(host_of(url), answer.exchange.seconds)

    def fill(self, snapshot: Snapshot) -> None:
        snapshot.fetched, snapshot.bytes, snapshot.seconds = self.fetched, self.bytes, self.seconds
        snapshot.slowest = self.hosts.slowest()
