"""Streaming decompressors that yield bounded pieces, for `content_coding`.

The libraries limit their output differently: zlib's `max_length` is exact; brotli's `output_buffer_limit` is soft, and
zstandard's `max_output_size` is overridden by the frame header, so these two are fed slices of input so small that one
slice cannot inflate beyond a few MiB.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Protocol, cast

import brotli
import zstandard
from zlib_ng import zlib_ng

ZSTD_WINDOW = 8 * 1024 * 1024
PIECE = 64 * 1024  # of output requested at a time
_ZLIB_SLICE = 4096  # of input
_BROTLI_SLICE = 256  # of input; small, since the output of a broken slice is lost
_ZSTD_SLICE = 256  # of input; a block of 4 bytes may become 128 KiB, so a slice 8 MiB at most
_ZSTD_FRAME_HEADER = 18  # bytes at most

_ZlibError = cast("type[Exception]", zlib_ng.error)


class WindowTooLarge(Exception):
    """A stream needs a larger window than is allowed."""


ERRORS: tuple[type[Exception], ...] = (_ZlibError, brotli.error, zstandard.ZstdError, WindowTooLarge)


class Decompressor(Protocol):
    """A streaming decompressor. `feed` raises one of ERRORS on invalid bytes."""

    ended: bool  # a complete stream was read, and no part of another
    trailing: bool  # there are bytes after the end that are not a stream

    def feed(self, data: bytes) -> Iterator[bytes]: ...


class GzipDecompressor:
    """RFC 1952; several members in a row are one body."""

    def __init__(self) -> None:
        self.ended = False
        self.trailing = False
        self._inflate = _open_inflate(31)
        self._after = b""  # bytes after a member that may begin another

    def feed(self, data: bytes) -> Iterator[bytes]:
        rest = memoryview(self._after + data)  # not copied again: a body may have a million empty members
        self._after = b""
        while rest:
            if self.ended:
                self.trailing = bytes(rest[:2]) != b"\x1f\x8b"
                if self.trailing:
                    self._after = bytes(rest[:2])
                    return
                self._inflate, self.ended = _open_inflate(31), False
            rest = yield from _inflate(self._inflate, rest, on_error=_salvage)
            self.ended = self._inflate.eof


class DeflateDecompressor:
    """The coding deflate: zlib (RFC 1950) by the standard, raw deflate (RFC 1951) from many servers."""

    def __init__(self) -> None:
        self.ended = False
        self.trailing = False
        self._begin = b""
        self._inflate: _Inflate | None = None
        self._on_error = _salvage

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._inflate is None:
            data = self._begin = self._begin + data
            if len(data) < 2:
                return
            self._open(data)
        if not self.ended and self._inflate is not None:
            rest = yield from _inflate(self._inflate, memoryview(data), on_error=self._on_error)
            self.ended = self._inflate.eof
            self.trailing = bool(rest)
        elif data:
            self.trailing = True

    def _open(self, begin: bytes) -> None:
        """Choose zlib by its header (method 8 and check bits), which no raw stream begins with."""
        if begin[0] & 0x0F == 8 and (begin[0] << 8 | begin[1]) % 31 == 0:
            self._inflate = _open_inflate(15)
        else:
            # A raw stream has no marker: a plain page often inflates to a few random bytes before it fails.
            self._inflate, self._on_error = _open_inflate(-15), _drop


class BrotliDecompressor:
    """RFC 7932."""

    def __init__(self) -> None:
        self.ended = False
        self.trailing = False
        self._decoder = brotli.Decompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        for at in range(0, len(data), _BROTLI_SLICE):
            if self.ended:
                self.trailing = True
                return
            piece = self._decoder.process(data[at : at + _BROTLI_SLICE], output_buffer_limit=PIECE)
            yield piece
            while len(piece) >= PIECE:  # `can_accept_more_data` is true while output is still pending
                piece = self._decoder.process(b"", output_buffer_limit=PIECE)
                yield piece
            self.ended = self._decoder.is_finished()


class ZstdDecompressor:
    """RFC 8878; several frames in a row are one body. RFC 9659 limits the window to 8 MiB."""

    _MAGICS = (b"\x28\xb5\x2f\xfd", *(bytes((0x50 + low, 0x2A, 0x4D, 0x18)) for low in range(16)))

    def __init__(self) -> None:
        self.ended = False
        self.trailing = False
        self._frame = self._open()
        self._begin = b""  # the start of the frame; after its end: bytes that may begin another

    def feed(self, data: bytes) -> Iterator[bytes]:
        at = 0
        if self.ended:
            data, self._begin = self._begin + data, b""
        while at < len(data):
            if self.ended:
                self._begin = data[at : at + 4]
                self.trailing = self._begin not in self._MAGICS
                if self.trailing:
                    return
                self._frame, self._begin, self.ended = self._open(), b"", False
            piece = data[at : at + _ZSTD_SLICE]
            yield self._decompress(piece)
            self.ended = self._frame.eof
            at += len(piece) - len(self._frame.unused_data)

    def _decompress(self, data: bytes) -> bytes:
        if len(self._begin) < _ZSTD_FRAME_HEADER:
            self._begin = (self._begin + data)[:_ZSTD_FRAME_HEADER]
        try:
            piece = self._frame.decompress(data)
        except zstandard.ZstdError as error:
            raise (WindowTooLarge() if _exceeds_window(self._begin) else error) from None
        if self._frame.eof:
            self._begin = b""
        return piece

    @staticmethod
    def _open() -> zstandard.ZstdDecompressionObj:
        return zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj(write_size=PIECE)


DECOMPRESSORS: dict[str, Callable[[], Decompressor]] = {
    "gzip": GzipDecompressor,
    "x-gzip": GzipDecompressor,
    "deflate": DeflateDecompressor,
    "br": BrotliDecompressor,
    "zstd": ZstdDecompressor,
}


def _exceeds_window(frame: bytes) -> bool:
    try:
        return zstandard.get_frame_parameters(frame).window_size > ZSTD_WINDOW
    except zstandard.ZstdError:
        return False


class _Inflate(Protocol):
    """The interface of zlib's decompression objects; the stubs of zlib-ng lack `copy`."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = 0, /) -> bytes: ...
    def copy(self) -> _Inflate: ...


def _open_inflate(wbits: int) -> _Inflate:
    return cast("_Inflate", zlib_ng.decompressobj(wbits))


def _inflate(
    stream: _Inflate, data: memoryview, *, on_error: Callable[[_Inflate, bytes], Iterator[bytes]]
) -> Generator[bytes, None, memoryview]:
    """Yield output; return the input after the end of the stream."""
    for at in range(0, len(data), _ZLIB_SLICE):
        rest, more = bytes(data[at : at + _ZLIB_SLICE]), True
        while more and not stream.eof:
            before = stream.copy()
            try:
                piece = stream.decompress(rest, PIECE)
            except _ZlibError:
                yield from on_error(before, rest)
                raise
            yield piece
            rest = stream.unconsumed_tail
            more = bool(rest) or len(piece) == PIECE
        if stream.eof:
            return data[min(at + _ZLIB_SLICE, len(data)) - len(stream.unused_data) :]
    return data[len(data) :]


def _salvage(stream: _Inflate, data: bytes) -> Iterator[bytes]:
    """Yield the output before the bad byte, byte by byte: on an error zlib loses the output of the whole call."""
    for at in range(len(data)):
        try:
            yield stream.decompress(data[at : at + 1])
        except _ZlibError:
            return


def _drop(stream: _Inflate, data: bytes) -> Iterator[bytes]:  # noqa: ARG001
    return iter(())
