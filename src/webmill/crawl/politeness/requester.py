"""Send one request when it may be sent: times of its host, domain and address are reserved, durably, before it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import count
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
    SocketAddress,
)
from webmill.crawl.fetch.fetcher import parse_target
from webmill.crawl.fetch.idle_connections import idle_room
from webmill.crawl.frontier.base import domain_of
from webmill.crawl.options import CrawlLimits, NetworkAccess, Politeness
from webmill.crawl.politeness.pace import HostPace
from webmill.crawl.politeness.request_signer import RequestSigner
from webmill.crawl.politeness.session import NO_FIELDS, Fields, RequestFields, SiteSession, mask_fields
from webmill.crawl.progress import CrawlProgress, HostTimings
from webmill.forgotten import ForgottenFiles
from webmill.formats.url.normalise import host_of
from webmill.infra.clock import SteadyClock
from webmill.infra.host_schedule.fixed_delays import Reservation, ReservationUpdate


class HostReservations(Protocol):
    """How a requester reserves hosts."""

    async def reserve(self, reservation: Reservation) -> float | None:
        """Reserve durably and return None, or return when to try again."""
        ...

    def update(self, keys: dict[str, ReservationUpdate]) -> None:
        """Record soon when reserved keys are free."""
        ...


class RequestPacing(msgspec.Struct, frozen=True):
    """What a request is for, and the delay that the robots.txt of its host asks for."""

    is_resource: bool = False
    crawl_delay: float = 0.0


class RequestMessage(msgspec.Struct, frozen=True):
    """What a request is, where it is not just a GET. `cookies` are those of a browser; an answer is cut after `seconds`
    if it takes longer. `is_private`: scripts have the user's storage, so what they put into fields is not archived."""

    method: str = "GET"
    body: bytes = b""
    cookies: Fields = ()
    seconds: float | None = None
    is_private: bool = False


PLAIN_GET = RequestMessage()


class HostBusy(msgspec.Struct, frozen=True):
    """The request was not sent: its host, domain or address was asked too short a time ago."""

    until: float


class RequestResult(msgspec.Struct, frozen=True):
    """A request that was sent, or failed. `free` is when host, domain and address may all be asked again."""

    answer: FetchedResponse | FetchFailure
    sent: float
    free: float
    fields: RequestFields = NO_FIELDS  # of its session


def open_fetcher(
    politeness: Politeness, limits: CrawlLimits, network: NetworkAccess, *, connections: int
) -> HttpFetcher:
    return HttpFetcher(
        user_agent=politeness.user_agent,
        limits=FetchLimits(
            body=limits.body,
            total=limits.deadline,
            connect=politeness.connect_time / 2,
            idle=politeness.idle_time,
            idle_connections=idle_room(connections),
        ),
        address_rules=AddressRules(allow_private=network.allow_private),
        resolver=DnsResolver(fixed=network.resolve, servers=network.dns_servers),
        tls=network.tls,
        http2=network.http2,
        route=network.route,
        connections=connections,
    )


class Requester:
    """Sends requests politely. `page_resources`: page resources are requested as well, with delays of their own.
    `session`: requests carry cookies, and what the tables of sites say; these have paces of their own, too.
    `forgotten`: nothing of it is asked for, whoever wants it: a redirect or a robots.txt may lead there."""

    def __init__(
        self,
        fetcher: HttpFetcher,
        politeness: Politeness,
        reservations: HostReservations,
        *,
        clock: SteadyClock,
        page_resources: bool = False,
        session: SiteSession | None = None,
        signer: RequestSigner | None = None,
        forgotten: ForgottenFiles | None = None,
    ) -> None:
        self._fetcher, self._reservations, self._clock = fetcher, reservations, clock
        self.politeness = politeness
        self._page_resources = page_resources
        self.session, self._signer, self._forgotten = session, signer, forgotten
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # of hosts that are asked now
        self._timings = HostTimings()
        self.pace = HostPace(politeness, session.sites if session else None)
        self._fetched = self._bytes = 0
        self._seconds = 0.0

    def hold_memory(self, size: int) -> AbstractContextManager[None]:
        """Count so many bytes with those of answers that are being received, while one waits for its turn."""
        return self._fetcher.hold_memory(size)

    async def request(
        self,
        url: str,
        *,
        headers: Fields = (),
        pacing: RequestPacing,
        at_least: int = 0,
        message: RequestMessage = PLAIN_GET,
    ) -> RequestResult | HostBusy:
        """Send a request, or return until when its host is busy. `at_least`: bytes read whatever the limit says."""
        if self._forgotten and self._forgotten.current().covers(url):
            failed = FetchFailure(url, "forgotten", "it was taken down by `webmill forget`", sent=False)
            return RequestResult(failed, self._clock(), self._clock())
        async with self._host_lock(host_of(url)):
            address = await self._fetcher.locate(url)
            if isinstance(address, FetchFailure):
                return RequestResult(address, self._clock(), self._clock())
            delays = self._delays(url, address.ip, pacing)
            reserved = await self._reserve(delays)
            if isinstance(reserved, HostBusy):
                return reserved
            sent = self._clock()
            fields = self.session.fields(url, browser_cookies=message.cookies) if self.session else NO_FIELDS
            archived = (*mask_fields(headers), *fields.archived) if fields.is_private or message.is_private else None
            signed = self._signer.fields(parse_target(url).authority) if self._signer else ()
            request = FetchRequest(
                url=url,
                headers=(*headers, *fields.sent, *signed),
                archived=archived,
                at_least=at_least,
                method=message.method,
                body=message.body,
                seconds=message.seconds,
            )
            others = OtherAddresses(self._reserve, reserved, delays, first=f"addr:{address.ip}")
            with self._kept_reserved(reserved, delays):
                answer = await others.fetch(self._fetcher, request, address)
        if self.session and isinstance(answer, FetchedResponse):
            answer = self.session.learn(answer, fields)
        self._count(url, answer)
        if isinstance(answer, FetchedResponse):  # connecting may have taken long
            sent = max(sent, self._clock() - answer.exchange.seconds)
        elif answer.sent:
            sent = self._clock()
        if reserved:
            delays |= self._delays(url, address.ip, pacing)  # by `auto` it follows the answer
            delays |= others.unused(answer)
            self._reservations.update(
                {key: ReservationUpdate(until, sent + delays[key]) for key, until in reserved.items()}
            )
        return RequestResult(answer, sent, sent + max(delays.values(), default=0.0), fields)

    @property
    def waiting_for_names(self) -> int:
        """Return how many requests wait for the address of their host."""
        return self._fetcher.waiting_for_names

    def look_ahead(self, urls: Iterable[str]) -> None:
        """Begin to look up the hosts of URLs that will soon be requested."""
        for url in {host_of(url): url for url in urls}.values():
            self._fetcher.look_ahead(url)

    def delay(self, url: str, pacing: RequestPacing) -> float:
        """Return the delay until the host of a URL may be asked for one more of this kind.

        A robots.txt may ask for more than the operator, also where the operator asked for none.
        """
        if pacing.is_resource:
            return max(self.pace.resource_delay_of(url), self.pace.crawl_delay(url, pacing.crawl_delay))
        return max(self.pace.delay_of(url), self.pace.crawl_delay(url, pacing.crawl_delay))

    def hold_host(self, url: str, until: float) -> None:
        """Keep the host of the URL reserved: its server has asked for it."""
        keys = ("host", "soon-host")
        self._reservations.update({f"{key}:{host_of(url)}": ReservationUpdate(0.0, until) for key in keys})

    def _host_lock(self, host: str) -> asyncio.Lock:
        """A domain has one turn at a time; but a robots.txt may redirect to hosts whose turn somebody else has."""
        return self._locks.setdefault(host, asyncio.Lock())

    def _delays(self, url: str, ip: str, pacing: RequestPacing) -> dict[str, float]:
        """Return the keys to reserve, each with its delay.

        A domain is asked as often as the operator says, a host maybe less often, an address that many share more. A
        page resource waits for the last request, whatever that was, and not for the time of the next page.
        """
        politeness, host, domain = self.politeness, host_of(url), domain_of(url)
        own, crawl_delay = self.pace.delay_of(url), self.pace.crawl_delay(url, pacing.crawl_delay)
        delay = max(own, crawl_delay)
        delays = {f"addr:{ip}": min(delay, politeness.address_delay)}
        if not pacing.is_resource:
            domain_delay = own if politeness.domain_delay is None else politeness.domain_delay
            delays |= {f"host:{host}": delay, f"domain:{domain}": domain_delay}
        if self._page_resources or pacing.is_resource:
            soon = self.pace.resource_delay_of(url)
            delays |= {f"soon-host:{host}": max(soon, crawl_delay), f"soon-domain:{domain}": soon}
        return {key: delay for key, delay in delays.items() if delay}

    async def _reserve(self, delays: dict[str, float]) -> dict[str, float] | HostBusy:
        """Return until when each key is reserved. A reservation holds for a request that is sent within its window:
        not after a long pause of this process."""
        if not delays:
            return {}
        window = self.politeness.window
        reservation = Reservation(now=self._clock(), window=window, delays=delays)
        until = await self._reservations.reserve(reservation)
        if until is None and self._clock() - reservation.now >= window - self.politeness.connect_time:
            until = self._clock()
        return {key: reservation.until(key) for key in delays} if until is None else HostBusy(until)

    @contextmanager
    def _kept_reserved(self, reserved: dict[str, float], delays: dict[str, float]) -> Iterator[None]:
        """Extend the reservation, again and again, while a request is under way: a slow response may take longer than
        the window, and another process must not ask the host meanwhile. `reserved` follows it."""
        if not reserved:
            yield
            return
        loop, window = asyncio.get_running_loop(), self.politeness.window

        def extend() -> None:
            until = {key: self._clock() + window + delays[key] for key in reserved}
            self._reservations.update({key: ReservationUpdate(reserved[key], until[key]) for key in reserved})
            reserved.update(until)
            timers[0] = loop.call_later(window / 2, extend)

        timers = [loop.call_later(window / 2, extend)]
        try:
            yield
        finally:
            timers[0].cancel()

    def _count(self, url: str, answer: FetchedResponse | FetchFailure) -> None:
        if isinstance(answer, FetchedResponse):
            self._fetched += 1
            self._bytes += len(answer.exchange.response)
            self._seconds += answer.exchange.seconds
            self._timings.add(host_of(url), answer.exchange.seconds)
            self.pace.learn(host_of(url), answer.exchange.seconds)

    def report(self, progress: CrawlProgress) -> None:
        """Fill in what was fetched."""
        progress.fetched, progress.bytes, progress.seconds = self._fetched, self._bytes, self._seconds
        progress.slowest = self._timings.slowest()
        progress.pace = self.pace.typical()


class OtherAddresses:
    """Reserves other addresses of a host while the first is slow to connect, as any address that is asked. What it
    reserves joins `reserved` and `delays`."""

    def __init__(
        self,
        reserve: Callable[[dict[str, float]], Awaitable[dict[str, float] | HostBusy]],
        reserved: dict[str, float],
        delays: dict[str, float],
        *,
        first: str,
    ) -> None:
        self._reserve, self._reserved, self._delays, self._first = reserve, reserved, delays, first
        self._under_way: list[asyncio.Task[bool]] = []

    async def fetch(
        self, fetcher: HttpFetcher, request: FetchRequest, address: SocketAddress
    ) -> FetchedResponse | FetchFailure:
        """Fetch from this address, or from another one that could be reserved."""
        try:
            answer = await fetcher.fetch(request, address, reserve=self._may_connect)
            await asyncio.gather(*self._under_way)
        except BaseException:  # also when cancelled
            for task in self._under_way:
                task.cancel()
            raise
        return answer

    def unused(self, answer: FetchedResponse | FetchFailure) -> dict[str, float]:
        """Return the addresses that were reserved and not asked: they are free at once."""
        ip = answer.exchange.ip if isinstance(answer, FetchedResponse) else answer.ip
        addresses = {key for key in self._reserved if key.startswith("addr:")} if self._under_way else set()
        return dict.fromkeys(addresses - {f"addr:{ip}"}, 0.0)

    async def _may_connect(self, address: SocketAddress) -> bool:
        delay = self._delays.get(self._first)
        if not delay:
            return True
        task = asyncio.ensure_future(self._add(f"addr:{address.ip}", delay))
        self._under_way.append(task)
        return await asyncio.shield(task)  # what is reserved must be known, also when another address is connected

    async def _add(self, key: str, delay: float) -> bool:
        found = await self._reserve({key: delay})
        if isinstance(found, HostBusy):
            return False
        self._delays[key] = delay
        self._reserved |= found
        return True


class BatchedReservations:
    """Collects reservations until the shard's store has made them, and tells each request the result.

    `wakeup` is set when there is something for the next batch.
    """

    def __init__(self, *, clock: SteadyClock, wakeup: asyncio.Event) -> None:
        self._clock, self._wakeup = clock, wakeup
        self._numbers = count()
        self._answers: dict[int, asyncio.Future[float | None]] = {}
        self._reservations: dict[int, Reservation] = {}
        self._updates: list[dict[str, ReservationUpdate]] = []
        self._is_stopped = False

    @property
    def are_waiting(self) -> bool:
        return bool(self._reservations)

    async def reserve(self, reservation: Reservation) -> float | None:
        """Return None when the time is reserved, durably; else when to try again."""
        if self._is_stopped:
            return self._clock()
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        self._reservations[number] = reservation
        self._wakeup.set()
        return await self._answers[number]

    def update(self, keys: dict[str, ReservationUpdate]) -> None:
        """Record with the next batch when reserved keys are free."""
        self._updates.append(keys)

    def take(self) -> tuple[dict[int, Reservation], list[dict[str, ReservationUpdate]]]:
        """Return what was collected, for a batch."""
        taken = self._reservations, self._updates
        self._reservations, self._updates = {}, []
        return taken

    def answer(self, numbers: Iterable[int], refused: Mapping[int, float]) -> None:
        """Tell the requests of a batch that is done."""
        for number in numbers:
            future = self._answers.pop(number)
            if not future.done():
                future.set_result(refused.get(number))

    def refuse_new(self) -> None:
        """Reserve nothing more: the shard stops."""
        self._is_stopped = True

    def refuse_waiting(self) -> None:
        """Tell all requests that wait to try again later."""
        for future in self._answers.values():
            if not future.done():
                future.set_result(self._clock())
        self._answers.clear()
        self._reservations.clear()
