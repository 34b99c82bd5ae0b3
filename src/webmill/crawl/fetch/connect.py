"""Connecting: the only place that opens a socket, and so the place where an address is vetted."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable

from msgspec import Struct

from webmill.crawl.fetch.address_rules import AddressRules
from webmill.crawl.fetch.budget import Budget
from webmill.crawl.fetch.connection import Connection
from webmill.crawl.fetch.tls import TlsPolicy, lenient_context, reason_of, strict_context
from webmill.crawl.fetch.types import FetchError, FetchLimits, SocketAddress

_SHORTAGE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.2  # seconds between tries to get a file descriptor


class Call(Struct, frozen=True):
    """Whom to connect. `until` is in the loop's time."""

    address: SocketAddress
    host: str
    secure: bool
    until: float


class Dialer:
    """`make_room` ends a connection that is not needed, and says whether there was one. `on_lost` hears of each end."""

    def __init__(
        self,
        *,
        address_rules: AddressRules,
        limits: FetchLimits,
        policy: TlsPolicy,
        budget: Budget,
        make_room: Callable[[], bool],
        on_lost: Callable[[Connection], None],
    ) -> None:
        self._address_rules, self._limits, self._budget = address_rules, limits, budget
        self._make_room, self._on_lost = make_room, on_lost
        self._strict = strict_context()
        self._lenient = lenient_context() if policy == "archive" else None

    async def dial(self, call: Call) -> Connection:
        """Raises Trouble."""
        if not call.secure:
            return await self._connect(call, None)
        try:
            return await self._connect(call, self._strict)
        except FetchError as trouble:
            if self._lenient is None or not trouble.reason.startswith("tls_") or trouble.reason == "tls_timeout":
                raise
        connection = await self._connect(call, self._lenient)
        connection.flaws = ("tls_unverified",)
        return connection

    async def _connect(self, call: Call, context: ssl.SSLContext | None) -> Connection:
        self._address_rules.check(call.address)
        sock = await self._open_socket(call)
        try:
            await self._reach(sock, call)
        except BaseException:  # also when cancelled
            sock.close()
            raise
        return await self._begin(sock, call, context)

    async def _open_socket(self, call: Call) -> socket.socket:
        """Without a file descriptor we wait: others are in use, and will be given back."""
        family = socket.AF_INET6 if ":" in call.address.ip else socket.AF_INET
        pause, loop = _FIRST_PAUSE, asyncio.get_running_loop()
        while True:
            try:
                sock = socket.socket(family, socket.SOCK_STREAM)
            except OSError as error:
                if error.errno not in _SHORTAGE:
                    raise FetchError("connect_failed", f"no socket: {error.strerror}") from error
                if loop.time() >= call.until:
                    raise FetchError("too_many_files", f"no socket: {error.strerror}") from error
            else:
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return sock
            # An aborted connection gives its descriptor back in the loop's next turn.
            await asyncio.sleep(0 if self._make_room() else min(pause, max(0, call.until - loop.time())))
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _reach(self, sock: socket.socket, call: Call) -> None:
        where = f"{call.address.ip} port {call.address.port}"
        try:
            async with asyncio.timeout(self._patience(call)):
                await asyncio.get_running_loop().sock_connect(sock, (call.address.ip, call.address.port))
        except TimeoutError as error:  # ours, or the system's
            raise FetchError("connect_timeout", f"{where}: no connection in time") from error
        except ConnectionRefusedError as error:
            raise FetchError("connect_refused", f"{where}: refused") from error
        except OSError as error:
            raise FetchError("connect_failed", f"{where}: {error.strerror or error}") from error

    async def _begin(self, sock: socket.socket, call: Call, context: ssl.SSLContext | None) -> Connection:
        connection = Connection(sock, limits=self._limits, budget=self._budget, on_lost=self._on_lost)
        name = call.host.removesuffix(".") if context else None
        try:
            async with asyncio.timeout(self._patience(call)):
                await asyncio.get_running_loop().create_connection(
                    lambda: connection, sock=sock, ssl=context, server_hostname=name
                )
        except TimeoutError as error:
            reason = "tls_timeout" if context else "connect_timeout"
            raise FetchError(reason, "no TLS handshake in time" if context else "no time left") from error
        except ssl.SSLError as error:
            raise FetchError(reason_of(error), f"TLS: {error.strerror or error}"[:300]) from error
        except OSError as error:
            raise FetchError("reset", f"connection lost in the TLS handshake: {error.strerror or error}") from error
        return connection

    def _patience(self, call: Call) -> float:
        return min(self._limits.connect, max(0.0, call.until - asyncio.get_running_loop().time()))
