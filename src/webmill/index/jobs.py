"""The independent jobs of indexing a collection. Each runs in any process, may run twice, and returns what it did.

WARC ─ index_warc ─▶ sorted CDXJ ┐
WARC ─ index_warc ─▶ sorted CDXJ ┴ ranges.write_range ─▶ a shard of the ZipNum index ─ write_table ─▶ a Parquet file
"""

from __future__ import annotations

import errno
import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

import msgspec

from webmill.errors import NotFound, Unavailable
from webmill.formats.warc.reader import end_offset
from webmill.formats.warc.scan import ScanOptions
from webmill.index.archive_checksum import ArchiveChecksum, ChecksumReader
from webmill.index.build.captures import CaptureOptions
from webmill.index.build.warc import index_file
from webmill.index.cdxj.add_fields import AddFieldCounts, add_fields
from webmill.index.cdxj.sort import sort_lines
from webmill.index.columnar.parquet import TableCounts, write_parquet
from webmill.index.lines import Batch, in_batches, open_input, read_batches, write_batches
from webmill.index.state import CdxjStat
from webmill.infra import atomic
from webmill.infra.files import RESERVED
from webmill.infra.storage.backends import open_readable
from webmill.infra.storage.uploads import uploaded_file
from webmill.model import Damage

# Not the fault of this file: the next one would fail, too.
_TABLE_NAME = re.compile(r"part-[0-9]{5,}(-[0-9a-f]{8})?\.parquet", re.ASCII)
_SEGMENT = re.compile("crawl-data/[^/]+/segments/")
GONE = (0,)  # the stat of a file that is not there
MACHINE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


class WarcJob(msgspec.Struct, frozen=True, kw_only=True):
    """One WARC to index. `path` is below `root`, and names the file in the index. `known`: what it was before."""

    root: Path
    path: str
    cdxj: Path
    fields: dict[str, str]
    options: CaptureOptions
    known: ArchiveChecksum | None = None


class WarcResult(msgspec.Struct, frozen=True):
    cdxj: CdxjStat
    digest: str  # of the CDXJ
    captures: int
    flaws: tuple[Damage, ...]
    checksum: ArchiveChecksum | None  # to be believed from now on; None: that of before


class WrittenCdxj(msgspec.Struct, frozen=True):
    """A CDXJ that is in place, and the archive that it was made of."""

    digest: str
    captures: int
    flaws: list[Damage]
    archive: ArchiveChecksum
    begins_as_known: bool


def index_warc(job: WarcJob) -> WarcResult:
    """Index one WARC into one sorted CDXJ, which appears when it is complete."""
    try:
        return _index_warc(job, job.root / job.path)
    except OSError as error:
        if error.errno in MACHINE_ERRORS:
            raise Unavailable(f"{job.cdxj}: {error.strerror}") from error
        raise


def _index_warc(job: WarcJob, warc: Path) -> WarcResult:
    before = _stat_of(warc)
    made = _write_cdxj(job, ScanOptions())
    if not made.begins_as_known:  # damaged or replaced: every checksum in it says which
        made = _write_cdxj(job, ScanOptions(check_crc=True))
        if not made.flaws:
            made.flaws.extend(_find_cut(job, made.archive))
    is_believed = made.begins_as_known or not made.flaws
    if _stat_of(warc) not in (before, GONE):  # one that is gone by now was read to its end, or is in an object store
        is_believed = False
        made.flaws.append(
            Damage(0, before[0], "changed", "it was changed while it was read: run again when nothing writes to it")
        )
    return WarcResult(
        CdxjStat.of(job.cdxj), made.digest, made.captures, tuple(made.flaws), made.archive if is_believed else None
    )


def _write_cdxj(job: WarcJob, scan: ScanOptions) -> WrittenCdxj:
    flaws: list[Damage] = []
    with open_archive(job.root, job.path) as source:
        reader = ChecksumReader(source, job.known)
        found = index_file(reader, filename=job.path, options=job.options, scan=scan, size=end_offset(source, 0))
        batches: Iterable[Batch] = in_batches(collect_damage(found, flaws))
        if job.fields:  # before sorting: a field more can change the order of lines that begin alike
            batches = add_fields(batches, job.fields, counts=AddFieldCounts())
        digest = hashlib.sha256()
        ordered = sort_lines(batches, folder=job.cdxj.parent)
        with closing(ordered), atomic.writing(job.cdxj) as out:  # type: ignore[type-var]  # it is a generator
            captures = write_batches(hash_batches(ordered, digest), out)
        archive = reader.read_to_end()
    return WrittenCdxj(digest.hexdigest(), captures, flaws, archive, reader.begins_as_known)


def _find_cut(job: WarcJob, archive: ArchiveChecksum) -> Iterator[Damage]:
    """Yield what is gone at the end of an archive of a segment, which never changes: cut between two records, the rest
    is whole."""
    if job.known and archive.size < job.known.size and _SEGMENT.match(job.path):
        yield Damage(
            archive.size,
            job.known.size,
            "cut",
            f"it had {job.known.size:,} bytes when it was indexed before, and the last "
            f"{job.known.size - archive.size:,} are gone: restore it from a copy, or rename it if it is right as it is",
        )


def open_archive(root: Path, key: str) -> BinaryIO:
    """Open an archive for reading: of this machine, or of the object store that has it by now."""
    try:
        return open_input(root / key)
    except NotFound:
        if uploaded_file(root, key) is None:
            raise
        return open_readable(str(root)).open(key)


def _stat_of(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return GONE
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def hash_batches(batches: Iterable[Batch], digest: hashlib._Hash) -> Iterator[Batch]:
    for batch in batches:
        digest.update(b"".join(batch))
        yield batch


def collect_damage(items: Iterable[bytes | Damage], flaws: list[Damage]) -> Iterator[bytes]:
    for item in items:
        if isinstance(item, Damage):
            flaws.append(item)
        else:
            yield item


class TableJob(msgspec.Struct, frozen=True):
    shard: Path
    table: Path


def write_table(job: TableJob) -> TableCounts:
    """Write one shard as one Parquet file."""
    return write_parquet(read_batches(job.shard), job.table, source=job.shard.name)


def is_table(name: str) -> bool:
    """Return whether `table_name` could have made this name, or it is a temporary file of ours."""
    return name.startswith(RESERVED) or bool(_TABLE_NAME.fullmatch(name))


def table_name(shard: str) -> str:
    """Return `part-00000-HASH.parquet` for `cdx-00000-HASH.gz`: both hold the same lines."""
    return "part-" + shard.removeprefix("cdx-").removesuffix(".gz") + ".parquet"
