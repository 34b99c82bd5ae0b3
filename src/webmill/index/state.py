"""The state of an index: the stat of each WARC when its CDXJ was made, so that only what changed is indexed again.

A CDXJ is trusted while the WARC has the same size, times, inode and the same first and last bytes, was indexed with the
same options by the same version, and had not changed for a moment before (else a change within one tick of the clock
could hide). The change time cannot be set by `touch` or `rsync -t`: no modification goes unseen. A WARC that was merely
copied is indexed again; that costs time, never correctness. Nor does losing the state; but then nothing is known any
more of the bytes that archives had (`archive_checksum`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Self

import msgspec

from webmill.errors import BadInput, Misconfigured
from webmill.index.archive_checksum import ArchiveChecksum
from webmill.infra.files import read_at
from webmill.infra.sqlite import Database, Row, Schema, open_read_only
from webmill.infra.storage.uploads import uploaded_file
from webmill.model import Damage

FILE_NAME = "state.sqlite"
END_BYTES = 64 << 10  # at the beginning and the end of a file that are hashed
SETTLED_NS = 2_000_000_000  # the coarsest clock of a file system in use ticks every two seconds
FINE_SETTLED_NS = 20_000_000  # where times have parts of a millisecond, they are those of the kernel's tick: 1 to 10 ms

SCHEMA = Schema(
    tag=int.from_bytes(b"wmIx"),
    steps=(
        """
        CREATE TABLE warc (path TEXT PRIMARY KEY, known BLOB NOT NULL) STRICT, WITHOUT ROWID;
        CREATE TABLE published (name TEXT PRIMARY KEY, made BLOB NOT NULL) STRICT, WITHOUT ROWID;
        """,
        """
        CREATE TABLE checksum (
            path TEXT PRIMARY KEY, size INTEGER NOT NULL, crc INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        """,
    ),
)


ALL = "SELECT path, known FROM warc"


class FileStat(msgspec.Struct, frozen=True):
    """The stat of a file, with a hash of its first and last bytes."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    ends: str


class CdxjStat(msgspec.Struct, frozen=True):
    """Enough of a stat to see that the CDXJ is still the one we wrote."""

    size: int
    mtime_ns: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> Self:
        status = path.stat()
        return cls(status.st_size, status.st_mtime_ns, status.st_ino)


class IndexedWarc(msgspec.Struct, frozen=True, kw_only=True):
    """A WARC that was indexed: its stat before that, and its CDXJ."""

    looks: FileStat
    settled: bool
    options: str  # digest of everything else that the CDXJ depends on
    cdxj: str
    cdxj_looks: CdxjStat
    cdxj_digest: str
    captures: int
    flaws: tuple[Damage, ...] = ()

    @property
    def cdxj_size(self) -> int:
        return self.cdxj_looks.size


class PublishedIndex(msgspec.Struct, frozen=True, kw_only=True):
    """A published index: digests of its inputs, tools and outputs, and counts."""

    inputs: str
    tools: str
    outputs: str
    shards: int
    blocked: int
    excessive: int
    refused: Mapping[str, dict[str, int]]  # by Parquet file: reasons of lines that are not in it, how many
    files: Mapping[str, tuple[int, int]] = {}  # size and CRC-32 of each shard, of the summary and of each table, by key


class IndexState:
    def __init__(self, path: Path) -> None:
        """Open the state. `BadInput` when the file is damaged: it is read to its end."""
        self._database = Database(path, schema=SCHEMA)
        try:
            self._database.verify()
        except BaseException:
            self._database.close()
            raise

    def known(self) -> dict[str, IndexedWarc]:
        return _known(self._database.read(ALL))

    def checksums(self) -> dict[str, ArchiveChecksum]:
        """Return the checksums of archives, whatever else is known of them."""
        rows = self._database.read("SELECT path, size, crc FROM checksum")
        return {str(path): ArchiveChecksum(int(size or 0), int(crc or 0)) for path, size, crc in rows}

    def record(self, path: str, known: IndexedWarc, checksum: ArchiveChecksum | None = None) -> None:
        """Record an indexed WARC, durably. Its CDXJ must be durable already."""
        with self._database.write() as run:
            run("INSERT OR REPLACE INTO warc VALUES (?, ?)", (path, msgspec.json.encode(known)))
            if checksum:
                run("INSERT OR REPLACE INTO checksum VALUES (?, ?, ?)", (path, checksum.size, checksum.crc))

    def record_checksum(self, path: str, checksum: ArchiveChecksum) -> None:
        """Record what an archive is that was read to its end, and is not indexed yet."""
        with self._database.write() as run:
            run("INSERT OR REPLACE INTO checksum VALUES (?, ?, ?)", (path, checksum.size, checksum.crc))

    def forget(self, paths: Iterable[str]) -> None:
        with self._database.write() as run:
            for path in paths:
                run("DELETE FROM warc WHERE path = ?", (path,))
                run("DELETE FROM checksum WHERE path = ?", (path,))

    def published(self, name: str) -> PublishedIndex | None:
        """Return the index of that name; None if a process died while replacing it."""
        rows = self._database.read("SELECT made FROM published WHERE name = ?", (name,))
        try:
            return msgspec.json.decode(rows[0][0], type=PublishedIndex) if rows else None
        except msgspec.DecodeError:
            return None

    def withdraw(self, name: str) -> None:
        """Forget an index before its first file is replaced."""
        with self._database.write() as run:
            run("DELETE FROM published WHERE name = ?", (name,))

    def set_published(self, name: str, made: PublishedIndex) -> None:
        """Record an index after its last file is in place."""
        with self._database.write() as run:
            run("INSERT OR REPLACE INTO published VALUES (?, ?)", (name, msgspec.json.encode(made)))

    def close(self) -> None:
        self._database.close()


def _known(rows: Iterable[Row]) -> dict[str, IndexedWarc]:
    found = {}
    for path, row in rows:
        try:
            found[path] = msgspec.json.decode(row, type=IndexedWarc)
        except msgspec.DecodeError:  # of another version: as good as unknown
            continue
    return found


class StoredState(msgspec.Struct, frozen=True):
    known: dict[str, IndexedWarc]
    published: dict[str, PublishedIndex]  # by name; without one that a process died while replacing


def read_state(path: Path) -> StoredState:
    """Return everything in the state, by reading only."""
    with open_read_only(path) as read:
        known = _known(read(ALL))
        published = {}
        for name, made in read("SELECT name, made FROM published"):
            try:
                published[name] = msgspec.json.decode(made, type=PublishedIndex)
            except msgspec.DecodeError:
                continue
    return StoredState(known, published)


@contextmanager
def open_state(path: Path, *, anew: bool) -> Iterator[IndexState]:
    """Open the state. `anew`: delete a file that cannot be used; else the error says how."""
    try:
        state = IndexState(path)
    except (BadInput, Misconfigured) as error:
        if not path.exists():
            raise
        if not anew:
            message = f"{error}. To make it again from the WARC files, run with --from-scratch"
            raise Misconfigured(message) from error
        for journal in ("-wal", "-shm", "-journal", ""):
            path.with_name(path.name + journal).unlink(missing_ok=True)
        state = IndexState(path)
    with closing(state):
        yield state


def inspect_file(path: Path) -> FileStat:
    with path.open("rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        digest = hashlib.sha256(read_at(file.fileno(), END_BYTES, 0))
        digest.update(read_at(file.fileno(), END_BYTES, max(0, status.st_size - END_BYTES)))
    return FileStat(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, digest.hexdigest())


def inspect_archive(root: Path, key: str) -> FileStat:
    """Return the stat of an archive; of one that is in an object store alone, as it was before it went there."""
    try:
        return inspect_file(root / key)
    except FileNotFoundError:
        uploaded = uploaded_file(root, key)
        if uploaded is None or not uploaded.looks:
            raise
        return msgspec.json.decode(uploaded.looks, type=FileStat)


def is_settled(looks: FileStat, *, now_ns: int) -> bool:
    """Whether any change after `now_ns`, when the file was inspected, must show in its times."""
    is_fine = all(time % 1_000_000 for time in (looks.mtime_ns, looks.ctime_ns))
    return max(looks.mtime_ns, looks.ctime_ns) + (FINE_SETTLED_NS if is_fine else SETTLED_NS) < now_ns


def is_current(known: IndexedWarc, looks: FileStat, *, options: str, folder: Path) -> bool:
    """Whether the CDXJ in `folder` is that of the WARC with this stat."""
    if known.looks != looks or known.options != options or not known.settled:
        return False
    cdxj = folder / known.cdxj
    return cdxj.is_file() and CdxjStat.of(cdxj) == known.cdxj_looks
