"""HTTP/1.1 on one connection: uvicorn's protocol with limits for slow, greedy and hostile clients.

uvicorn waits forever for the end of a head, lets headers grow without bound, and never gives up on a client that does
not read. Here

- a request is complete within `head_seconds`, its head within `head_bytes`, its body within `body_bytes`;
- a client that reads nothing for `send_seconds` is disconnected;
- open connections are limited per client and in total (`ConnectionLimiter`);
- from a client that was refused nothing is read for a while: it can send as much as it wants, and costs nothing;
- invalid HTTP is answered once and the connection closed; so are a Transfer-Encoding that is more than `chunked`, a
  target that names another host than the Host field, and chunk extensions and trailers beyond `head_bytes`.

There is no timer per connection: all are checked twice a second (`ConnectionLimiter.close_slow`).
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, cast

import httptools
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from webmill.serve.http.connection_limiter import ConnectionLimiter
from webmill.serve.http.pause import pause_of

Fields = list[tuple[bytes, bytes]]
MOST_PIPELINED = 16
SLICE = 8 << 10  # bytes parsed before the limits are checked again
LINGER = 2.0  # seconds to keep reading after a refusal; an immediate close would discard the answer
LINGER_BYTES = 256 << 10
# Of a large head, all that a browser can send: 180 cookies of 4 KiB for a site. It reads no answer before it has sent
# them, and asks for nothing else of this site until they are gone, so the answer has to come through.
LARGE_HEAD_LINGER = 15.0
LARGE_HEAD_BYTES = 1 << 20
FORGET_COOKIES = 'Clear-Site-Data: "cookies"\r\n'
REASONS = {
    400: "this is not an HTTP request",
    408: "the request took too long to arrive",
    413: "the request body is too large",
    431: "the request line and headers are too large; cookies of this site are gone now: load the page again",
    503: "too many connections; try again later",
}
_ABSOLUTE_TARGET = re.compile(rb"https?://([^/?#@]+)(?:[/?#]|\Z)", re.IGNORECASE)
RETRY = "Retry-After: 5\r\n"
PHRASES = {
    400: "Bad Request",
    408: "Request Timeout",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


class RefusedRequest(Exception):
    """Raised in a parser callback to refuse the request and stop reading from the connection."""

    def __init__(self, status: int) -> None:
        super().__init__(REASONS[status])
        self.status = status


class ClientConnection(HttpToolsProtocol):
    def __init__(self, *, limiter: ConnectionLimiter, **uvicorns: Any) -> None:
        super().__init__(**uvicorns)
        self._limiter, self._limits = limiter, limiter.limits
        self._address = ""
        self._framing = 0  # bytes of this request that are neither its head nor its body, so far
        self._accounted = 0  # bytes that are, of all requests
        self._messages = 0  # complete requests
        self._body = 0
        self._stopped_reading = False
        self._discarded = 0  # bytes, since then
        self._is_head_large = False
        self._final_status = 0  # to send after the answers that are due before it
        self._is_request_complete = True
        self._since = self.loop.time()  # start of the incomplete request, or of the connection
        self._idle_since = self._since
        self._blocked_since: float | None = None  # when the client stopped reading
        self._paused_until: float | None = None  # after a refusal
        self._abort_at: float | None = None
        self.is_closing = False

    # --- from the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._is_request_complete = False
        self._address = self.client[0] if self.client else ""
        if not self._limiter.admit(self, self._address):
            self._close_with(503)

    def connection_lost(self, exc: Exception | None) -> None:
        self._limiter.release(self, self._address)
        if not self._messages:
            self._limiter.add_fault(self._address)
        super().connection_lost(exc)
        self.pipeline.clear()

    def data_received(self, data: bytes) -> None:
        if self._stopped_reading:
            self._discard(len(data))
            return
        if self._is_request_complete:
            self._is_request_complete, self._since = False, self.loop.time()
        for start in range(0, len(data), SLICE):
            if not self._feed(data[start : start + SLICE]):
                return

    def _discard(self, size: int) -> None:
        """Read a little of what a refused client still sends, so that it gets the refusal; then no more."""
        self._discarded += size
        if self._discarded > (LARGE_HEAD_BYTES if self._is_head_large else LINGER_BYTES):
            if self._abort_at is not None:
                self._abort()
            else:
                self.flow.pause_reading()

    def _feed(self, data: bytes) -> bool:
        """Parse a slice; return whether to read on. What is too large is refused before all of it has cost CPU."""
        before, was_complete = self._accounted, self._messages
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # to an unsupported protocol: answered as plain HTTP, then closed
            self._stopped_reading = self._is_request_complete = True
            self.cycle.keep_alive = False
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._refuse(cause.status if isinstance(cause, RefusedRequest) else 400)
        else:
            self._framing = max(0, self._framing + len(data) - (self._accounted - before))
            if self._framing > self._limits.head_bytes:
                self._refuse(431)
            elif self._messages != was_complete:
                self._framing = 0
        return not self._stopped_reading

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection open for an answer: a client may close its sending half early."""
        self._stopped_reading = True
        if self.is_closing or not self._is_answering(self.cycle) or self.scheme == "https":
            return False
        self.cycle.keep_alive = False
        return True

    def resume_writing(self) -> None:
        super().resume_writing()
        self._blocked_since = None  # slow is not blocked

    # --- from the parser

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._body = 0
        if self._is_request_complete:  # the next request in the same packet
            self._is_request_complete, self._since = False, self.loop.time()

    def on_headers_complete(self) -> None:
        size = self._head_size()
        if size > self._limits.head_bytes:
            raise RefusedRequest(431)  # received at once
        if not (has_plain_coding(self.headers) and is_for_host(self.url, self.headers)):
            raise RefusedRequest(400)
        self._accounted += size
        if len(self.pipeline) >= MOST_PIPELINED:
            raise RefusedRequest(503)
        super().on_headers_complete()
        self._limiter.mark_busy(self)

    def on_body(self, body: bytes) -> None:
        self._accounted += len(body)
        self._body += len(body)
        if self._body > self._limits.body_bytes:
            raise RefusedRequest(413)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._messages += 1
        self._is_request_complete = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Do what uvicorn does, without a timer per response."""
        self.server_state.total_requests += 1
        pause = pause_of(cast("Scope", self.cycle.scope))
        if pause:
            self._limiter.add_fault(self._address)
        if self.transport.is_closing() or (pause and self._pause(pause)):
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._final_status:
            self._close_with(self._final_status)
        else:
            self._idle_since = self.loop.time()
            self._limiter.mark_idle(self)

    def _pause(self, seconds: float) -> bool:
        """Read nothing for a while after a refusal; not from a proxy, which speaks for many."""
        if self._limiter.is_exempt(self._address):
            return False
        if self.pipeline:  # it has not waited for the refusal
            self.close_idle()
            return True
        self._paused_until = self.loop.time() + seconds
        self.flow.pause_reading()
        self._limiter.mark_idle(self)
        return True

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    # --- closing

    def check_timeouts(self) -> None:
        """Close the connection if its client is too slow."""
        now = self.loop.time()
        if self._abort_at is not None:
            if now >= self._abort_at:
                self._abort()
        elif self._paused_until is not None:
            if now >= self._paused_until:
                self._paused_until, self._since, self._idle_since = None, now, now
                self.flow.resume_reading()
        elif self._is_blocked(now):
            self._limiter.on_refused("slow_reader")
            self._abort()
        elif self.flow.read_paused:
            self._since = now  # we are the slow side
        elif (
            not self._is_request_complete
            and not self._stopped_reading
            and now - self._since > self._limits.head_seconds
        ):
            self._refuse(408)
        elif (
            self._is_request_complete
            and now - self._idle_since > self._limits.idle_seconds
            and not self._is_answering(self.cycle)
        ):
            self.close_idle()

    def _is_blocked(self, now: float) -> bool:
        if not (self.flow.write_paused or (self.transport.is_closing() and self.transport.get_write_buffer_size())):
            self._blocked_since = None
            return False
        if self._blocked_since is None:
            self._blocked_since = now
        return now - self._blocked_since > self._limits.send_seconds

    def close_idle(self) -> None:
        """Close this idle connection to make room for another."""
        self.is_closing = self._stopped_reading = True
        self.transport.close()

    def cut(self) -> None:
        """Break this connection off, in the middle of an answer, to make room for another client."""
        self.is_closing = self._stopped_reading = True
        self._abort()

    def _abort(self) -> None:
        """Break off. The answer must know at once: uvloop does not forgive writing to a connection that is gone."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.abort()

    @property
    def peer(self) -> str:
        return self._address

    def _refuse(self, status: int) -> None:
        """Refuse the request, after the answers that are due before it."""
        self._stopped_reading = True
        self._limiter.on_refused(REFUSAL_REASONS[status])
        self._limiter.add_fault(self._address)
        if self._is_answering(self.cycle) and not (status in (408, 413) and self._cancel_unanswered()):
            self._final_status = status
        else:
            self._close_with(status)

    def _cancel_unanswered(self) -> bool:
        """Cancel the request whose body never arrived; return False if its response has started."""
        if self.pipeline or self.cycle.response_started or not self.cycle.more_body:
            return False
        self.cycle.disconnected = True
        self.cycle.message_event.set()
        return True

    @staticmethod
    def _is_answering(cycle: RequestResponseCycle | None) -> bool:
        return cycle is not None and not cycle.response_complete

    def _close_with(self, status: int) -> None:
        self.is_closing = self._stopped_reading = True
        self._is_head_large = status == 431
        text = REASONS[status].encode() + b"\n"
        more = {431: FORGET_COOKIES, 503: RETRY}.get(status, "")
        self.transport.write(
            f"HTTP/1.1 {status} {PHRASES[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(text)}\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n"
            f"{more}Connection: close\r\n\r\n".encode()
            + text
        )
        if self.transport.can_write_eof():
            self._abort_at = self.loop.time() + (LARGE_HEAD_LINGER if self._is_head_large else LINGER)
            self.transport.write_eof()
        elif self._is_head_large:  # TLS has no half-closed connections: the client closes it, or we do later
            self._abort_at = self.loop.time() + LARGE_HEAD_LINGER
        else:
            self._abort_at = self.loop.time() + self._limits.send_seconds
            self.transport.close()


def has_plain_coding(headers: Fields) -> bool:
    """Return whether the body has no transfer coding, or is chunked once: two readers of anything else may disagree on
    where it ends (request smuggling)."""
    values = [value for name, value in headers if name == b"transfer-encoding"]
    return not values or [value.strip(b" \t").lower() for value in values] == [b"chunked"]


def is_for_host(target: bytes, headers: Fields) -> bool:
    """Return whether the target is a path, or a URL of the host that the Host field names (RFC 9112, 3.2.2)."""
    if target.startswith(b"/") or target == b"*":
        return True
    named = _ABSOLUTE_TARGET.match(target)
    return named is not None and named[1].lower() in {value.lower() for name, value in headers if name == b"host"}


REFUSAL_REASONS = {400: "junk", 408: "slow_request", 413: "large_body", 431: "large_head", 503: "pipelined"}
