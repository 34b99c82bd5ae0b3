"""One connection, which carries one request at a time, holds one answer, and keeps the time.

What breaks off before a whole head is a `FetchError`; after it, the answer is kept as far as it came. Whether the
connection may be used again is decided when the answer is over, and anything that arrives unasked ends it.

Where the server chose HTTP/2 in the TLS handshake, `Http2Client` turns the answer into one of HTTP/1.1, and all else is
the same.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from time import thread_time
from typing import Protocol, cast

from webmill.crawl.fetch.response_reader import ResponseReader
from webmill.crawl.fetch.tls_sessions import learn_session
from webmill.crawl.fetch.types import FetchError, FetchLimits, SocketAddress
from webmill.errors import BadInput
from webmill.formats.http import Http2Client, request_fields, without_connection_fields

# A server that sends a few bytes at a time costs a turn of the event loop for each: a long answer in small pieces is
# read every few milliseconds.
FREE_READS, SMALL_READ, READ_PAUSE = 256, 65_536, 0.01
CPU_PER_READ = 30e-6  # seconds that the event loop needs for it, measured
_PLAIN_MEMORY, _TLS_MEMORY, _TLS_BUFFERS = 4096, 40_000, 2  # measured


class FetchConnection(asyncio.Protocol):
    def __init__(
        self,
        sock: socket.socket,
        *,
        address: SocketAddress,
        limits: FetchLimits,
        budget: MemoryBudget,
        on_lost: Callable[[FetchConnection], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket, self._limits, self._budget, self._on_lost = sock, limits, budget, on_lost
        self.address = address  # of the server
        self._transport: asyncio.Transport | None = None
        self._reader: ResponseReader | None = None  # only while an answer is awaited
        self._waiter: asyncio.Future[FetchError | None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self._window_start = 0  # bytes received when it began
        self._budgeted = 0  # bytes of the budget
        self._is_paused = False  # by the budget
        self._pause: asyncio.TimerHandle | None = None  # after a small read
        self._reads = 0  # of this answer
        self._largest_read = 0  # bytes
        self.is_lost = False
        self.flaws: tuple[str, ...] = ()
        self.tls: tuple[str, str] | None = None  # protocol and cipher suite
        self._ssl_object: ssl.SSLObject | None = None
        self._is_session_learnt = False
        self._http2: Http2Client | None = None

    async def send(self, request: bytes, reader: ResponseReader, *, deadline: float) -> None:
        """Send a request, and fill `reader` until it is complete. Raise `FetchError` when not even a head came."""
        if self._transport is None or self.is_lost:
            raise FetchError("reset", "the connection was closed before the request was sent")
        self._reader, self._deadline = reader, deadline
        waiter = self._waiter = self._loop.create_future()
        try:
            if self._http2 is None:
                self._transport.write(request)
            else:
                self._transport.write(self._http2.encode_request(request_fields(request, scheme=b"https")))
            self._start_window()
            error = await waiter
        except asyncio.CancelledError:
            self.abort()
            raise
        finally:
            self._clean_up()
        if error is not None:
            raise error

    @property
    def is_http2(self) -> bool:
        return self._http2 is not None

    def as_sent(self, request: bytes) -> bytes:
        """Return a request's head without what this connection does not send."""
        return request if self._http2 is None else without_connection_fields(request)

    def is_quiet(self) -> bool:
        """Tell whether it is alive and nothing came since its last answer: that would be taken for the next one."""
        if self.is_lost or self._transport is None or self._transport.is_closing():
            return False
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False  # bytes, or the end

    def peer_certificate(self) -> bytes:
        """Return the server's certificate as it was sent; empty without TLS, or with a cipher that needs none."""
        return (self._ssl_object.getpeercert(binary_form=True) if self._ssl_object else None) or b""

    def learn_session(self) -> None:
        """Remember the TLS session for the next connection to the host, once; after an answer."""
        if self._ssl_object is not None and not self._is_session_learnt:
            self._is_session_learnt = True
            learn_session(self._ssl_object)

    @property
    def idle_memory(self) -> int:
        """Return about how many bytes it takes while it is idle: TLS keeps buffers as large as the largest read."""
        return _PLAIN_MEMORY if self.tls is None else _TLS_MEMORY + _TLS_BUFFERS * self._largest_read

    def abort(self) -> None:
        if self._transport is not None and not self.is_lost:
            self._transport.abort()

    # --- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's has another base class
        ssl_object = transport.get_extra_info("ssl_object")
        if ssl_object is not None:
            self._ssl_object = ssl_object
            name, _, _ = ssl_object.cipher() or ("", "", 0)
            version = (ssl_object.version() or "").removeprefix("TLSv")
            self.tls = (f"tls/{version}" if "." in version else f"tls/{version}.0", name)
            if ssl_object.selected_alpn_protocol() == "h2":
                self._http2 = Http2Client()
                self._transport.write(self._http2.greeting())

    def data_received(self, data: bytes) -> None:
        if self._http2 is not None:
            self._receive_http2(self._http2, data)
            return
        reader = self._reader
        if reader is None or self._waiter is None or self._waiter.done():
            self.abort()  # nobody asked
            return
        self._largest_read = max(self._largest_read, len(data))
        try:
            reader.feed(data)
        except BadInput as error:
            self._finish(FetchError(error.reason, error.message))
            return
        if reader.is_complete:
            self._finish(None)
        else:
            self._budgeted += len(data)
            self._budget.add(self, len(data))
            self._count_read(reader, len(data))

    def _receive_http2(self, http2: Http2Client, data: bytes) -> None:
        reader, began = self._reader, thread_time()
        text = http2.receive(data)
        if (outgoing := http2.take_outgoing()) and self._transport is not None and not self.is_lost:
            self._transport.write(outgoing)
        if reader is None or self._waiter is None or self._waiter.done():
            if text or not http2.is_reusable:
                self.abort()  # nobody asked, or the server leaves
            return
        reader.cpu += thread_time() - began
        self._largest_read = max(self._largest_read, len(data))
        try:
            reader.feed_message(text, flaws=http2.flaws, ended=http2.ended, error=http2.error)
        except BadInput as error:
            self._finish(FetchError(error.reason, error.message))
            return
        if reader.is_complete:
            reader.is_reusable = reader.is_reusable and http2.is_reusable
            self._finish(None)
        else:
            self._budgeted += len(text)
            self._budget.add(self, len(text))
            self._count_read(reader, len(data))

    def eof_received(self) -> None:
        if self._reader is None or self._reader.is_complete:
            return
        if self._http2 is not None and self._reader.head is not None:
            self._interrupt("disconnect", FetchError("reset", "connection lost: closed"))
            return
        try:
            self._reader.close()
        except BadInput as error:
            silent = not self._reader.received
            reason = "no_response" if silent else error.reason
            self._finish(FetchError(reason, "closed without a byte" if silent else error.message))
            return
        self._finish(None)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        if self._reader is not None:
            self._interrupt("disconnect", FetchError("reset", f"connection lost: {error or 'closed'}"))
        self._on_lost(self)

    # --- time and memory ---

    def pause(self) -> None:
        self._is_paused = True
        self._let_read()

    def resume(self) -> None:
        self._is_paused = False
        self._let_read()
        if self._reader is not None:
            self._start_window()  # the server is not to blame for the pause

    def _count_read(self, reader: ResponseReader, size: int) -> None:
        """After many reads a small one is followed by a pause, so that the next brings more."""
        self._reads += 1
        reader.cpu += CPU_PER_READ
        if self._reads > FREE_READS and size < SMALL_READ and self._pause is None:
            self._pause = self._loop.call_later(READ_PAUSE, self._end_pause)
            self._let_read()

    def _end_pause(self) -> None:
        self._pause = None
        self._let_read()

    def _let_read(self) -> None:
        """Read on, or do not: both may be said twice."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._is_paused or self._pause is not None:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _start_window(self) -> None:
        """Start to measure how fast the answer comes."""
        if self._timer is not None:
            self._timer.cancel()
        self._window_start = self._reader.received if self._reader is not None else 0
        self._timer = self._loop.call_at(
            min(self._deadline, self._loop.time() + self._limits.window), self._check_window
        )

    def _check_window(self) -> None:
        reader, limits = self._reader, self._limits
        if reader is None:
            return
        if self._loop.time() >= self._deadline:
            self._interrupt("time", FetchError("timeout", f"not done within {limits.total:g} s"))
        elif reader.received - self._window_start < limits.rate * limits.window and not self._is_paused:
            self._interrupt("time", FetchError("timeout", f"slower than {limits.rate} bytes/s for {limits.window:g} s"))
        else:
            self._start_window()

    # --- the end of an answer ---

    def _interrupt(self, why: str, error: FetchError) -> None:
        if self._waiter is None or self._waiter.done() or self._reader is None:
            return
        if self._reader.head is None:
            self._finish(error)
        else:
            if not self._reader.has_whole_body:
                self._reader.truncate(why)
            self._finish(None)

    def _finish(self, error: FetchError | None) -> None:
        """Wake the caller, with an error as a result: if it was cancelled in this moment, nobody asks for it."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(error)
        if error is not None or self._reader is None or not self._reader.is_reusable:
            self.abort()

    def _clean_up(self) -> None:
        self._reader, self._reads = None, 0
        if self._timer is not None:
            self._timer.cancel()
        if self._budgeted:
            self._budget.release(self, self._budgeted)
            self._budgeted = 0
        if self._pause is not None:
            self._pause.cancel()
            self._end_pause()
        if self._is_paused:
            self.resume()


class PausableReader(Protocol):
    def pause(self) -> None: ...
    def resume(self) -> None: ...


class MemoryBudget:
    """One memory budget for all responses that are being read.

    Beyond it, responses are left waiting in the kernel, except one: that one can always go on to its end, so there is
    no deadlock, and what is held is at most the budget, one response, and one read (256 KiB) per connection.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self.used = 0
        self._favoured: PausableReader | None = None
        self._waiting: dict[PausableReader, None] = {}  # in the order of their coming

    def add(self, reader: PausableReader, size: int) -> None:
        self.used += size
        if self.used <= self._total or reader is self._favoured:
            return
        if self._favoured is None:
            self._favoured = reader
        else:
            self._waiting[reader] = None
            reader.pause()

    def release(self, reader: PausableReader, size: int) -> None:
        """Release all bytes of a reader: it is done with its answer."""
        self._waiting.pop(reader, None)
        if reader is self._favoured:
            self._favoured = None
        self.give_back(size)

    def give_back(self, size: int) -> None:
        """So many bytes are not held any more."""
        self.used -= size
        if self.used <= self._total:
            waiting, self._waiting = self._waiting, {}
            for each in waiting:
                each.resume()
        elif self._favoured is None and self._waiting:
            self._favoured = next(iter(self._waiting))
            del self._waiting[self._favoured]
            self._favoured.resume()
