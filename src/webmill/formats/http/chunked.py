"""Decode the chunked transfer coding (RFC 9112, 7.1) incrementally.

Every chunk-size line must be hexadecimal digits, an optional extension, CRLF; every chunk must end in CRLF. Anything
else breaks the reader for good: the end of a broken chunk is unknown, and is not guessed. A bare LF is accepted and
noted (`lf_only`), since its meaning is clear.
"""

from __future__ import annotations

import re

MAX_SIZE_LINE = 4096  # size and extensions; far more than real servers send
MAX_TRAILER_BYTES = 16 * 1024

_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n\0]*)?")


class ChunkedReader:
    """Decodes bytes as received to the body. Bytes after the last chunk are in `unused`.

    It never raises: the body before a bad chunk is still returned, then `broken` is set and stays.
    """

    def __init__(self) -> None:
        self.ended = False
        self.broken = False
        self.unused = b""
        self.trailers = b""
        self.flaws: list[str] = []
        self._buffer = bytearray()
        self._body = bytearray()
        self._left = 0  # of the current chunk's data
        self._expect = self._size_line

    def feed(self, data: bytes) -> bytes:
        if not self.broken:
            self._buffer += data
        while not self.ended and not self.broken and self._expect():
            pass
        if self.ended:
            self.unused += bytes(self._buffer)
            self._buffer.clear()
        body = bytes(self._body)
        self._body.clear()
        return body

    # Each step consumes from the buffer and returns whether another step may be tried at once.

    def _size_line(self) -> bool:
        line = self._take_line(MAX_SIZE_LINE)
        if line is None:
            return False
        match = _SIZE_LINE.fullmatch(line)
        if match is None:
            return self._break()
        self._left = int(match[1], 16)
        self._expect = self._data if self._left else self._trailer_line
        return True

    def _data(self) -> bool:
        taken = self._buffer[: self._left]
        self._body += taken
        del self._buffer[: len(taken)]
        self._left -= len(taken)
        if self._left:
            return False
        self._expect = self._data_end
        return True

    def _data_end(self) -> bool:
        if self._buffer and self._buffer[0] not in b"\r\n":
            return self._break()
        if self._take_line(0) is None:
            return False
        self._expect = self._size_line
        return True

    def _trailer_line(self) -> bool:
        line = self._take_line(MAX_TRAILER_BYTES - len(self.trailers))
        if line is None:
            return False
        if line:
            self.trailers += bytes(line) + b"\r\n"
        self.ended = not line
        return True

    def _break(self) -> bool:
        self.broken = True
        self._buffer.clear()
        return False

    def _take_line(self, limit: int) -> bytearray | None:
        """Take a line of at most `limit` bytes; return None while it is incomplete."""
        end = self._buffer.find(b"\n", 0, limit + 2)
        if end < 0:
            if len(self._buffer) >= limit + 2:
                self._break()
            return None
        line = self._buffer[:end]
        del self._buffer[: end + 1]
        if line.endswith(b"\r"):
            return line[:-1]
        if "lf_only" not in self.flaws:
            self.flaws.append("lf_only")
        return line
