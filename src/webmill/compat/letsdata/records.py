"""Records of a plain file by their start and end patterns, as letsdata finds them.

The file is searched for the start; from there the record goes on to its end, which is part of it (`}` and a line end of
a log line), unless it is the start of the record that follows (`WARC/1.0`). Without another end it goes to the end of
the file. Bytes between records belong to none.
"""

from __future__ import annotations

from typing import NamedTuple

from webmill.compat.letsdata.documents import RecordHintType, RecordParseHint
from webmill.errors import BadInput
from webmill.extract.own_reader import OpenFile

CHUNK = 1 << 20
LONGEST = 256 << 20  # bytes of a record


class FoundRecord(NamedTuple):
    offset: int
    data: bytes

    @property
    def end(self) -> int:
        return self.offset + len(self.data)


class RecordScanner:
    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self._buffer = bytearray()
        self._base = 0  # the offset of the buffer's first byte
        self._is_whole = False  # all of the file is in the buffer, from `_base` on

    def next(
        self, start: RecordParseHint, end: RecordParseHint, *, following: RecordParseHint | None
    ) -> FoundRecord | None:
        """Return the next record, or None at the end of the file."""
        first = self._start(start)
        if first is None:
            return None
        self._drop(first)
        begin = start.getPattern().encode() if is_pattern(start) else b""
        data = bytes(self._buffer[: self._end(end, following, after=max(1, len(begin)))])
        found = FoundRecord(self._base, data)
        self._drop(len(data))
        return found

    def _start(self, hint: RecordParseHint) -> int | None:
        if is_pattern(hint):
            return self._find(hint.getPattern().encode(), 0, drop=True)
        return hint.getOffset() if self._fill(hint.getOffset() + 1) else None

    def _end(self, hint: RecordParseHint, following: RecordParseHint | None, *, after: int) -> int:
        """Return how many bytes of the buffer the record has."""
        if not is_pattern(hint):
            self._fill(hint.getOffset())
            return min(hint.getOffset(), len(self._buffer))
        pattern = hint.getPattern()
        at = self._find(pattern.encode(), after)
        if at is None:
            return len(self._buffer)
        starts_next = following is not None and is_pattern(following) and following.getPattern() == pattern
        return at if starts_next else at + len(pattern.encode())

    def _find(self, pattern: bytes, at: int, *, drop: bool = False) -> int | None:
        """Return where the pattern is in the buffer, reading on as far as needed. With `drop`, what is before goes."""
        while (found := self._buffer.find(pattern, at)) < 0:
            at = max(at, len(self._buffer) - len(pattern) + 1)
            if drop and at > CHUNK:
                self._drop(at)
                at = 0
            if not self._fill(len(self._buffer) + 1):
                return None
        return found

    def _fill(self, size: int) -> bool:
        """Return whether the buffer has `size` bytes, after reading on if it has not."""
        while len(self._buffer) < size and not self._is_whole:
            data = self._file.read(CHUNK)
            self._is_whole = not data
            self._buffer += data
            if len(self._buffer) > LONGEST:
                raise BadInput(f"a record of more than {LONGEST:,} bytes", reason="too_large", source=self._file.name)
        return len(self._buffer) >= size

    def _drop(self, count: int) -> None:
        del self._buffer[:count]
        self._base += count


def is_pattern(hint: RecordParseHint) -> bool:
    return RecordHintType(hint.getRecordHintType()) is RecordHintType.PATTERN
