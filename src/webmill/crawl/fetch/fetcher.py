"""The fetcher: locate a URL, then ask for it at exactly that address.

A URL is normalised before it is taken apart, so that nothing is left for two parsers to disagree about.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache, partial

from msgspec import Struct
from msgspec.structs import replace

from webmill.crawl.fetch.address_rules import AddressRules
from webmill.crawl.fetch.connect import Connector, ConnectTarget, reserve_nothing
from webmill.crawl.fetch.connection import FetchConnection, MemoryBudget
from webmill.crawl.fetch.happy_eyeballs import MAX_ALTERNATIVES
from webmill.crawl.fetch.idle_connections import IdleConnections, Key
from webmill.crawl.fetch.resolver import DnsResolver
from webmill.crawl.fetch.response_reader import ResponseReader, decode_payload
from webmill.crawl.fetch.route import NetworkRoute
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
from webmill.crawl.page.url_joining import normalise
from webmill.errors import BadInput
from webmill.formats.http import ResponseHead, encode_request_head, without_connection_fields
from webmill.infra.public_addresses import NAT64_NAME, nat64_prefixes
from webmill.model import Exchange, Headers

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
ACCEPT_LANGUAGE = "en-US,en;q=0.5"
ACCEPT_ENCODING = "gzip, br, zstd, deflate"

_NO_ANSWER = ("no_start_line", "bad_status")
_NOT_CONNECTED = ("connect_refused", "connect_timeout", "connect_failed")
_DECODE_IN_THREAD = 64 * 1024  # bytes: a larger body is decoded in a thread, so that the loop keeps everybody's time
_BAD_HTTP2 = ("http2_error", "too_many_frames")  # the host is asked by HTTP/1.1 next time
_OUT_OF_FILES_PAUSE = 0.1  # seconds


MAX_NAME = 253
MAX_LABEL = 63

# A normalised URL: user and password (which we never send), host, port, path and query.
_PARTS = re.compile(r"(https?)://(?:[^/?#@]*@)?(\[[0-9a-f:.]+\]|[^:/?#@\[\]\\\s]+)(?::([0-9]{1,5}))?(/[^#\s]*)")
_LABEL = re.compile(r"[a-z0-9_-]+")
_PORTS = {"http": 80, "https": 443}


class RequestTarget(Struct, frozen=True, gc=False):
    """A URL taken apart for a request."""

    url: str
    scheme: str
    host: str  # an IPv6 address without its brackets
    port: int | None  # None: the URL names none
    authority: str  # for the Host field
    path: str

    @property
    def default_port(self) -> int:
        return _PORTS[self.scheme]


@lru_cache(maxsize=1024)  # asked when a URL is located and again when it is fetched
def parse_target(url: str) -> RequestTarget:
    """Take a URL apart for a request. BadInput with a reason of FAILURES."""
    url = normalise(url)
    found = _PARTS.fullmatch(url)
    if found is None:
        raise BadInput(f"not a URL to fetch: {url[:200]!r}", reason="bad_url")
    scheme, host, port, path = found.groups()
    authority = f"{host}:{port}" if port else host
    if host.startswith("["):
        host = host[1:-1]
    else:
        check_name(host)
    return RequestTarget(url, scheme, host, int(port) if port else None, authority, path)


@lru_cache(maxsize=4096)  # of what passes: a host has many URLs
def check_name(host: str) -> None:
    """Raise BadInput `bad_name` for what DNS cannot hold, before any library is asked. One dot may end the name."""
    name = host.removesuffix(".")
    labels = name.split(".")
    if len(name) > MAX_NAME or not all(len(label) <= MAX_LABEL and _LABEL.fullmatch(label) for label in labels):
        raise BadInput(f"not a name of DNS: {host[:80]!r}", reason="bad_name")


class HttpFetcher:
    """Fetches URLs over HTTP. At most `connections` fetches run at once; others queue here.

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
        route: NetworkRoute = NetworkRoute(),  # noqa: B008  frozen
        http2: bool = True,
        connections: int = 1000,
    ) -> None:
        self._limits, self._address_rules, self._resolver = limits, address_rules, resolver or DnsResolver()
        self._default_headers = (
            ("User-Agent", user_agent),
            ("Accept", ACCEPT),
            ("Accept-Language", ACCEPT_LANGUAGE),
            ("Accept-Encoding", ACCEPT_ENCODING),
            ("Connection", "keep-alive"),
        )
        self._slots = asyncio.Semaphore(connections)
        self._idle = IdleConnections(limits)
        self._open: set[FetchConnection] = set()
        self._budget = MemoryBudget(limits.memory)
        self._connector = Connector(
            address_rules=address_rules,
            limits=limits,
            policy=tls,
            budget=self._budget,
            route=route,
            http2=http2,
            resolve=self._resolver.resolve,
            drop_idle=self._idle.drop_oldest,
            on_lost=self._forget,
        )
        self._decoders = ThreadPoolExecutor(2, thread_name_prefix="decode")

    async def locate(self, url: str) -> SocketAddress | FetchFailure:
        """Return where this URL would be fetched, if that is allowed. Nothing is sent there."""
        try:
            target = parse_target(url)
            ip, port = await self._resolve(target.host)
            address = SocketAddress(ip, target.port or port or target.default_port)
        except BadInput as error:
            return FetchFailure(url, error.reason, error.message, sent=False)
        except FetchError as error:
            return FetchFailure(url, error.reason, error.message, sent=False)
        try:
            await self._check(address)
        except FetchError as error:
            return FetchFailure(url, error.reason, error.message, sent=False, ip=address.ip)
        return address

    @property
    def waiting_for_names(self) -> int:
        """Return how many URLs are being located whose names are not known yet."""
        return self._resolver.waiting

    @contextmanager
    def hold_memory(self, size: int) -> Iterator[None]:
        """Count so many bytes with those of answers that are being read: of an answer that waits for its turn."""
        self._budget.used += size
        try:
            yield
        finally:
            self._budget.give_back(size)

    def look_ahead(self, url: str) -> None:
        """Begin to look up the name of a URL that will soon be located, if there is time for that."""
        try:
            self._resolver.look_ahead(parse_target(url).host)
        except BadInput:
            pass  # which `locate` tells

    async def fetch(
        self,
        request: FetchRequest,
        address: SocketAddress,
        *,
        reserve: Callable[[SocketAddress], Awaitable[bool]] = reserve_nothing,
    ) -> FetchedResponse | FetchFailure:
        """Fetch a URL once, at that address; redirects are answers like any other.

        Where the address is slow to connect or fails, others of its name are tried that may be connected as well, and
        that `reserve` allows (RFC 8305); which one it was, the answer says. When none can be connected, the next
        `locate` of the same host gives the host's next address.
        """
        try:
            target = parse_target(request.url)
            request_bytes = self._encode_request(target, request, request.headers)
            archived = request_bytes
            if request.archived is not None:
                archived = self._encode_request(target, request, request.archived)
        except BadInput as error:
            return FetchFailure(request.url, error.reason, error.message, sent=False, ip=address.ip)
        async with self._slots:
            outcome = await self._exchange(
                target,
                request,
                request_bytes,
                address,
                limit=max(self._limits.body, request.at_least),
                reserve=reserve,
            )
        if archived != request_bytes and isinstance(outcome, FetchedResponse):
            if "h2" in outcome.exchange.protocols:
                archived = without_connection_fields(archived)
            outcome = replace(outcome, exchange=replace(outcome.exchange, request=archived))
        if isinstance(outcome, FetchFailure) and outcome.reason in _NOT_CONNECTED:
            self._resolver.demote(target.host, address.ip)
        return outcome

    async def close(self) -> None:
        """End all connections. Fetches should be over: those that are not fail with `reset`."""
        self._idle.clear()
        for connection in tuple(self._open):
            connection.abort()
        for _ in range(100):  # transports close their sockets in the loop's next turns
            if not self._open:
                break
            await asyncio.sleep(0)
        self._resolver.close()
        self._decoders.shutdown(wait=False, cancel_futures=True)

    # --- one fetch ---

    async def _check(self, address: SocketAddress) -> None:
        """Raise `FetchError` for an address that may not be connected to."""
        self._address_rules.check(address)
        if ":" in address.ip and not self._address_rules.allow_private:
            nat64 = nat64_prefixes(await self._resolver.all_addresses(NAT64_NAME))
            self._address_rules.check_translated(address, nat64)

    async def _resolve(self, host: str) -> tuple[str, int | None]:
        until = asyncio.get_running_loop().time() + self._limits.total
        while True:
            try:
                return await self._resolver.resolve(host)
            except FetchError as error:
                if error.reason != "too_many_files" or asyncio.get_running_loop().time() >= until:
                    raise
            self._idle.drop_oldest()
            await asyncio.sleep(_OUT_OF_FILES_PAUSE)

    def _encode_request(
        self, target: RequestTarget, request: FetchRequest, headers: tuple[tuple[str, str], ...]
    ) -> bytes:
        default: tuple[tuple[str, str], ...] = self._default_headers
        if headers:
            own = {name.lower() for name, _ in headers}
            default = tuple(field for field in default if field[0].lower() not in own)
        length = (("Content-Length", str(len(request.body))),) if request.body or not request.is_repeatable else ()
        fields = Headers((("Host", target.authority), *default, *headers, *length))
        return encode_request_head(fields, method=request.method, target=target.path) + request.body

    async def _exchange(
        self,
        target: RequestTarget,
        request: FetchRequest,
        request_bytes: bytes,
        address: SocketAddress,
        *,
        limit: int,
        reserve: Callable[[SocketAddress], Awaitable[bool]],
    ) -> FetchedResponse | FetchFailure:
        seconds = self._limits.total if request.seconds is None else min(request.seconds, self._limits.total)
        deadline = asyncio.get_running_loop().time() + seconds
        key = (target.scheme, target.host, address)
        sent, is_plain = False, request.method == "GET"
        reader = partial(ResponseReader, limit=limit, method=request.method)
        if is_plain and (idle := self._idle.get(key)) is not None:
            outcome = await self._request(idle, request_bytes, reader(), target=target, key=key, deadline=deadline)
            if not _was_stale(outcome):
                return outcome
            sent = True
        others = await self._alternatives(target.host, address)
        where = ConnectTarget(
            address, target.host, target.scheme == "https", deadline, others, reserve, may_be_http2=is_plain
        )
        try:
            connection = await self._connector.connect(where)
        except FetchError as error:
            return FetchFailure(target.url, error.reason, error.message, sent=sent, ip=address.ip)
        self._open.add(connection)
        if connection.address != address:
            self._resolver.promote(target.host, connection.address.ip)
            key = (target.scheme, target.host, connection.address)
        return await self._request(connection, request_bytes, reader(), target=target, key=key, deadline=deadline)

    async def _alternatives(self, host: str, address: SocketAddress) -> tuple[SocketAddress, ...]:
        """Return the addresses that may be connected instead of one, in the order in which they are tried."""
        found = []
        for ip in self._resolver.alternatives(host, address.ip):
            other = SocketAddress(ip, address.port)
            try:
                await self._check(other)
            except FetchError:
                continue
            found.append(other)
            if len(found) == MAX_ALTERNATIVES:
                break
        return tuple(found)

    async def _request(
        self,
        connection: FetchConnection,
        request_bytes: bytes,
        reader: ResponseReader,
        *,
        target: RequestTarget,
        key: Key,
        deadline: float,
    ) -> FetchedResponse | FetchFailure:
        date, loop = datetime.now(UTC), asyncio.get_running_loop()
        began = loop.time()
        try:
            await connection.send(request_bytes, reader, deadline=deadline)
        except FetchError as error:
            if connection.is_http2 and error.reason in _BAD_HTTP2:
                self._connector.avoid_http2(target.host)
            partial = reader.first_bytes(MAX_PARTIAL)
            return FetchFailure(target.url, error.reason, error.message, sent=True, ip=key[2].ip, partial=partial)
        head = reader.head
        assert head is not None
        exchange = Exchange(
            url=target.url,
            date=date,
            seconds=loop.time() - began,
            ip=key[2].ip,
            request=connection.as_sent(request_bytes),
            response=reader.response(),
            truncated=reader.truncated,
            protocols=_protocols(head, connection),
            cipher_suites=(connection.tls[1],) if connection.tls else (),
        )
        self._keep_or_close(key, connection, reader, head)
        flaws, cpu = (*reader.flaws, *connection.flaws), reader.cpu
        del reader  # decoding a large answer needs its room
        payload, flaw = await self._decode(head, exchange.response)
        flaws = (*flaws, *((flaw,) if flaw else ()))
        return FetchedResponse(exchange, head, payload, tuple(dict.fromkeys(flaws)), cpu)

    def _keep_or_close(self, key: Key, connection: FetchConnection, reader: ResponseReader, head: ResponseHead) -> None:
        connection.learn_session()
        if reader.is_reusable and not connection.is_lost:
            self._idle.put(key, connection, head)
        else:
            connection.abort()

    async def _decode(self, head: ResponseHead, response: bytes) -> tuple[bytes, str | None]:
        limits = self._limits.decoding
        coded = "content-encoding" in head.headers or "transfer-encoding" in head.headers
        if not coded or len(response) <= _DECODE_IN_THREAD:
            return decode_payload(head, response, limits=limits)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._decoders, lambda: decode_payload(head, response, limits=limits))

    def _forget(self, connection: FetchConnection) -> None:
        self._open.discard(connection)
        self._idle.forget(connection)


def _was_stale(outcome: FetchedResponse | FetchFailure) -> bool:
    """Tell whether an idle connection was of no use: the server had closed it, and our request crossed that on the way;
    or what came is the rest of an earlier answer that was longer than it said, or a word of the server's impatience."""
    if isinstance(outcome, FetchedResponse):
        return outcome.head.status == 408
    return outcome.reason in _NO_ANSWER or (outcome.reason in ("reset", "no_response") and not outcome.partial)


def _protocols(head: ResponseHead, connection: FetchConnection) -> tuple[str, ...]:
    http = "h2" if connection.is_http2 else "http/1.0" if head.version == "HTTP/1.0" else "http/1.1"
    return (http, connection.tls[0]) if connection.tls else (http,)
