"""A sliding window over a source of bytes: look ahead, take, and step back a little, in bounded memory."""

from __future__ import annotations

import re
from typing import Protocol

CHUNK = 1 << 20
LOOK_BACK = 8 << 20  # bytes kept behind `at` for as long as a unit is not settled


class ByteSource(Protocol):
    """Anything to read from. `read` gives at most `size` bytes, and none only at the end."""

    def read(self, size: int, /) -> bytes: ...


class ByteWindow:
    """`data[at:]` is what comes next; `position` is its offset in the source.

    Bytes from `mark` on stay within reach of `step_back`, up to LOOK_BACK of them.
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
    def over(cls, data: bytes | bytearray) -> ByteWindow:
        """All of it is there already."""
        window = cls(None, size=len(data))
        window.data = data
        return window

    @property
    def position(self) -> int:
        return self.base + self.at

    def has(self, count: int) -> bool:
        """Are there `count` more bytes?"""
        while len(self.data) - self.at < count:
            if not self.more():
                return False
        return True

    def more(self) -> bool:
        """Read on; False at the end."""
        if self._source is None:
            return False
        keep = min(max(self.mark - self.base, self.at - LOOK_BACK, 0), self.at)
        kept = len(self.data) - keep
        # What is kept is copied each time: reading at least an eighth of it makes that linear, also for short reads.
        pieces = self._gather(min(max(CHUNK, kept), LOOK_BACK), least=kept // 8)
        if pieces:
            self.data = b"".join((memoryview(self.data)[keep:], *pieces))
            self.base += keep
            self.at -= keep
        self._note_end()
        return bool(pieces)

    def take(self, count: int) -> bytes | None:
        """The next `count` bytes; or None, with nothing taken, when there are fewer."""
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
        """Pass over `count` bytes; False when there are fewer (they are passed over then)."""
        while count > len(self.data) - self.at:
            count -= len(self.data) - self.at
            self.at = len(self.data)
            if not self.more():
                return False
        self.at += count
        return True

    def step_back(self, position: int) -> None:
        """Go to `position`, or as near to it as was kept."""
        self.at = max(position - self.base, 0)

    def search(self, pattern: re.Pattern[bytes], *, longest: int) -> bool:
        """Move to the next match of `pattern` (at most `longest` bytes long), or to the end."""
        while True:
            found = pattern.search(self.data, self.at)
            # A match that touches the edge of what we have may be another one with more data.
            if found and (found.start() + longest <= len(self.data) or not self.more()):
                self.at = found.start()
                return True
            if not found:
                self.at = max(self.at, len(self.data) - longest)
                if not self.more():
                    self.at = len(self.data)
                    return False

    def _gather(self, most: int, *, least: int) -> list[bytes]:
        """Pieces of `least` to `most` bytes together; fewer at the end, where the source is let go."""
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
