"""HTTP/2 as a client speaks it (RFC 9113), one request at a time, without I/O: an answer comes out as HTTP/1.1.

    client = Http2Client()
    send(client.greeting() + client.encode_request(fields))
    text = client.receive(data)      # a head of HTTP/1.1, then the body; nothing of the framing
    send(client.take_outgoing())     # what the protocol asks for: acknowledgements, more room

`receive` never raises: what came before a fault is returned, and `error` is set. The policy:

| oddity | answer |
|---|---|
| a frame of a wrong size, order or stream; one over 16 KiB | `http2_error` |
| no SETTINGS first: another protocol | `http2_error` |
| a header block that is no HPACK, wants a table over 4 KiB, or has a field that HTTP/1.1 cannot hold | `http2_error` |
| a header block over 64 KiB, packed or unpacked, in whatever number of CONTINUATIONs | `header_limit` |
| a push, which our settings forbid | `http2_error` |
| more frames than an answer of its length needs: SETTINGS, PING, WINDOW_UPDATE, empty ones | `too_many_frames` |
| RST_STREAM, or GOAWAY that leaves our stream out | `reset`; `http2_error` where the server blames the protocol |
| fields that speak of the connection (`connection`, `transfer-encoding`, …) | left out, flaw `connection_field` |
| trailers | left out |

Only the head of a request is ever sent, so no window of the server's and no setting but the size of its table matter.
The head that comes out is checked by `framing` like that of any server: its size, its lines, interim responses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

import hpack

from webmill.errors import BadInput
from webmill.formats.http.head import MAX_HEAD_BYTES, MAX_HEAD_LINES

MAX_FRAME = 16_384  # bytes; the least limit that there is, and ours
MAX_CONTROL_FRAMES = 512  # of one answer and the pause before it, and one more for each 16 KiB of the body
MAX_SMALL_FRAMES = 65_536  # with a body, and one more for each KiB of it
WINDOW = 8 << 20  # bytes that a server may send before it has to hear of us

_DATA, _HEADERS, _PRIORITY, _RST_STREAM, _SETTINGS, _PUSH_PROMISE, _PING, _GOAWAY, _WINDOW_UPDATE, _CONTINUATION = (
    range(10)
)
_ACK = _END_STREAM = 0x1
_END_HEADERS, _PADDED, _HAS_PRIORITY = 0x4, 0x8, 0x20
_HEAD = 9  # bytes before the payload of a frame
_LAST_STREAM = 0x7FFF_FFFF
_TABLE_SIZE, _ENABLE_PUSH, _INITIAL_WINDOW, _MAX_HEADER_LIST = 1, 2, 4, 6  # settings
_DEFAULT_TABLE, _DEFAULT_WINDOW = 4096, 65_535
_LIST_LIMIT = MAX_HEAD_BYTES + 32 * MAX_HEAD_LINES  # HPACK counts 32 bytes more for each field

# Codes of errors: the server stops for its own reasons, not because it dislikes how it was asked.
_NO_BLAME = frozenset({0x0, 0x5, 0x7, 0x8})  # NO_ERROR, STREAM_CLOSED, REFUSED_STREAM, CANCEL

_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_UNFIT = re.compile(rb"[\r\n\0]")
_STATUS = re.compile(rb"[1-9][0-9]{2}")
_OF_CONNECTION = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"})
_SECRET = frozenset({b"authorization", b"cookie"})


class Http2Client:
    """One connection. `ended`: the answer is over; `is_reusable`: another request may follow it."""

    def __init__(self) -> None:
        self.ended = False
        self.error: BadInput | None = None
        self.flaws: tuple[str, ...] = ()
        self._stream = 0  # of the request under way
        self._has_head = False
        self._is_leaving = False  # the server takes no more requests
        self._has_settings = False
        self._decoder = hpack.Decoder(max_header_list_size=_LIST_LIMIT)
        self._shrinks_table = False
        self._outgoing: list[bytes] = []
        self._incoming: list[bytes] = []
        self._pending = bytearray()
        self._needed = _HEAD  # bytes, until the next frame can be looked at
        self._block: bytearray | None = None  # a header block that goes on
        self._ends_with_block = False
        self._control_frames = self._data_frames = self._body = 0
        self._unacknowledged = self._unacknowledged_stream = 0
        self._handlers: Final[dict[int, Callable[[int, int, bytes], None]]] = {
            _DATA: self._on_data,
            _HEADERS: self._on_headers,
            _RST_STREAM: self._on_reset,
            _SETTINGS: self._on_settings,
            _PUSH_PROMISE: self._on_push,
            _PING: self._on_ping,
            _GOAWAY: self._on_goaway,
            _CONTINUATION: self._on_continuation,
        }

    @property
    def is_reusable(self) -> bool:
        is_over = self.ended or not self._stream
        return is_over and self.error is None and not self._is_leaving and self._stream < _LAST_STREAM - 2

    def greeting(self) -> bytes:
        """Return what opens the connection."""
        settings = ((_ENABLE_PUSH, 0), (_INITIAL_WINDOW, WINDOW), (_MAX_HEADER_LIST, _LIST_LIMIT))
        payload = b"".join(key.to_bytes(2, "big") + value.to_bytes(4, "big") for key, value in settings)
        room = (WINDOW - _DEFAULT_WINDOW).to_bytes(4, "big")
        return (
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, 0, payload) + _frame(_WINDOW_UPDATE, 0, 0, room)
        )

    def encode_request(self, fields: Iterable[tuple[bytes, bytes]]) -> bytes:
        """Return the frames of a request without a body, on the next stream."""
        self._stream = self._stream + 2 if self._stream else 1
        self.ended = self._has_head = False
        self.flaws = ()
        self._control_frames = self._data_frames = self._body = self._unacknowledged_stream = 0
        block = (b"\x20" if self._shrinks_table else b"") + b"".join(_literal(name, value) for name, value in fields)
        self._shrinks_table = False
        pieces = [block[start : start + MAX_FRAME] for start in range(0, len(block), MAX_FRAME)]
        frames = []
        for number, piece in enumerate(pieces):
            flags = (_END_STREAM if number == 0 else 0) | (_END_HEADERS if number == len(pieces) - 1 else 0)
            frames.append(_frame(_CONTINUATION if number else _HEADERS, flags, self._stream, piece))
        return b"".join(frames)

    def take_outgoing(self) -> bytes:
        """Return what is to be sent now."""
        outgoing = b"".join(self._outgoing)
        self._outgoing.clear()
        return outgoing

    def receive(self, data: bytes) -> bytes:
        """Take bytes of the server, and return those of the answer as HTTP/1.1."""
        if self.error is None:
            self._pending += data
            if len(self._pending) >= self._needed:
                try:
                    self._read_frames(bytes(self._pending))
                except BadInput as error:
                    self.error = error
        incoming = b"".join(self._incoming)
        self._incoming.clear()
        return incoming

    def _read_frames(self, data: bytes) -> None:
        position, size = 0, len(data)
        self._needed = _HEAD
        while size - position >= _HEAD:
            length = int.from_bytes(data[position : position + 3], "big")
            if length > MAX_FRAME:
                raise _breach(f"a frame of {length} bytes")
            end = position + _HEAD + length
            if end > size:
                self._needed = _HEAD + length
                break
            kind, flags = data[position + 3], data[position + 4]
            stream = int.from_bytes(data[position + 5 : position + _HEAD], "big") & _LAST_STREAM
            self._read_frame(kind, flags, stream, data[position + _HEAD : end])
            position = end
        del self._pending[:position]

    def _read_frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if not self._has_settings and kind != _SETTINGS:
            raise _breach("the server does not begin with SETTINGS")
        if self._block is not None and kind != _CONTINUATION:
            raise _breach("a header block is interrupted")
        self._count(kind)
        handler = self._handlers.get(kind)  # of others nothing depends, known or not
        if handler is not None:
            handler(flags, stream, payload)

    def _count(self, kind: int) -> None:
        if kind == _DATA:
            self._data_frames += 1
        else:
            self._control_frames += 1
        if (
            self._control_frames > MAX_CONTROL_FRAMES + self._body // MAX_FRAME
            or self._data_frames > MAX_SMALL_FRAMES + self._body // 1024
        ):
            raise BadInput("more HTTP/2 frames than the answer needs", reason="too_many_frames")

    # --- the answer ---

    def _on_data(self, flags: int, stream: int, payload: bytes) -> None:
        if stream != self._stream or self.ended or not self._has_head:
            raise _breach("a body that was not asked for")
        body = _without_padding(flags, payload)
        self._incoming.append(body)
        self._body += len(body)
        self._acknowledge(len(payload))
        self.ended = bool(flags & _END_STREAM)

    def _acknowledge(self, size: int) -> None:
        """Give the server room for as much again, now and then."""
        self._unacknowledged += size
        self._unacknowledged_stream += size
        if self._unacknowledged >= WINDOW // 2:
            self._outgoing.append(_frame(_WINDOW_UPDATE, 0, 0, self._unacknowledged.to_bytes(4, "big")))
            self._unacknowledged = 0
        if self._unacknowledged_stream >= WINDOW // 2:
            room = self._unacknowledged_stream.to_bytes(4, "big")
            self._outgoing.append(_frame(_WINDOW_UPDATE, 0, self._stream, room))
            self._unacknowledged_stream = 0

    def _on_headers(self, flags: int, stream: int, payload: bytes) -> None:
        if not stream or stream != self._stream or self.ended:
            raise _breach("a head that was not asked for")
        payload = _without_padding(flags, payload)
        if flags & _HAS_PRIORITY:
            if len(payload) < 5:
                raise _breach("a HEADERS frame without its priority")
            payload = payload[5:]
        self._block, self._ends_with_block = bytearray(payload), bool(flags & _END_STREAM)
        if flags & _END_HEADERS:
            self._end_block()

    def _on_continuation(self, flags: int, stream: int, payload: bytes) -> None:
        if self._block is None or stream != self._stream:
            raise _breach("a CONTINUATION of nothing")
        self._block += payload
        if len(self._block) > MAX_HEAD_BYTES:
            raise BadInput("the header block does not end", reason="header_limit")
        if flags & _END_HEADERS:
            self._end_block()

    def _end_block(self) -> None:
        block, self._block = bytes(self._block or b""), None
        try:
            fields = [(bytes(name), bytes(value)) for name, value in self._decoder.decode(block, raw=True)]
        except hpack.OversizedHeaderListError as error:
            raise BadInput("the header block is too large", reason="header_limit") from error
        except hpack.HPACKError as error:
            raise _breach(f"a header block that is no HPACK: {type(error).__name__}") from error
        if self._has_head:  # trailers, which HTTP/1.1 has only with chunks
            if not self._ends_with_block:
                raise _breach("a second head")
            self.ended = True
            return
        status = self._add_head(fields)
        if status >= 200:
            self._has_head, self.ended = True, self._ends_with_block
        elif self._ends_with_block:
            raise _breach("an interim response without one behind it")

    def _add_head(self, fields: list[tuple[bytes, bytes]]) -> int:
        """Write a head as HTTP/1.1 has it, without a reason phrase. Return its status."""
        if not fields or fields[0][0] != b":status" or not _STATUS.fullmatch(fields[0][1]):
            raise _breach("a response without a status")
        status = fields[0][1]
        lines = [b"HTTP/1.1 %b " % status]
        for name, value in fields[1:]:
            if not _NAME.fullmatch(name) or _UNFIT.search(value):
                raise _breach("a field that is none of HTTP")
            if name in _OF_CONNECTION:
                self.flaws = ("connection_field",)
            else:
                lines.append(b"%b: %b" % (name, value))
        self._incoming.append(b"\r\n".join(lines) + b"\r\n\r\n")
        return int(status)

    # --- the connection ---

    def _on_settings(self, flags: int, stream: int, payload: bytes) -> None:
        if stream or len(payload) % 6 or (flags & _ACK and payload):
            raise _breach("SETTINGS of a wrong form")
        self._has_settings = True
        if flags & _ACK:
            return
        self._control_frames += len(payload) // 64
        for start in range(0, len(payload), 6):
            key, value = payload[start : start + 2], int.from_bytes(payload[start + 2 : start + 6], "big")
            if key == b"\0\1" and value < _DEFAULT_TABLE:
                self._shrinks_table = True  # RFC 7541, 4.2: to be confirmed, though we use no table
        self._outgoing.append(_frame(_SETTINGS, _ACK, 0, b""))

    def _on_ping(self, flags: int, stream: int, payload: bytes) -> None:
        if stream or len(payload) != 8:
            raise _breach("a PING of a wrong form")
        if not flags & _ACK:
            self._outgoing.append(_frame(_PING, _ACK, 0, payload))

    def _on_goaway(self, flags: int, stream: int, payload: bytes) -> None:  # noqa: ARG002
        if stream or len(payload) < 8:
            raise _breach("a GOAWAY of a wrong form")
        self._is_leaving = True
        last, code = int.from_bytes(payload[:4], "big") & _LAST_STREAM, int.from_bytes(payload[4:8], "big")
        if last < self._stream and not self.ended:
            raise _refusal(f"the server leaves (GOAWAY, code {code})", code)

    def _on_reset(self, flags: int, stream: int, payload: bytes) -> None:  # noqa: ARG002
        if not 0 < stream <= self._stream or len(payload) != 4:
            raise _breach("an RST_STREAM of a wrong form")
        code = int.from_bytes(payload, "big")
        if stream == self._stream and not self.ended:
            raise _refusal(f"the server ended the stream (RST_STREAM, code {code})", code)

    def _on_push(self, flags: int, stream: int, payload: bytes) -> None:  # noqa: ARG002
        raise _breach("a push, which we forbade")


def request_fields(head: bytes, *, scheme: bytes) -> list[tuple[bytes, bytes]]:
    """Return the fields of a request as HTTP/2 has them, from its head as we write it for HTTP/1.1."""
    start, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    method, target, _ = start.split(b" ")
    authority, fields = b"", list[tuple[bytes, bytes]]()
    for line in lines:
        name, _, value = line.partition(b": ")
        name = name.lower()
        if name == b"host":
            authority = value
        elif name not in _OF_CONNECTION:
            fields.append((name, value))
    return [(b":method", method), (b":scheme", scheme), (b":authority", authority), (b":path", target), *fields]


def without_connection_fields(head: bytes) -> bytes:
    """Return a request's head of HTTP/1.1 as it was sent over HTTP/2: without fields that speak of the connection."""
    lines = head.split(b"\r\n")
    return b"\r\n".join(line for line in lines if line.partition(b":")[0].lower() not in _OF_CONNECTION)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return b"%b%c%c%b%b" % (len(payload).to_bytes(3, "big"), kind, flags, stream.to_bytes(4, "big"), payload)


def _literal(name: bytes, value: bytes) -> bytes:
    """Return a field as HPACK that is in no table; proxies are told not to put a secret one into theirs."""
    return b"%c%b%b%b%b" % (0x10 if name in _SECRET else 0, _length(len(name)), name, _length(len(value)), value)


def _length(size: int) -> bytes:
    """Return a length as HPACK writes it (RFC 7541, 5.1), for text that is not packed."""
    if size < 127:
        return bytes((size,))
    written, size = bytearray((127,)), size - 127
    while size >= 128:
        written.append(size % 128 + 128)
        size //= 128
    written.append(size)
    return bytes(written)


def _without_padding(flags: int, payload: bytes) -> bytes:
    if not flags & _PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise _breach("more padding than there is of the frame")
    return payload[1 : len(payload) - payload[0]]


def _breach(message: str) -> BadInput:
    return BadInput(f"not HTTP/2: {message}", reason="http2_error")


def _refusal(message: str, code: int) -> BadInput:
    return BadInput(message, reason="reset" if code in _NO_BLAME else "http2_error")
