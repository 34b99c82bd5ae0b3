"""The bytes of one answer as they come, no further than the limit; no sockets here.

The body is held once, as it was sent. What it means (chunks, content coding) is worked out when it is whole.
"""

from __future__ import annotations

from io import BytesIO
from time import thread_time

from webmill.errors import BadInput
from webmill.formats.compression.content_coding import DecodeLimits, decode_codings, parse_codings, without_chunked
from webmill.formats.http import ChunkedReader, ResponseFramer, ResponseHead

_DECODED_AT_ONCE = 1 << 20  # bytes


class ResponseReader:
    """Collects one response. Feed it until it is complete. `feed` and `close` raise BadInput when there is no response
    to speak of."""

    def __init__(self, *, limit: int, method: str = "GET") -> None:
        self.is_complete = False
        self.is_reusable = False  # the connection, once it is complete
        self.truncated: str | None = None
        self.received = 0
        self.cpu = 0.0  # seconds
        self._framer = ResponseFramer(method=method)
        self._limit = limit
        self._flaws: tuple[str, ...] = ()  # of what brought the message
        # Nearly always one read brings it all, and is kept without a copy. A hostile server can send each byte alone;
        # a list of those would take forty times their size. What is in a BytesIO can be had without a copy, too.
        self._raw: bytes | BytesIO = b""

    @property
    def head(self) -> ResponseHead | None:
        return self._framer.head

    @property
    def flaws(self) -> tuple[str, ...]:
        return (*self._framer.flaws, *self._flaws)

    @property
    def has_whole_body(self) -> bool:
        """Tell whether nothing is missing, by the length that the head tells."""
        return self._framer.ended

    def feed(self, data: bytes) -> None:
        began = thread_time()
        try:
            self._feed(data)
        finally:
            self.cpu += thread_time() - began

    def _feed(self, data: bytes) -> None:
        self.received += len(data)
        if not self._raw:
            self._raw = data
        else:
            if isinstance(self._raw, bytes):
                first, self._raw = self._raw, BytesIO()
                self._raw.write(first)
            self._raw.write(data)
        framer = self._framer
        framer.feed(data)
        if framer.head is None:
            return
        if framer.taken - framer.start - len(framer.head.raw) > self._limit:
            self.truncate("length")
        elif framer.ended or framer.broken:
            self.is_complete, self.is_reusable = True, framer.reusable
            if framer.broken:  # what comes behind it has no meaning any more
                self.truncated = "unspecified"

    def feed_message(self, text: bytes, *, flaws: tuple[str, ...], ended: bool, error: BadInput | None) -> None:
        """Take a part of a message whose end is told (HTTP/2), in the form of HTTP/1.1: with `error`, no more comes."""
        self._flaws = flaws
        if text:
            self.feed(text)
        if self.truncated is not None:
            return
        self.is_complete = self.is_reusable = False  # a length says how much comes, but not that it is over
        if error is not None:
            self._break_off(error)
        elif ended:
            self.close()
            self.is_reusable = self.has_whole_body and not self.flaws

    def _break_off(self, error: BadInput) -> None:
        if self.head is None:
            raise error
        if error.reason != "reset":
            self._flaws += (error.reason,)
        if not self.has_whole_body:
            self.truncated = "disconnect" if error.reason == "reset" else "unspecified"
        self.is_complete = True

    def close(self) -> None:
        """Finish: the server ended the connection in order."""
        self._framer.close()
        if not self._framer.ended:
            self.truncated = "disconnect"
        self.is_complete = True

    def truncate(self, why: str) -> None:
        """Read no more of this response, though there is a head."""
        self.truncated = why
        self.is_complete = True

    def first_bytes(self, size: int) -> bytes:
        """Return the first bytes that came, whatever they mean."""
        return self._raw[:size] if isinstance(self._raw, bytes) else bytes(self._raw.getbuffer()[:size])

    def response(self) -> bytes:
        """Return head and body as sent, without interim responses and excess."""
        framer, head = self._framer, self._framer.head
        assert head is not None
        end = min(framer.taken, framer.start + len(head.raw) + self._limit)
        if isinstance(self._raw, bytes):
            return self._raw[framer.start : end]  # all of it: the same object
        self._raw.truncate(end)
        return self._raw.getvalue()[framer.start :]


def decode_payload(head: ResponseHead, response: bytes, *, limits: DecodeLimits) -> tuple[bytes, str | None]:
    """Return the body without chunking and codings, and what was wrong with them."""
    transfer = parse_codings(head.headers, "Transfer-Encoding")
    start = len(head.raw)
    body = join_chunks(response, start) if transfer and transfer[-1] == "chunked" else response[start:]
    codings = (*parse_codings(head.headers), *without_chunked(transfer))
    if not codings and len(body) <= limits.output:
        return body, None
    decoded = decode_codings(body, codings, limits=limits)
    return decoded.data, decoded.flaw


def join_chunks(response: bytes, start: int) -> bytes:
    """Return the body of chunks that begins at `start`. What is large is not copied a second time."""
    if len(response) - start <= _DECODED_AT_ONCE:
        return ChunkedReader().feed(response[start:])
    reader, body = ChunkedReader(), BytesIO()
    for at in range(start, len(response), _DECODED_AT_ONCE):
        body.write(reader.feed(response[at : at + _DECODED_AT_ONCE]))
    return body.getvalue()
