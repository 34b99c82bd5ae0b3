"""An archive read from end to end as it is taken over: what is in it, what is damaged, and is it what it should be?"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import msgspec

from webmill.errors import BadInput
from webmill.formats.warc.scan import ScannedRecord, ScanOptions, scan_records
from webmill.index.archive_checksum import ArchiveChecksum, ChecksumReader
from webmill.index.build.captures import CaptureIndexer, CaptureOptions
from webmill.index.build.warc import LIMITS
from webmill.model import Damage
from webmill.pipeline.add.incoming import IncomingArchive, changed_error, refuse_unsuitable
from webmill.pipeline.progress import ProgressBar

CHUNK = 1 << 20


class ArchiveScan(msgspec.Struct):
    """`damage`: how often, by reason. Only the first of them is kept: a hostile file is nothing but damage."""

    records: int = 0
    captures: int = 0
    damage: Counter[str] = msgspec.field(default_factory=Counter)
    first: str | None = None
    hexdigest: str = ""
    checksum: ArchiveChecksum | None = None


class _CopyingSource:
    """A source that copies what is read to `out`, and digests it."""

    def __init__(self, incoming: IncomingArchive, out: BinaryIO | None, bar: ProgressBar) -> None:
        self._source, self._out, self._bar = ChecksumReader(incoming.open(), None), out, bar
        self.digest = hashlib.new(incoming.listed.algorithm, usedforsecurity=False)
        self.size = 0

    def read(self, size: int, /) -> bytes:
        data = self._source.read(size)
        self.digest.update(data)
        self.size += len(data)
        if self._out:
            self._out.write(data)
        self._bar.advance(len(data))
        return data

    def checksum(self) -> ArchiveChecksum:
        return self._source.read_to_end()


def scan_archive(incoming: IncomingArchive, out: BinaryIO | None, bar: ProgressBar) -> ArchiveScan:
    """Read an archive to its end, copying it to `out`. `BadInput`: not an archive, or not the listed one."""
    refuse_unsuitable(incoming.name)
    source, found = _CopyingSource(incoming, out, bar), ArchiveScan()
    captures = CaptureIndexer(filename=incoming.name, options=CaptureOptions())
    seen = scan_records(
        source, enough=captures.enough, scan=ScanOptions(verify=True), limits=LIMITS, size=incoming.size
    )
    for item in captures.lines(_count_records(seen, found)):
        if isinstance(item, Damage):
            found.damage[item.reason] += 1
            found.first = found.first or f"bytes {item.offset}-{item.end}: {item.message}"
        else:
            found.captures += 1
    while source.read(CHUNK):  # all of it, also where the reader had seen enough
        pass
    if source.size != incoming.size or not incoming.is_at_rest():
        raise changed_error()
    found.hexdigest, found.checksum = source.digest.hexdigest(), source.checksum()
    incoming.listed.check(size=source.size, hexdigest=found.hexdigest)
    if not found.records:
        raise BadInput("not a WARC or ARC file: there is no record in it", reason="no_records")
    return found


def _count_records(items: Iterable[ScannedRecord | Damage], found: ArchiveScan) -> Iterator[ScannedRecord | Damage]:
    for item in items:
        found.records += isinstance(item, ScannedRecord)
        yield item
