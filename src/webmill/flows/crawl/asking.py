"""One request, sent when it may be: the times of its host and its address are booked, durably, before it is sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from webmill.crawl.fetch import Failed, Fetched, Fetcher, Request
from webmill.flows.crawl.options import Manners
from webmill.flows.crawl.snapshot import Hosts, Snapshot
from webmill.formats.urls import host_of
from webmill.infra.clock import SteadyClock

Book = Callable[[dict[str, float]], Awaitable[float | None]]


class Busy(msgspec.Struct, frozen=True):
    """Not now: its host or its address was asked too short a time ago."""

    until: float


class Asked(msgspec.Struct, frozen=True):
    """`gates` are until when host and address are not to be asked again."""

    answer: Fetched | Failed
    sent: float
    gates: dict[str, float]


class Asker:
    def __init__(self, fetcher: Fetcher, manners: Manners, book: Book, *, clock: SteadyClock) -> None:
        self._fetcher, self._manners, self._book, self._clock = fetcher, manners, book, clock
        self.hosts = Hosts()
        self.fetched = self.bytes = 0
        self.seconds = 0.0

    async def ask(self, url: str, *, headers: tuple[tuple[str, str], ...] = (), delay: float) -> Asked | Busy:
        address = await self._fetcher.locate(url)
        if isinstance(address, Failed):
            return Asked(address, self._clock(), {})
        keys = {f"host:{host_of(url)}": delay, f"addr:{address.ip}": min(delay, self._manners.address_delay)}
        if delay and (busy := await self._booked(keys)):
            return busy
        sent = self._clock()
        answer = await self._fetcher.fetch(Request(url=url, headers=headers), address)
        self._count(url, answer)
        if isinstance(answer, Fetched):  # connecting may have taken long
            sent = max(sent, self._clock() - answer.exchange.seconds)
        elif answer.sent:
            sent = self._clock()
        return Asked(answer, sent, {key: sent + wait for key, wait in keys.items()} if delay else {})

    async def _booked(self, delays: dict[str, float]) -> Busy | None:
        """A booking holds for a request that is sent within a window: not after a long pause of this process."""
        now = self._clock()
        until = await self._book({key: now + self._manners.window + wait for key, wait in delays.items()})
        if until is None and self._clock() - now >= self._manners.window:
            until = self._clock()
        return None if until is None else Busy(until)

    def _count(self, url: str, answer: Fetched | Failed) -> None:
        if isinstance(answer, Fetched):
            self.fetched += 1
            self.bytes += len(answer.exchange.response)
            self.seconds += answer.exchange.seconds
            self.hosts.note(host_of(url), answer.exchange.seconds)

    def fill(self, snapshot: Snapshot) -> None:
        snapshot.fetched, snapshot.bytes, snapshot.seconds = self.fetched, self.bytes, self.seconds
        snapshot.slowest = self.hosts.slowest()
