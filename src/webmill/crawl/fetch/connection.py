"""One connection: it carries one request at a time, holds one answer, and keeps the time.

What breaks off before a whole head is a Trouble; after it, the answer is kept as far as it came. Whether the connection
may be used again is decided when the answer is over, and anything that arrives unasked ends it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import cast

from webmill.crawl.fetch.budget import Budget
from webmill.crawl.fetch.response_reader import Reception
from webmill.crawl.fetch.types import FetchError, FetchLimits
from webmill.errors import BadInput


class Connection(asyncio.Protocol):
    def __init__(
        self, sock: socket.socket, *, limits: FetchLimits, budget: Budget, on_lost: Callable[[Connection], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket, self._limits, self._budget, self._on_lost = sock, limits, budget, on_lost
        self._transport: asyncio.Transport | None = None
        self._reception: Reception | None = None  # only while an answer is awaited
        self._waiter: asyncio.Future[FetchError | None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._until = 0.0
        self._mark = 0  # bytes received when the present window began
        self._held = 0  # bytes of the budget
        self._paused = False
        self.lost = False
        self.flaws: tuple[str, ...] = ()
        self.tls: tuple[str, str] | None = None  # protocol and cipher suite

    async def ask(self, request: bytes, reception: Reception, *, until: float) -> None:
        """Send, and fill `reception` until it is over. Raises Trouble when not even a head came."""
        if self._transport is None or self.lost:
            raise FetchError("reset", "the connection was closed before the request was sent")
        self._reception, self._until = reception, until
        waiter = self._waiter = self._loop.create_future()
        try:
            self._transport.write(request)
            self._wind()
            trouble = await waiter
        except asyncio.CancelledError:
            self.abort()
            raise
        finally:
            self._settle()
        if trouble is not None:
            raise trouble

    def is_quiet(self) -> bool:
        """Alive, and nothing came since its last answer: whatever came would be taken for the next one."""
        if self.lost or self._transport is None or self._transport.is_closing():
            return False
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False  # bytes, or the end

    def abort(self) -> None:
        if self._transport is not None and not self.lost:
            self._transport.abort()

    # --- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's has another base class
        ssl_object = transport.get_extra_info("ssl_object")
        if ssl_object is not None:
            name, _, _ = ssl_object.cipher() or ("", "", 0)
            version = (ssl_object.version() or "").removeprefix("TLSv")
            self.tls = (f"tls/{version}" if "." in version else f"tls/{version}.0", name)

    def data_received(self, data: bytes) -> None:
        reception = self._reception
        if reception is None or self._waiter is None or self._waiter.done():
            self.abort()  # nobody asked
            return
        try:
            reception.feed(data)
        except BadInput as error:
            self._finish(FetchError(error.reason, error.message))
            return
        if reception.over:
            self._finish(None)
        else:
            self._held += len(data)
            self._budget.take(self, len(data))

    def eof_received(self) -> None:
        if self._reception is None or self._reception.over:
            return
        try:
            self._reception.close()
        except BadInput as error:
            silent = not self._reception.received
            reason = "no_response" if silent else error.reason
            self._finish(FetchError(reason, "closed without a byte" if silent else error.message))
            return
        self._finish(None)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        if self._reception is not None:
            self._break_off("disconnect", FetchError("reset", f"connection lost: {error or 'closed'}"))
        self._on_lost(self)

    # --- time and memory ---

    def pause(self) -> None:
        self._paused = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        self._paused = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        if self._reception is not None:
            self._wind()  # the server is not to blame for the pause

    def _wind(self) -> None:
        """Begin a window."""
        if self._timer is not None:
            self._timer.cancel()
        self._mark = self._reception.received if self._reception is not None else 0
        self._timer = self._loop.call_at(min(self._until, self._loop.time() + self._limits.window), self._look)

    def _look(self) -> None:
        reception, limits = self._reception, self._limits
        if reception is None:
            return
        if self._loop.time() >= self._until:
            self._break_off("time", FetchError("timeout", f"not done within {limits.total:g} s"))
        elif reception.received - self._mark < limits.rate * limits.window and not self._paused:
            self._break_off("time", FetchError("timeout", f"slower than {limits.rate} bytes/s for {limits.window:g} s"))
        else:
            self._wind()

    # --- the end of an answer ---

    def _break_off(self, why: str, trouble: FetchError) -> None:
        if self._waiter is None or self._waiter.done() or self._reception is None:
            return
        if self._reception.head is None:
            self._finish(trouble)
        else:
            self._reception.cut(why)
            self._finish(None)

    def _finish(self, trouble: FetchError | None) -> None:
        """As a result, not an exception: if the caller was cancelled in this moment, nobody asks for it."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(trouble)
        if trouble is not None or self._reception is None or not self._reception.reusable:
            self.abort()

    def _settle(self) -> None:
        self._reception = None
        if self._timer is not None:
            self._timer.cancel()
        if self._held:
            self._budget.give_back(self, self._held)
            self._held = 0
        if self._paused:
            self.resume()
