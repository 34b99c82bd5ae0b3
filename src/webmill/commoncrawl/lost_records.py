"""Records of one file, and for damaged bytes what their first part still says: whose record it was.

Compressed records break at a byte; what was before it can be read. That is mostly the header, and so the record's id.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Iterator

import msgspec
from zlib_ng import zlib_ng

from webmill.formats.compression.gzip_members import INFLATE_ERROR, MAGIC
from webmill.formats.warc.fields import parse_warc_fields
from webmill.formats.warc.head import WarcLimits
from webmill.formats.warc.reader import read_records
from webmill.formats.window import ByteSource
from webmill.model import Damage, Headers, Record

KEPT = 16 << 20  # stored bytes remembered, at most
HEAD = 16 << 10  # of a damaged record, looked at
_SLICE = 64


class LostRecord(msgspec.Struct, frozen=True):
    """Stored bytes without a record to trust, and the header that begins them, as far as it could be read."""

    damage: Damage
    headers: Headers


def read_with_losses(source: ByteSource, *, start: int = 0, limits: WarcLimits) -> Iterator[Record | LostRecord]:
    """Damage that touches is one. A record that is not ended as it should be is lost: its length is wrong, or its end
    is missing."""
    memory = _RememberingSource(source, start)
    before: Record | LostRecord | None = None
    for item in read_records(memory, limits=limits, start=start, size=_size_of(source, start)):
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
            before = LostRecord(item, salvage_headers(memory.recall(item.offset, min(HEAD, item.end - item.offset))))
    if before is not None:
        yield before


def _touches(before: Record | LostRecord, damage: Damage) -> bool:
    if isinstance(before, Record):
        return damage.reason == "missing_terminator"
    return before.damage.end == damage.offset


def _join(before: Record | LostRecord, damage: Damage) -> LostRecord:
    if isinstance(before, Record):
        return LostRecord(Damage(before.offset, damage.end, damage.reason, damage.message), before.headers)
    first = damage if before.damage.reason == "padding" else before.damage  # NUL bytes are the lesser news
    return LostRecord(Damage(before.damage.offset, damage.end, first.reason, first.message), before.headers)


def salvage_headers(stored: bytes) -> Headers:
    """The fields that stand whole at the beginning of these bytes; none when they do not begin a record."""
    plain = _inflate_start(stored) if stored.startswith(MAGIC) else stored
    if not plain.startswith(b"WARC/"):
        return Headers()
    head, end, _ = plain.replace(b"\r\n", b"\n").partition(b"\n\n")
    fields = head.partition(b"\n")[2]
    return parse_warc_fields(fields if end else fields.rpartition(b"\n")[0])


def _inflate_start(stored: bytes) -> bytes:
    """In small steps: an error takes the output of its whole step with it."""
    inflate, plain = zlib_ng.decompressobj(31), bytearray()
    try:
        for at in range(0, len(stored), _SLICE):
            plain += inflate.decompress(stored[at : at + _SLICE], HEAD)
            if inflate.eof or len(plain) >= HEAD:
                break
    except INFLATE_ERROR:
        pass
    return bytes(plain)


class _RememberingSource:
    """A source that remembers what was read since the last good record."""

    def __init__(self, source: ByteSource, start: int) -> None:
        self._source = source
        self._at = start
        self._pieces: deque[tuple[int, bytes]] = deque()
        self._kept = 0

    def read(self, size: int, /) -> bytes:
        piece = self._source.read(size)
        if self._kept < KEPT:
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


def _size_of(source: ByteSource, start: int) -> int | None:
    """The offset of the end, when the source can tell without being read."""
    if not isinstance(source, io.IOBase) or not source.seekable():
        return None
    here = source.tell()
    size = source.seek(0, io.SEEK_END)
    source.seek(here)
    return start + size - here
