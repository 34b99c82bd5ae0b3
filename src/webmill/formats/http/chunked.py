"""Decode the chunked transfer coding (RFC 9112, 7.1) incrementally.

Every chunk-size line must be hexadecimal digits, an optional extension, CRLF; every chunk must end in CRLF. Anything
else breaks the reader for good: the end of a broken chunk is unknown, and is not guessed. A bare LF is accepted and
noted (`lf_only`), since its meaning is clear.

A chunk costs the reader as much as a kilobyte of data, so a server that sends a byte at a time could keep a crawler
busy: readers of live answers allow only so many chunks.
"""

from __future__ import annotations

import re

MAX_SIZE_LINE = 4096  # size and extensions; far more than real servers send
MAX_TRAILER_BYTES = 16 * 1024
MAX_SMALL_CHUNKS = 65_536  # and one more for each KiB of the body: real servers send a line, a page or a buffer at once

_SIZE_LINE = re.compile(rb"0*([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n\0]*)?(\r?)\n")


class ChunkedReader:
    """Decodes bytes as received to the body. Bytes after the last chunk are in `unused`.

    It never raises: the body before a bad chunk is still returned, then `broken` is set and stays. With
    `limit_chunks`, more chunks than a body of its length needs are a flaw (`too_many_chunks`) and break it too.
    """

    def __init__(self, *, limit_chunks: bool = False) -> None:
        self.ended = False
        self.broken = False
        self.unused = b""
        self.trailers = b""
        self.flaws: list[str] = []
        self._limit_chunks = limit_chunks
        self._chunks = 0
        self._decoded = 0
        self._body = bytearray()
        self._pending = b""  # the beginning of a line
        self._left = 0  # of the current chunk's data
        self._expect = self._read_size

    def feed(self, data: bytes) -> bytes:
        if self._is_over():
            self.unused += data if self.ended else b""
            return b""
        data, position = self._pending + data if self._pending else data, 0
        while not self._is_over() and (after := self._expect(data, position)) is not None:
            position = after
        self._pending = b"" if self._is_over() else data[position:]
        self.unused = data[position:] if self.ended else b""
        body = bytes(self._body)
        self._body.clear()
        return body

    def _is_over(self) -> bool:
        return self.ended or self.broken

    # Each step reads from a position, and returns the position behind what it read: None if it needs more bytes.

    def _read_size(self, data: bytes, position: int) -> int | None:
        match = _SIZE_LINE.match(data, position, position + MAX_SIZE_LINE + 2)
        if match is None:
            is_whole = data.find(b"\n", position, position + MAX_SIZE_LINE + 2) >= 0
            return self._break("bad_chunk", position) if is_whole or len(data) - position >= MAX_SIZE_LINE + 2 else None
        if not match[2]:
            self._note("lf_only")
        self._left = int(match[1], 16)
        self._chunks += 1
        if self._limit_chunks and self._chunks > MAX_SMALL_CHUNKS + self._decoded // 1024:
            return self._break("too_many_chunks", position)
        self._expect = self._read_data if self._left else self._read_trailer
        return match.end()

    def _read_data(self, data: bytes, position: int) -> int | None:
        taken = data[position : position + self._left]
        if not taken:
            return None
        self._body += taken
        self._decoded += len(taken)
        self._left -= len(taken)
        if not self._left:
            self._expect = self._read_data_end
        return position + len(taken)

    def _read_data_end(self, data: bytes, position: int) -> int | None:
        if data.startswith(b"\r\n", position):
            end = position + 2
        elif data.startswith(b"\n", position):
            self._note("lf_only")
            end = position + 1
        else:
            return None if data[position:] in (b"", b"\r") else self._break("bad_chunk", position)
        self._expect = self._read_size
        return end

    def _read_trailer(self, data: bytes, position: int) -> int | None:
        limit = MAX_TRAILER_BYTES - len(self.trailers) + 2
        end = data.find(b"\n", position, position + limit)
        if end < 0:
            return self._break("bad_chunk", position) if len(data) - position >= limit else None
        if not data.startswith(b"\r", max(position, end - 1)):
            self._note("lf_only")
        line = data[position:end].removesuffix(b"\r")
        if line:
            self.trailers += line + b"\r\n"
        self.ended = not line
        return end + 1

    def _break(self, flaw: str, position: int) -> int:
        self.broken = True
        self._note(flaw)
        return position

    def _note(self, flaw: str) -> None:
        if flaw not in self.flaws:
            self.flaws.append(flaw)
