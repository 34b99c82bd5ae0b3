"""Accepts connections from a socket that several processes share.

asyncio's own server accepts thousands of connections at once, before it asks anybody whether they are wanted. This one
takes a few at a time, so that the other processes get some, and closes those of clients that are ignored before a
transport is made for them, which costs ten times as much as accepting.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable

AT_ONCE = 16  # connections accepted in one go
CLOSED_AT_ONCE = 500  # of clients that are ignored: others wait behind them
EXHAUSTED_PAUSE = 0.5  # seconds without accepting when the system has no files or memory left


class Listener:
    """A listening socket in the running event loop, until it is closed. `ignores` says whom not to listen to."""

    def __init__(
        self,
        listening: socket.socket,
        connection: Callable[[], asyncio.BaseProtocol],
        *,
        ignores: Callable[[str], bool],
        tls: ssl.SSLContext | None,
        handshake_timeout: float | None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listening, self._connection, self._ignores = listening, connection, ignores
        self._tls, self._handshake_timeout = tls, handshake_timeout
        self._starting: set[asyncio.Task[None]] = set()
        self._is_closed = False
        listening.setblocking(False)
        self._loop.add_reader(listening.fileno(), self._accept)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._listening.fileno())

    async def wait_closed(self) -> None:
        """Wait for TLS handshakes that have begun."""
        if self._starting:
            await asyncio.wait(self._starting)

    def _accept(self) -> None:
        wanted = 0
        for _ in range(CLOSED_AT_ONCE):
            try:
                one, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no more files, or no memory
                self._pause()
                return
            if self._ignores(address[0]):
                one.close()
                continue
            one.setblocking(False)
            wanted += 1
            task = self._loop.create_task(self._start(one))
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)
            if wanted == AT_ONCE:
                return

    def _pause(self) -> None:
        self._loop.remove_reader(self._listening.fileno())
        self._loop.call_later(EXHAUSTED_PAUSE, self._resume)

    def _resume(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._listening.fileno(), self._accept)

    async def _start(self, one: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the client has left, or speaks no TLS
            await self._loop.connect_accepted_socket(
                self._connection, one, ssl=self._tls, ssl_handshake_timeout=self._handshake_timeout
            )
