"""The fetcher: locate a URL, then ask for it at exactly that address."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from webmill.crawl.fetch.address_rules import AddressRules
from webmill.crawl.fetch.budget import Budget
from webmill.crawl.fetch.connect import Call, Dialer
from webmill.crawl.fetch.connection import Connection
from webmill.crawl.fetch.pool import Key, Pool
from webmill.crawl.fetch.resolver import DnsResolver
from webmill.crawl.fetch.response_reader import Reception, decode_payload
from webmill.crawl.fetch.target import Target, parse_target
from webmill.crawl.fetch.tls import TlsPolicy
from webmill.crawl.fetch.types import (
    MAX_PARTIAL,
    FetchedResponse,
    FetchError,
    FetchFailure,
    FetchLimits,
    FetchRequest,
    SocketAddress,
)
from webmill.errors import BadInput
from webmill.formats.http import ResponseHead, encode_request_head
from webmill.model import Exchange, Headers

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
ACCEPT_LANGUAGE = "en-US,en;q=0.5"
ACCEPT_ENCODING = "gzip, br, zstd, deflate"

_NO_ANSWER = ("no_start_line", "bad_status")
_UNREACHED = ("connect_refused", "connect_timeout", "connect_failed")
_DECODED_ASIDE = 64 * 1024  # bytes: a larger body is decoded in a thread, so that the loop keeps everybody's time
_SHORTAGE_PAUSE = 0.1  # seconds


class HttpFetcher:
    """At most `connections` fetches are under way at once, and as many connections wait idle; others queue here.

    The resolver is the fetcher's from now on, and closed with it.
    """

    def __init__(
        self,
        *,
        user_agent: str,
        limits: FetchLimits = FetchLimits(),  # noqa: B008  frozen
        address_rules: AddressRules = AddressRules(),  # noqa: B008  frozen
        resolver: DnsResolver | None = None,
        tls: TlsPolicy = "verify",
        connections: int = 1000,
    ) -> None:
        self._limits, self._address_rules, self._resolver = limits, address_rules, resolver or DnsResolver()
        self._own_fields = (
            ("User-Agent", user_agent),
            ("Accept", ACCEPT),
            ("Accept-Language", ACCEPT_LANGUAGE),
            ("Accept-Encoding", ACCEPT_ENCODING),
            ("Connection", "keep-alive"),
        )
        self._slots = asyncio.Semaphore(connections)
        self._pool = Pool(size=connections, idle=limits.idle)
        self._open: set[Connection] = set()
        self._dialer = Dialer(
            address_rules=address_rules,
            limits=limits,
            policy=tls,
            budget=Budget(limits.memory),
            make_room=self._pool.drop_one,
            on_lost=self._forget,
        )
        self._decoders = ThreadPoolExecutor(2, thread_name_prefix="decode")

    async def locate(self, url: str) -> SocketAddress | FetchFailure:
        """Where this URL would be fetched, vetted. Sends nothing to it."""
        try:
            target = parse_target(url)
            ip, port = await self._resolve(target.host)
            address = SocketAddress(ip, target.port or port or target.default_port)
        except BadInput as error:
            return FetchFailure(url, error.reason, error.message, sent=False)
        except FetchError as trouble:
            return FetchFailure(url, trouble.reason, trouble.message, sent=False)
        try:
            self._address_rules.check(address)
        except FetchError as trouble:
            return FetchFailure(url, trouble.reason, trouble.message, sent=False, ip=address.ip)
        return address

    async def fetch(self, request: FetchRequest, address: SocketAddress) -> FetchedResponse | FetchFailure:
        """Ask once, at that address; redirects are answers like any other.

        When it cannot be connected, the next `locate` of the same host gives the host's next address.
        """
        try:
            target = parse_target(request.url)
            wire = self._compose(target, request)
        except BadInput as error:
            return FetchFailure(request.url, error.reason, error.message, sent=False, ip=address.ip)
        async with self._slots:
            outcome = await self._exchange(target, wire, address, limit=max(self._limits.body, request.at_least))
        if isinstance(outcome, FetchFailure) and outcome.reason in _UNREACHED:
            self._resolver.demote(target.host, address.ip)
        return outcome

    async def close(self) -> None:
        """End all connections. Fetches should be over: those that are not fail with `reset`."""
        self._pool.clear()
        for connection in tuple(self._open):
            connection.abort()
        for _ in range(100):  # transports close their sockets in the loop's next turns
            if not self._open:
                break
            await asyncio.sleep(0)
        self._resolver.close()
        self._decoders.shutdown(wait=False, cancel_futures=True)

    # --- one fetch ---

    async def _resolve(self, host: str) -> tuple[str, int | None]:
        until = asyncio.get_running_loop().time() + self._limits.total
        while True:
            try:
                return await self._resolver.resolve(host)
            except FetchError as trouble:
                if trouble.reason != "too_many_files" or asyncio.get_running_loop().time() >= until:
                    raise
            self._pool.drop_one()
            await asyncio.sleep(_SHORTAGE_PAUSE)

    def _compose(self, target: Target, request: FetchRequest) -> bytes:
        fields = Headers((("Host", target.authority), *self._own_fields, *request.headers))
        return encode_request_head(fields, method="GET", target=target.path)

    async def _exchange(
        self, target: Target, wire: bytes, address: SocketAddress, *, limit: int
    ) -> FetchedResponse | FetchFailure:
        secure = target.scheme == "https"
        call = Call(address, target.host, secure, asyncio.get_running_loop().time() + self._limits.total)
        key = (target.scheme, target.host, address)
        sent = False
        if (parked := self._pool.take(key)) is not None:
            outcome = await self._ask(parked, wire, target=target, key=key, until=call.until, limit=limit)
            if not _was_stale(outcome):
                return outcome
            sent = True
        try:
            connection = await self._dialer.dial(call)
        except FetchError as trouble:
            return FetchFailure(target.url, trouble.reason, trouble.message, sent=sent, ip=address.ip)
        self._open.add(connection)
        return await self._ask(connection, wire, target=target, key=key, until=call.until, limit=limit)

    async def _ask(
        self, connection: Connection, wire: bytes, *, target: Target, key: Key, until: float, limit: int
    ) -> FetchedResponse | FetchFailure:
        reception = Reception(limit=limit)
        date, loop = datetime.now(UTC), asyncio.get_running_loop()
        began = loop.time()
        try:
            await connection.ask(wire, reception, until=until)
        except FetchError as trouble:
            partial = reception.begin(MAX_PARTIAL)
            return FetchFailure(target.url, trouble.reason, trouble.message, sent=True, ip=key[2].ip, partial=partial)
        head = reception.head
        assert head is not None
        exchange = Exchange(
            url=target.url,
            date=date,
            seconds=loop.time() - began,
            ip=key[2].ip,
            request=wire,
            response=reception.response(),
            truncated=reception.truncated,
            protocols=_protocols(head, connection),
            cipher_suites=(connection.tls[1],) if connection.tls else (),
        )
        self._park(key, connection, reception)
        payload, flaw = await self._decode(head, exchange.response)
        flaws = (*reception.flaws, *connection.flaws, *((flaw,) if flaw else ()))
        return FetchedResponse(exchange, head, payload, tuple(dict.fromkeys(flaws)))

    def _park(self, key: Key, connection: Connection, reception: Reception) -> None:
        if reception.reusable and not connection.flaws and not connection.lost:
            self._pool.park(key, connection)
        else:
            connection.abort()

    async def _decode(self, head: ResponseHead, response: bytes) -> tuple[bytes, str | None]:
        limits = self._limits.decoding
        coded = "content-encoding" in head.headers or "transfer-encoding" in head.headers
        if not coded or len(response) <= _DECODED_ASIDE:
            return decode_payload(head, response, limits=limits)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._decoders, lambda: decode_payload(head, response, limits=limits))

    def _forget(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._pool.forget(connection)


def _was_stale(outcome: FetchedResponse | FetchFailure) -> bool:
    """On a connection that waited: the server had closed it, and our request crossed that on the way, or what came is
    no answer but the rest of an earlier one that was longer than it said, or word of the server's impatience."""
    if isinstance(outcome, FetchedResponse):
        return outcome.head.status == 408
    return outcome.reason in _NO_ANSWER or (outcome.reason in ("reset", "no_response") and not outcome.partial)


def _protocols(head: ResponseHead, connection: Connection) -> tuple[str, ...]:
    spoken = "http/1.0" if head.version == "HTTP/1.0" else "http/1.1"
    return (spoken, connection.tls[0]) if connection.tls else (spoken,)
