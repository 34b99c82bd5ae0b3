"""Undo Content-Encoding, and the chunked coding of archived bodies, within limits.

Whatever happens, the answer is bytes and a flaw, never an exception and never more than the limit:

| flaw | `data` is | complete |
|---|---|---|
| None | the decoded body | yes |
| `trailing_bytes` | the decoded body; bytes after its end are left out | yes |
| `not_as_labelled` | the body as it is: it is not what its label says | yes |
| `unknown_coding` | the body as it is, as far as it could be decoded | yes |
| `truncated` | what could be decoded before the stream stopped | no |
| `corrupt` | what could be decoded before the damage | no |
| `decode_limit` | exactly as many bytes as the limit allows (too many codings or too large a window: none) | no |

Output is limited in size and in proportion to the input seen so far, at every stage of a chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from webmill.formats.compression.decompressors import DECOMPRESSORS, ERRORS, WindowTooLarge
from webmill.formats.http.chunked import ChunkedReader
from webmill.model import Headers

_HELD = 64 * 1024  # input kept until the first output, to be able to say "not as labelled"


class DecodeLimits(msgspec.Struct, frozen=True, kw_only=True):
    output: int = 64 * 1024 * 1024
    ratio: int = 200
    ratio_from: int = 1024 * 1024  # output below this is never too large in proportion
    codings: int = 3

    def allowed(self, received: int) -> int:
        """How much output this much input may become."""
        return min(self.output, max(self.ratio_from, self.ratio * received))


class DecodedBody(msgspec.Struct, frozen=True):
    data: bytes
    complete: bool
    flaw: str | None


DEFAULT_LIMITS = DecodeLimits()
_INCOMPLETE = ("truncated", "corrupt", "decode_limit")


def decode_codings(body: bytes, codings: Sequence[str], *, limits: DecodeLimits = DEFAULT_LIMITS) -> DecodedBody:
    """`codings` in the order in which they were applied, as Content-Encoding lists them."""
    decoder = ContentDecoder(codings, limits=limits)
    data = decoder.feed(body)
    decoder.finish()
    return DecodedBody(data, decoder.complete, decoder.flaw)


def decode_body(headers: Headers, body: bytes, *, limits: DecodeLimits = DEFAULT_LIMITS) -> DecodedBody:
    """The content of an archived HTTP message: transfer coding off, then content coding. The first flaw is told."""
    transfer = parse_codings(headers, "Transfer-Encoding")
    plain = DecodedBody(body, complete=True, flaw=None)
    if transfer and transfer[-1] == "chunked":
        plain, transfer = decode_chunked(body), transfer[:-1]
    decoded = decode_codings(plain.data, (*parse_codings(headers), *transfer), limits=limits)
    return DecodedBody(decoded.data, plain.complete and decoded.complete, plain.flaw or decoded.flaw)


def parse_codings(headers: Headers, name: str = "Content-Encoding") -> tuple[str, ...]:
    """The codings of a message in the order in which they were applied, lower case."""
    words = (word.strip().lower() for value in headers.get_all(name) for word in value.split(","))
    return tuple(word for word in words if word)


def decode_chunked(body: bytes) -> DecodedBody:
    """An archived chunked body. One with a wrong chunk (or none at all: crawlers often unchunk) is given as it is."""
    reader = ChunkedReader()
    data = reader.feed(body)
    if reader.broken:
        return DecodedBody(body, complete=True, flaw="not_as_labelled")
    if not reader.ended:
        return DecodedBody(data, complete=not body, flaw="truncated" if body else None)
    return DecodedBody(data, complete=True, flaw="trailing_bytes" if reader.unused else None)


class ContentDecoder:
    """The same, as the bytes come. After `finish`, `flaw` is the first thing that was wrong."""

    def __init__(self, codings: Sequence[str], *, limits: DecodeLimits = DEFAULT_LIMITS) -> None:
        self.flaw: str | None = None
        self.complete = True
        self._limits = limits
        self._received = 0
        self._written = 0
        self._stages: list[_CodingStage] = []
        wanted = [coding for coding in codings if coding != "identity"]
        if len(wanted) > limits.codings:
            self.note("decode_limit")
            self._limits = DecodeLimits(output=0)
            return
        for coding in reversed(wanted):
            if coding not in DECOMPRESSORS:
                self.note("unknown_coding")
                break
            self._stages.append(_CodingStage(coding, self))

    def feed(self, data: bytes) -> bytes:
        return b"".join(self.pieces(data))

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """What `feed` gives, a few MiB at most at a time: for those whose limit is more than fits into memory."""
        self._received += len(data)
        yield from self._within_limit(self._through(0, data))

    def finish(self) -> None:
        """The input is over. No output waits for this: every decoder hands out what it can at once."""
        for stage in self._stages:
            stage.finish()

    def note(self, flaw: str) -> None:
        self.flaw = self.flaw or flaw
        self.complete = self.complete and flaw not in _INCOMPLETE

    def allowed(self) -> int:
        return self._limits.allowed(self._received)

    def _within_limit(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The limit holds for the output as a whole, also when nothing had to be decoded."""
        for piece in pieces:
            room = self._limits.output - self._written
            self._written += min(room, len(piece))
            yield piece[:room]
            if len(piece) > room:
                self.note("decode_limit")
                break

    def _through(self, index: int, data: bytes) -> Iterator[bytes]:
        if index == len(self._stages):
            yield data
            return
        for piece in self._stages[index].feed(data):
            yield from self._through(index + 1, piece)


class _CodingStage:
    """One coding of a chain: counts its output, remembers its first input, decides what an error means."""

    def __init__(self, coding: str, chain: ContentDecoder) -> None:
        self._codec = DECOMPRESSORS[coding]()
        self._chain = chain
        self._held: bytes | None = b""  # None: too much to give back
        self._received = 0
        self._written = 0
        self._state = "decoding"  # then "as_is" or "over"

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._state == "decoding":
            yield from self._decode(data)
        elif self._state == "as_is":
            yield data

    def finish(self) -> None:
        if self._state != "decoding":
            return
        if self._received and not self._codec.ended:
            self._chain.note("truncated")
        elif self._codec.trailing:
            self._chain.note("trailing_bytes")

    def _decode(self, data: bytes) -> Iterator[bytes]:
        self._received += len(data)
        if not self._written and self._held is not None:
            self._held = self._held + data if len(self._held) + len(data) <= _HELD or not self._held else None
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
            self._chain.note("not_as_labelled")
            self._state = "as_is"
            yield self._held

    def _stop(self, flaw: str) -> None:
        self._chain.note(flaw)
        self._state = "over"
