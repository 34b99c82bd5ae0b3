"""Read the records of one file and, for damaged bytes, the header that can still be read: whose record it was.

A compressed record breaks at some byte; what precedes it can be inflated. That is mostly the header, with the id.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec
from zlib_ng import zlib_ng

from webmill.formats.compression.gzip_members import INFLATE_ERROR, MAGIC
from webmill.formats.warc.fields import parse_warc_fields
from webmill.formats.warc.head import WarcLimits
from webmill.formats.warc.reader import end_offset, read_records
from webmill.formats.window import ByteSource
from webmill.model import Damage, Headers, Record

MAX_KEPT = 16 << 20  # stored bytes that are remembered
MAX_HEAD = 16 << 10  # bytes of a damaged record that are examined
_SLICE = 64


class LostRecord(msgspec.Struct, frozen=True):
    """Stored bytes without a valid record, and the header at their start, as far as it could be read."""

    damage: Damage
    headers: Headers


def read_with_losses(source: ByteSource, *, start: int = 0, limits: WarcLimits) -> Iterator[Record | LostRecord]:
    """Yield records and lost records; adjacent damage is one. A record without its terminator is lost: its length is
    wrong, or its end is missing."""
    memory = _RememberingSource(source, start)
    before: Record | LostRecord | None = None
    for item in read_records(memory, limits=limits, start=start, size=end_offset(source, start)):
        if isinstance(item, Record):
            if before is not None:
                yield before
            memory.forget(item.offset)
            before = item
        elif before is not None and _touches(before, item):
            before = _join(before, item)
        else:
            if before is not None:
                yield before
            before = LostRecord(
                item, salvage_headers(memory.recall(item.offset, min(MAX_HEAD, item.end - item.offset)))
            )
    if before is not None:
        yield before


def _touches(before: Record | LostRecord, damage: Damage) -> bool:
    if isinstance(before, Record):
        return damage.reason == "missing_terminator"
    return before.damage.end == damage.offset


def _join(before: Record | LostRecord, damage: Damage) -> LostRecord:
    if isinstance(before, Record):
        return LostRecord(Damage(before.offset, damage.end, damage.reason, damage.message), before.headers)
    first = damage if before.damage.reason == "padding" else before.damage  # other damage is more severe than NUL bytes
    return LostRecord(Damage(before.damage.offset, damage.end, first.reason, first.message), before.headers)


def salvage_headers(stored: bytes) -> Headers:
    """Return the complete header fields at the start of these bytes; none if they do not begin a record."""
    plain = _inflate_start(stored) if stored.startswith(MAGIC) else stored
    if not plain.startswith(b"WARC/"):
        return Headers()
    head, end, _ = plain.replace(b"\r\n", b"\n").partition(b"\n\n")
    fields = head.partition(b"\n")[2]
    return parse_warc_fields(fields if end else fields.rpartition(b"\n")[0])


def _inflate_start(stored: bytes) -> bytes:
    """Inflate in small steps: an error loses the output of its whole step."""
    inflate, plain = zlib_ng.decompressobj(31), bytearray()
    try:
        for at in range(0, len(stored), _SLICE):
            plain += inflate.decompress(stored[at : at + _SLICE], MAX_HEAD)
            if inflate.eof or len(plain) >= MAX_HEAD:
                break
    except INFLATE_ERROR:
        pass
    return bytes(plain)


class _RememberingSource:
    """A source that remembers the bytes read since the last good record."""

    def __init__(self, source: ByteSource, start: int) -> None:
        self._source = source
        self._at = start
        self._pieces: deque[tuple[int, bytes]] = deque()
        self._kept = 0

    def read(self, size: int, /) -> bytes:
        piece = self._source.read(size)
        if self._kept < MAX_KEPT:
            self._pieces.append((self._at, piece))
            self._kept += len(piece)
        self._at += len(piece)
        return piece

    def forget(self, before: int) -> None:
        pieces = self._pieces
        while pieces and pieces[0][0] + len(pieces[0][1]) <= before:
            self._kept -= len(pieces.popleft()[1])

    def recall(self, start: int, count: int) -> bytes:
        found = bytearray()
        for offset, piece in self._pieces:
            at = start + len(found) - offset
            if 0 <= at < len(piece):
                found += piece[at : at + count - len(found)]
        return bytes(found)
