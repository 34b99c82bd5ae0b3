"""A sliding window over a source of bytes: look ahead, take bytes and step back, in bounded memory."""

from __future__ import annotations

import re
from typing import Protocol

CHUNK = 1 << 20
LOOK_BACK = 8 << 20  # bytes kept before `at` until a unit is finished


class ByteSource(Protocol):
    """A source of bytes. `read` returns at most `size` bytes, and none only at the end."""

    def read(self, size: int, /) -> bytes: ...


class ByteWindow:
    """A window over a source: `data[at:]` comes next, `position` is its offset in the source.

    Bytes from `mark` on are kept for `step_back`, up to LOOK_BACK of them.
    """

    __slots__ = ("_source", "at", "base", "data", "mark", "size")

    def __init__(self, source: ByteSource | None, *, start: int = 0, size: int | None = None) -> None:
        self.data: bytes | bytearray = b""
        self.at = 0
        self.base = start  # the offset of data[0]
        self.mark = start
        self.size = size  # the offset of the end, once known
        self._source = source

    @classmethod
    def of_bytes(cls, data: bytes | bytearray) -> ByteWindow:
        """Return a window over bytes in memory."""
        window = cls(None, size=len(data))
        window.data = data
        return window

    @property
    def position(self) -> int:
        return self.base + self.at

    def has(self, count: int) -> bool:
        """Return whether there are `count` more bytes, reading as needed."""
        while len(self.data) - self.at < count:
            if not self.read_more():
                return False
        return True

    def read_more(self) -> bool:
        """Read more bytes; return False at the end."""
        if self._source is None:
            return False
        keep = min(max(self.mark - self.base, self.at - LOOK_BACK, 0), self.at)
        kept = len(self.data) - keep
        # Kept bytes are copied each time: reading at least an eighth of them keeps that linear, even for short reads.
        pieces = self._gather(min(max(CHUNK, kept), LOOK_BACK), least=kept // 8)
        if pieces:
            self.data = b"".join((memoryview(self.data)[keep:], *pieces))
            self.base += keep
            self.at -= keep
        self._note_end()
        return bool(pieces)

    def take(self, count: int) -> bytes | None:
        """Take the next `count` bytes; return None, taking nothing, if there are fewer."""
        end = self.at + count
        if end > len(self.data):
            return self._take_across(count)
        taken = bytes(memoryview(self.data)[self.at : end])
        self.at = end
        return taken

    def _take_across(self, count: int) -> bytes | None:
        if self.size is not None and self.position + count > self.size:
            return None
        there = len(self.data) - self.at
        pieces = self._gather(count - there, least=count - there)
        if there + sum(map(len, pieces)) < count:
            self.data = b"".join((self.data, *pieces))
            self._note_end()
            return None
        taken = b"".join((memoryview(self.data)[self.at :], *pieces))
        self.base += self.at + count
        self.data, self.at = b"", 0
        return taken

    def skip(self, count: int) -> bool:
        """Skip `count` bytes; return False if there are fewer (all are skipped then)."""
        while count > len(self.data) - self.at:
            count -= len(self.data) - self.at
            self.at = len(self.data)
            if not self.read_more():
                return False
        self.at += count
        return True

    def step_back(self, position: int) -> None:
        """Move back to `position`, or as near to it as bytes were kept."""
        self.at = max(position - self.base, 0)

    def search(self, pattern: re.Pattern[bytes], *, longest: int) -> bool:
        """Move to the next match of `pattern` (at most `longest` bytes long), or to the end."""
        while True:
            found = pattern.search(self.data, self.at)
            # A match at the edge of the data may be a different one with more data.
            if found and (found.start() + longest <= len(self.data) or not self.read_more()):
                self.at = found.start()
                return True
            if not found:
                self.at = max(self.at, len(self.data) - longest)
                if not self.read_more():
                    self.at = len(self.data)
                    return False

    def _gather(self, most: int, *, least: int) -> list[bytes]:
        """Read `least` to `most` bytes in pieces; fewer at the end, where the source is released."""
        pieces: list[bytes] = []
        while self._source is not None:
            piece = self._source.read(min(most, CHUNK))
            if not piece:
                self._source = None
                break
            pieces.append(piece)
            most -= len(piece)
            least -= len(piece)
            if least <= 0:
                break
        return pieces

    def _note_end(self) -> None:
        if self._source is None:
            self.size = self.base + len(self.data)
