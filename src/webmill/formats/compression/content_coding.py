"""Decode Content-Encoding, and the chunked coding of archived bodies, within limits.

The result is always bytes and a flaw, never an exception and never more than the limit:

| flaw | `data` is | complete |
|---|---|---|
| None | the decoded body | yes |
| `trailing_bytes` | the decoded body, without the bytes after its end | yes |
| `not_as_labelled` | the body as it is: it does not have the stated coding | yes |
| `unknown_coding` | the body, decoded up to the unknown coding | yes |
| `truncated` | what could be decoded before the stream stopped | no |
| `corrupt` | what could be decoded before the damage | no |
| `decode_limit` | exactly as many bytes as the limit allows (none for too many codings or too large a window) | no |

Output is limited in size and relative to the input so far, at every stage of a chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from webmill.formats.compression.decompressors import DECOMPRESSORS, ERRORS, WindowTooLarge
from webmill.formats.compression.gzip_members import inflate_only_member
from webmill.formats.http.chunked import ChunkedReader
from webmill.model import Headers

_MAX_HELD = 64 * 1024  # input kept until the first output, to return it if the coding is wrong


class DecodeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much output decoding may produce."""

    output: int = 64 * 1024 * 1024
    ratio: int = 200
    ratio_from: int = 1024 * 1024  # below this much output the ratio is not checked
    codings: int = 3

    def allowed(self, received: int) -> int:
        """Return how much output is allowed for this much input."""
        return min(self.output, max(self.ratio_from, self.ratio * received))


class DecodedBody(msgspec.Struct, frozen=True):
    """A decoded body; see the table above."""

    data: bytes
    complete: bool
    flaw: str | None


DEFAULT_LIMITS = DecodeLimits()
_INCOMPLETE = ("truncated", "corrupt", "decode_limit")


def decode_codings(body: bytes, codings: Sequence[str], *, limits: DecodeLimits = DEFAULT_LIMITS) -> DecodedBody:
    """Decode a body. `codings` are in the order in which they were applied, as Content-Encoding lists them."""
    if tuple(codings) == ("gzip",) and (whole := inflate_only_member(body, most=limits.allowed(len(body)))) is not None:
        return DecodedBody(whole, complete=True, flaw=None)  # nearly all pages, in half of the time
    decoder = ContentDecoder(codings, limits=limits)
    data = decoder.feed(body)
    decoder.finish()
    return DecodedBody(data, decoder.complete, decoder.flaw)


def decode_body(headers: Headers, body: bytes, *, limits: DecodeLimits = DEFAULT_LIMITS) -> DecodedBody:
    """Decode the transfer and content codings of an archived HTTP message. The first flaw is returned."""
    transfer = parse_codings(headers, "Transfer-Encoding")
    plain = DecodedBody(body, complete=True, flaw=None)
    if transfer and transfer[-1] == "chunked":
        plain, transfer = decode_chunked(body), without_chunked(transfer)
    decoded = decode_codings(plain.data, (*parse_codings(headers), *transfer), limits=limits)
    return DecodedBody(decoded.data, plain.complete and decoded.complete, plain.flaw or decoded.flaw)


def parse_codings(headers: Headers, name: str = "Content-Encoding") -> tuple[str, ...]:
    """Return the codings of a message in the order in which they were applied, in lower case."""
    codings = (coding.strip().lower() for value in headers.get_all(name) for coding in value.split(","))
    return tuple(coding for coding in codings if coding)


def without_chunked(transfer: Sequence[str]) -> tuple[str, ...]:
    """Return the codings below the chunks. A server that states `chunked` twice has applied it once."""
    return tuple(coding for coding in transfer if coding != "chunked")


def decode_chunked(body: bytes) -> DecodedBody:
    """Decode an archived chunked body.

    One with an invalid chunk, or without any (as many crawlers store), is returned as is.
    """
    reader = ChunkedReader()
    data = reader.feed(body)
    if reader.broken:
        return DecodedBody(body, complete=True, flaw="not_as_labelled")
    if not reader.ended:
        return DecodedBody(data, complete=not body, flaw="truncated" if body else None)
    return DecodedBody(data, complete=True, flaw="trailing_bytes" if reader.unused else None)


class ContentDecoder:
    """Decodes codings incrementally. After `finish`, `flaw` is the first flaw."""

    def __init__(self, codings: Sequence[str], *, limits: DecodeLimits = DEFAULT_LIMITS) -> None:
        self.flaw: str | None = None
        self.complete = True
        self._limits = limits
        self._received = 0
        self._written = 0
        self._stages: list[_CodingStage] = []
        wanted = [coding for coding in codings if coding != "identity"]
        if len(wanted) > limits.codings:
            self.add_flaw("decode_limit")
            self._limits = DecodeLimits(output=0)
            return
        for coding in reversed(wanted):
            if coding not in DECOMPRESSORS:
                self.add_flaw("unknown_coding")
                break
            self._stages.append(_CodingStage(coding, self))

    def feed(self, data: bytes) -> bytes:
        return b"".join(self.feed_pieces(data))

    def feed_pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield what `feed` returns, a few MiB at a time: for limits larger than the memory."""
        self._received += len(data)
        yield from self._within_limit(self._decode_from(0, data))

    def finish(self) -> None:
        """End the input and note flaws. There is no more output: decoders return everything at once."""
        for stage in self._stages:
            stage.finish()

    def add_flaw(self, flaw: str) -> None:
        self.flaw = self.flaw or flaw
        self.complete = self.complete and flaw not in _INCOMPLETE

    def allowed(self) -> int:
        return self._limits.allowed(self._received)

    def _within_limit(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Limit the total output, even if nothing had to be decoded."""
        for piece in pieces:
            room = self._limits.output - self._written
            self._written += min(room, len(piece))
            yield piece[:room]
            if len(piece) > room:
                self.add_flaw("decode_limit")
                break

    def _decode_from(self, index: int, data: bytes) -> Iterator[bytes]:
        if index == len(self._stages):
            yield data
            return
        for piece in self._stages[index].feed(data):
            yield from self._decode_from(index + 1, piece)


class _CodingStage:
    """One coding of a chain: counts its output, keeps its first input, and decides what an error means."""

    def __init__(self, coding: str, chain: ContentDecoder) -> None:
        self._codec = DECOMPRESSORS[coding]()
        self._chain = chain
        self._held: bytes | None = b""  # None: too long to be kept
        self._received = 0
        self._written = 0
        self._state = "decoding"  # then "as_is" or "ended"

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._state == "decoding":
            yield from self._decode(data)
        elif self._state == "as_is":
            yield data

    def finish(self) -> None:
        if self._state != "decoding":
            return
        if self._received and not self._codec.ended:
            self._chain.add_flaw("truncated")
        elif self._codec.trailing:
            self._chain.add_flaw("trailing_bytes")

    def _decode(self, data: bytes) -> Iterator[bytes]:
        self._received += len(data)
        if not self._written and self._held is not None:
            self._held = self._held + data if len(self._held) + len(data) <= _MAX_HELD or not self._held else None
        try:
            for piece in self._codec.feed(data):
                room = self._chain.allowed() - self._written
                self._written += min(len(piece), room)
                yield piece[:room]
                if len(piece) > room:
                    self._stop("decode_limit")
                    return
        except WindowTooLarge:
            self._stop("decode_limit")
        except ERRORS:
            yield from self._fail()

    def _fail(self) -> Iterator[bytes]:
        if self._written or self._held is None:
            self._stop("corrupt")
        else:
            self._chain.add_flaw("not_as_labelled")
            self._state = "as_is"
            yield self._held

    def _stop(self, flaw: str) -> None:
        self._chain.add_flaw(flaw)
        self._state = "ended"
