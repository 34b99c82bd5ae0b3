"""A CRC-32 of all bytes of an archive, taken while it is indexed, to be compared when it is indexed again.

The index inflates the heads of large records alone. An archive that does not have the bytes that it had is read again
with every CRC of its members, which tells one that was damaged from one that was replaced.
"""

from __future__ import annotations

import msgspec
from isal import isal_zlib

from webmill.formats.window import ByteSource

PIECE = 1 << 20


class ArchiveChecksum(msgspec.Struct, frozen=True):
    """The size of an archive, and the CRC-32 of its bytes."""

    size: int
    crc: int


class ChecksumReader:
    """A source that takes the checksum of what is read. `known` is the checksum of before."""

    def __init__(self, source: ByteSource, known: ArchiveChecksum | None) -> None:
        self._source, self._known = source, known
        self._size = self._crc = 0
        self.begins_as_known = known is None or not known.size

    def read(self, size: int, /) -> bytes:
        data = self._source.read(size)
        left = self._known.size - self._size if self._known else -1
        if self._known and 0 < left <= len(data):  # it may have grown since
            self.begins_as_known = isal_zlib.crc32(memoryview(data)[:left], self._crc) == self._known.crc
        self._crc = isal_zlib.crc32(data, self._crc)
        self._size += len(data)
        return data

    def read_to_end(self) -> ArchiveChecksum:
        while self.read(PIECE):
            pass
        return ArchiveChecksum(self._size, self._crc)
