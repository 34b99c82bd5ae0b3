"""One request, sent when it may be: times of its host, domain and address are booked, durably, before it is sent."""

from __future__ import annotations

import asyncio
from typing import Protocol
from weakref import WeakValueDictionary

import msgspec

from webmill.crawl.fetch import Failed, Fetched, Fetcher, Request
from webmill.crawl.frontier.base import domain_of
from webmill.flows.crawl.gates import Booking, Kept
from webmill.flows.crawl.options import Manners
from webmill.flows.crawl.snapshot import Hosts, Snapshot
from webmill.formats.urls import host_of
from webmill.infra.clock import SteadyClock


class Booker(Protocol):
    async def book(self, booking: Booking) -> float | None:
        """None: these times are ours, durably. Else when to try again."""
        ...

    def correct(self, gates: dict[str, Kept]) -> None:
        """Soon: what became of a booking."""
        ...


class Busy(msgspec.Struct, frozen=True):
    """Not now: its host, its domain or its address was asked too short a time ago."""

    until: float


class Asked(msgspec.Struct, frozen=True):
    """`free` is when host, domain and address may all be asked again."""

    answer: Fetched | Failed
    sent: float
    free: float


class Asker:
    def __init__(self, fetcher: Fetcher, manners: Manners, booker: Booker, *, clock: SteadyClock) -> None:
        self._fetcher, self._manners, self._booker, self._clock = fetcher, manners, booker, clock
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # of hosts that are asked now
        self.hosts = Hosts()
        self.fetched = self.bytes = 0
        self.seconds = 0.0

    async def ask(self, url: str, *, headers: tuple[tuple[str, str], ...] = (), delay: float) -> Asked | Busy:
        async with self._alone_on(host_of(url)):
            address = await self._fetcher.locate(url)
            if isinstance(address, Failed):
                return Asked(address, self._clock(), self._clock())
            waits = self._waits(url, address.ip, delay)
            booked = await self._booked(waits)
            if isinstance(booked, Busy):
                return booked
            sent = self._clock()
            answer = await self._fetcher.fetch(Request(url=url, headers=headers), address)
        self._count(url, answer)
        if isinstance(answer, Fetched):  # connecting may have taken long
            sent = max(sent, self._clock() - answer.exchange.seconds)
        elif answer.sent:
            sent = self._clock()
        if booked:
            self._booker.correct({key: Kept(until, sent + waits[key]) for key, until in booked.items()})
        return Asked(answer, sent, sent + max(waits.values(), default=0.0))

    def hold(self, url: str, until: float) -> None:
        """Its host has said so."""
        self._booker.correct({f"host:{host_of(url)}": Kept(0.0, until)})

    def _alone_on(self, host: str) -> asyncio.Lock:
        """A domain has one turn at a time; but a robots.txt may lead to hosts whose turn somebody else has."""
        return self._locks.setdefault(host, asyncio.Lock())

    def _waits(self, url: str, ip: str, delay: float) -> dict[str, float]:
        """A domain is asked as often as the operator says, a host maybe less often, an address that many share more."""
        manners = self._manners
        waits = {
            f"host:{host_of(url)}": delay,
            f"domain:{domain_of(url)}": manners.delay,
            f"addr:{ip}": min(delay, manners.address_delay),
        }
        return {key: wait for key, wait in waits.items() if wait}

    async def _booked(self, waits: dict[str, float]) -> dict[str, float] | Busy:
        """It holds for a request that is on its way within the window: not after a long pause of this process."""
        if not waits:
            return {}
        booking = Booking(now=self._clock(), window=self._manners.window, waits=waits)
        until = await self._booker.book(booking)
        if until is None and self._clock() - booking.now >= self._manners.window - self._manners.connect_time:
            until = self._clock()
        return {key: booking.until(key) for key in waits} if until is None else Busy(until)

    def _count(self, url: str, answer: Fetched | Failed) -> None:
        if isinstance(answer, Fetched):
            self.fetched += 1
            self.bytes += len(answer.exchange.response)
            self.seconds += answer.exchange.seconds
            self.hosts.note(host_of(url), answer.exchange.seconds)

    def fill(self, snapshot: Snapshot) -> None:
        snapshot.fetched, snapshot.bytes, snapshot.seconds = self.fetched, self.bytes, self.seconds
        snapshot.slowest = self.hosts.slowest()
