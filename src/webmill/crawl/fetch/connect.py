"""Connecting: the only place that opens a socket, and so the place where the rules for addresses are applied."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Awaitable, Callable

from msgspec import Struct

from webmill.crawl.fetch.address_rules import AddressRules
from webmill.crawl.fetch.connection import FetchConnection, MemoryBudget
from webmill.crawl.fetch.happy_eyeballs import connect_first
from webmill.crawl.fetch.proxy import ProxyServer, open_tunnel
from webmill.crawl.fetch.route import NetworkRoute
from webmill.crawl.fetch.tls import (
    HttpOneHosts,
    RefusedCertificates,
    TlsContexts,
    TlsPolicy,
    TlsServer,
    make_contexts,
    tls_reason,
)
from webmill.crawl.fetch.tls_sessions import ResumingContext
from webmill.crawl.fetch.types import FetchError, FetchLimits, SocketAddress

_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.2  # seconds between tries to get a file descriptor
_OLD_PROTOCOLS = ("tls/1.0", "tls/1.1")
_STUMBLED = ("tls_other", "reset")


async def reserve_nothing(_: SocketAddress) -> bool:
    return True


class ConnectTarget(Struct, frozen=True):
    """Where to connect, and until when, in the loop's time. `alternatives` are tried where the address is slow or
    fails; `reserve` says of each whether it may be."""

    address: SocketAddress
    host: str
    is_secure: bool
    deadline: float
    alternatives: tuple[SocketAddress, ...] = ()
    reserve: Callable[[SocketAddress], Awaitable[bool]] = reserve_nothing
    may_be_http2: bool = True  # a request with a body is sent in HTTP/1.1


class Connector:
    """Opens connections.

    `resolve` finds the address of a proxy; `drop_idle` ends an idle connection and returns whether there was one;
    `on_lost` is called when a connection ends.
    """

    def __init__(
        self,
        *,
        address_rules: AddressRules,
        limits: FetchLimits,
        policy: TlsPolicy,
        budget: MemoryBudget,
        route: NetworkRoute,
        http2: bool,
        resolve: Callable[[str], Awaitable[tuple[str, int | None]]],
        drop_idle: Callable[[], bool],
        on_lost: Callable[[FetchConnection], None],
    ) -> None:
        self._address_rules, self._limits, self._budget = address_rules, limits, budget
        self._route, self._resolve = route, resolve
        self._drop_idle, self._on_lost = drop_idle, on_lost
        self._policy: TlsPolicy = policy
        self._contexts = make_contexts(policy, http2=http2)
        self._contexts_http1 = None if http2 else self._contexts
        self._http1_hosts = HttpOneHosts()
        self._refused = RefusedCertificates()

    async def connect(self, target: ConnectTarget) -> FetchConnection:
        """Return an open connection, or raise `FetchError`."""
        if not target.is_secure:
            return await self._open(target, None)
        server = TlsServer(target.host, target.address.ip, target.address.port)
        if self._refused.is_known(server) and (connection := await self._open_refused(target, server)):
            return connection
        try:
            return await self._open_secure(target, self._contexts_for(target).strict)
        except FetchError as error:
            if self._contexts.lenient is None or not error.reason.startswith("tls_") or error.reason == "tls_timeout":
                raise
            refusal = error
        connection = await self._open_unverified(target)
        if _is_lasting(refusal, connection):
            reached = TlsServer(target.host, connection.address.ip, connection.address.port)
            self._refused.add(reached, connection.peer_certificate())
        return connection

    def avoid_http2(self, host: str) -> None:
        """Offer HTTP/2 to this host no more, for a while: it failed at it."""
        self._http1_hosts.add(host)

    def _contexts_for(self, target: ConnectTarget) -> TlsContexts:
        if target.may_be_http2 and target.host not in self._http1_hosts:
            return self._contexts
        if self._contexts_http1 is None:
            self._contexts_http1 = make_contexts(self._policy, http2=False)
        return self._contexts_http1

    async def _open_refused(self, target: ConnectTarget, server: TlsServer) -> FetchConnection | None:
        """Return a connection to a server with the certificate that was refused before; None: it has another one."""
        connection = await self._open_unverified(target)
        if self._refused.is_refused(server, connection.peer_certificate()):
            return connection
        self._refused.forget(server)
        connection.abort()
        return None

    async def _open_unverified(self, target: ConnectTarget) -> FetchConnection:
        lenient = self._contexts_for(target).lenient
        assert lenient is not None
        connection = await self._open_secure(target, lenient)
        connection.flaws = ("tls_unverified",)
        return connection

    async def _open_secure(self, target: ConnectTarget, context: ResumingContext) -> FetchConnection:
        """Open a connection with TLS. A server that stumbles over the session it is offered is asked without one."""
        try:
            return await self._open(target, context)
        except FetchError as error:
            if not context.sessions.drop(_server_name(target)) or error.reason not in _STUMBLED:
                raise
        return await self._open(target, context)

    async def _open(self, target: ConnectTarget, context: ssl.SSLContext | None) -> FetchConnection:
        if (proxy := self._route.proxy) is None:
            addresses = (target.address, *target.alternatives)
            address, sock = await connect_first(addresses, lambda each: self._connect_directly(each, target))
        else:
            address, sock = target.address, await self._connect_through(proxy, target)
        return await self._start_protocol(sock, target, context, address)

    async def _connect_directly(self, address: SocketAddress, target: ConnectTarget) -> socket.socket:
        self._address_rules.check(address)
        if address != target.address and not await target.reserve(address):
            raise FetchError("connect_failed", f"{address.ip} may not be asked now")
        sock = await self._open_socket(address, target)
        try:
            await self._connect_socket(sock, address, target)
        except BaseException:  # also when cancelled
            sock.close()
            raise
        return sock

    async def _find_proxy(self, proxy: ProxyServer) -> SocketAddress:
        """Return where the proxy is: that was chosen by the operator, and no rule applies to it."""
        try:
            ip, _ = await self._resolve(proxy.host)
        except FetchError as error:
            raise FetchError("proxy_failed", f"proxy {proxy.host}: {error.message}") from error
        return SocketAddress(ip, proxy.port)

    async def _connect_through(self, proxy: ProxyServer, target: ConnectTarget) -> socket.socket:
        self._address_rules.check(target.address)
        hop = await self._find_proxy(proxy)
        sock = await self._open_socket(hop, target)
        try:
            await self._open_tunnel(sock, proxy, hop, target)
        except BaseException:
            sock.close()
            raise
        return sock

    async def _open_tunnel(
        self, sock: socket.socket, proxy: ProxyServer, hop: SocketAddress, target: ConnectTarget
    ) -> None:
        try:
            await self._connect_socket(sock, hop, target)
        except FetchError as error:
            raise FetchError("proxy_failed", f"proxy {error.message}") from error
        try:
            async with asyncio.timeout(self._time_left(target)):
                await open_tunnel(sock, proxy, target.address)
        except TimeoutError as error:
            raise FetchError("connect_timeout", f"{target.address.ip}: no tunnel through the proxy in time") from error

    async def _open_socket(self, hop: SocketAddress, target: ConnectTarget) -> socket.socket:
        """Return a socket with its source address. Without a file descriptor, wait: others will be given back."""
        family = socket.AF_INET6 if ":" in hop.ip else socket.AF_INET
        pause, loop = _FIRST_PAUSE, asyncio.get_running_loop()
        while True:
            try:
                sock = socket.socket(family, socket.SOCK_STREAM)
            except OSError as error:
                if error.errno not in _OUT_OF_FILES:
                    raise FetchError("connect_failed", f"no socket: {error.strerror}") from error
                if loop.time() >= target.deadline:
                    raise FetchError("too_many_files", f"no socket: {error.strerror}") from error
            else:
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                try:
                    self._route.bind(sock, target.host)
                except BaseException:
                    sock.close()
                    raise
                return sock
            # An aborted connection gives its descriptor back in the loop's next turn.
            await asyncio.sleep(0 if self._drop_idle() else min(pause, max(0, target.deadline - loop.time())))
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _connect_socket(self, sock: socket.socket, hop: SocketAddress, target: ConnectTarget) -> None:
        where = f"{hop.ip} port {hop.port}"
        try:
            async with asyncio.timeout(self._time_left(target)):
                await asyncio.get_running_loop().sock_connect(sock, (hop.ip, hop.port))
        except TimeoutError as error:  # ours, or the system's
            raise FetchError("connect_timeout", f"{where}: no connection in time") from error
        except ConnectionRefusedError as error:
            raise FetchError("connect_refused", f"{where}: refused") from error
        except OSError as error:
            raise FetchError("connect_failed", f"{where}: {error.strerror or error}") from error

    async def _start_protocol(
        self, sock: socket.socket, target: ConnectTarget, context: ssl.SSLContext | None, address: SocketAddress
    ) -> FetchConnection:
        connection = FetchConnection(
            sock, address=address, limits=self._limits, budget=self._budget, on_lost=self._on_lost
        )
        name = _server_name(target) if context else None
        try:
            async with asyncio.timeout(self._time_left(target)):
                await asyncio.get_running_loop().create_connection(
                    lambda: connection, sock=sock, ssl=context, server_hostname=name
                )
        except TimeoutError as error:
            reason = "tls_timeout" if context else "connect_timeout"
            raise FetchError(reason, "no TLS handshake in time" if context else "no time left") from error
        except ssl.SSLError as error:
            raise FetchError(tls_reason(error), f"TLS: {error.strerror or error}"[:300]) from error
        except OSError as error:
            raise FetchError("reset", f"connection lost in the TLS handshake: {error.strerror or error}") from error
        return connection

    def _time_left(self, target: ConnectTarget) -> float:
        return min(self._limits.connect, max(0.0, target.deadline - asyncio.get_running_loop().time()))


def _server_name(target: ConnectTarget) -> str:
    return target.host.removesuffix(".")


def _is_lasting(refusal: FetchError, connection: FetchConnection) -> bool:
    """Tell whether the server would be refused again: not if its handshake was cut by chance."""
    is_old = connection.tls is not None and connection.tls[0] in _OLD_PROTOCOLS
    return is_old or isinstance(refusal.__cause__, ssl.SSLCertVerificationError)
