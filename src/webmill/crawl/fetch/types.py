"""What goes into the fetcher and what comes out of it."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from webmill.formats.compression.content_coding import DecodeLimits
from webmill.formats.http import ResponseHead
from webmill.model import Exchange

FAILURES = frozenset(
    {
        # the URL or the request itself; nothing was sent
        "bad_url",
        "scheme",
        "url_too_long",
        "bad_name",
        "header_injection",
        "not_latin1",
        # where it leads
        "blocked_address",
        "blocked_port",
        "forgotten",
        "dns_notfound",
        "dns_failed",
        "dns_timeout",
        # this machine
        "too_many_files",
        "source_address",
        "proxy_failed",
        # the way there
        "connect_refused",
        "connect_timeout",
        "connect_failed",
        "tls_expired",
        "tls_self_signed",
        "tls_untrusted",
        "tls_host",
        "tls_timeout",
        "tls_other",
        # the answer, before its head was whole
        "timeout",
        "reset",
        "no_response",
        "truncated_head",
        # the answer's head
        "header_limit",
        "no_start_line",
        "bad_status",
        "bad_length",
        "conflicting_length",
        "unexpected_upgrade",
        "http2_error",
        "too_many_frames",
    }
)
MAX_PARTIAL = 64 * 1024


class SocketAddress(Struct, frozen=True):
    """Where a request goes: an IP address, never a name."""

    ip: str
    port: int


class FetchRequest(Struct, frozen=True, kw_only=True):
    """A GET, if no other `method` is named. `headers` are sent after our own, e.g. If-None-Match, or in place of one of
    the same name; `archived` is what the exchange has in their place, where some are secret. So many bytes of a body
    are read in any case; an answer that takes longer than `seconds` is cut there."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    archived: tuple[tuple[str, str], ...] | None = None
    at_least: int = 0
    method: str = "GET"
    body: bytes = b""
    seconds: float | None = None  # None: as the limits say

    @property
    def is_repeatable(self) -> bool:
        """Tell whether it may be sent again when a connection broke: a POST may have done its work already."""
        return self.method in ("GET", "HEAD", "OPTIONS")


class FetchedResponse(Struct, frozen=True):
    """An answer, whole or (`exchange.truncated`) its beginning. `payload` is the body without chunking and coding."""

    exchange: Exchange
    head: ResponseHead
    payload: bytes
    flaws: tuple[str, ...]
    cpu: float = 0.0  # seconds that its framing took on the event loop


class FetchFailure(Struct, frozen=True):
    """No answer that could be archived. `sent`: the request may have reached the server."""

    url: str
    reason: str  # one of FAILURES
    message: str
    sent: bool
    ip: str = ""
    partial: bytes = b""  # what came of an answer, up to MAX_PARTIAL


class FetchLimits(Struct, frozen=True, kw_only=True):
    """Seconds and bytes. A head has the limits of `formats.http`: 64 KiB, 256 lines, 8 interim responses before it."""

    connect: float = 10.0  # for TCP, and once more for the TLS handshake
    total: float = 120.0  # from the first try to connect to the last byte
    rate: int = 1024  # bytes a second, at least, over each `window`
    window: float = 30.0
    body: int = 64 * 1024 * 1024  # as sent: still chunked, still compressed
    memory: int = 512 * 1024 * 1024  # of answers under way in this process; beyond it only one answer is read on
    idle: float = 15.0  # how long a connection waits for its next request, where the server allows it
    idle_connections: int = 1000  # that wait
    idle_memory: int = 128 * 1024 * 1024  # of those: with TLS one takes 40 to 550 KB
    decoding: DecodeLimits = msgspec.field(default_factory=DecodeLimits)


class FetchError(Exception):
    """Why a fetch fails, on its way to becoming a `FetchFailure`; never leaves this package."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
