"""Checksums of the pages of our SQLite files, by SQLite's own `cksumvfs` (https://sqlite.org/cksumvfs.html).

Eight bytes at the end of each page hold a checksum, written with the page and compared whenever it is read: a flipped
bit is an error instead of another answer. The extension comes with apsw. Any SQLite can read such a file; one that
writes without the extension leaves wrong checksums behind. So that an earlier webmill does not, the version in the file
is `CHECKSUMMED` higher, which it takes for a newer one.

Files that were made without checksums are used as they are, and get them when they are opened alone and are not large.
"""

from __future__ import annotations

import ctypes
import logging
import os
from functools import lru_cache
from pathlib import Path

import apsw
import apsw.sqlite_extra

log = logging.getLogger(__name__)

CHECKSUMMED = 1000  # is added to the version of a file with checksums
CHECKSUM_SIZE = 8  # bytes of each page
MAX_CONVERTED = 64 << 20  # bytes of a file that gets checksums when it is opened
_HEAD_SIZE = 100  # bytes, https://sqlite.org/fileformat2.html#the_database_header
_RESERVED_AT = 20  # where the head of a file says how many bytes of a page are not SQLite's


@lru_cache(maxsize=1)
def checksum_vfs() -> str | None:
    """Return the name of the layer that checks pages, loaded once for a process; None if this apsw has none."""
    connection = apsw.Connection(":memory:")
    try:
        apsw.sqlite_extra.load(connection, "cksumvfs")
    except (apsw.sqlite_extra.NotAvailable, LookupError, apsw.Error) as error:
        log.warning("sqlite_without_checksums", extra={"why": str(error)})
        return None
    finally:
        connection.close()
    return "cksmvfs"


def has_checksums(path: Path) -> bool:
    """Return whether the pages of this file carry checksums, as its head says."""
    return read_head(path)[_RESERVED_AT : _RESERVED_AT + 1] == bytes([CHECKSUM_SIZE])


def read_head(path: Path) -> bytes:
    """Return the first 100 bytes of a file, with zeros for those that it lacks.

    They are read by SQLite: if we closed a descriptor of the file, this process would lose its locks on it
    (https://sqlite.org/howtocorrupt.html, 2.2).
    """
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0]
    try:
        file = apsw.VFSFile("", os.fspath(path.absolute()), flags)
    except UnicodeEncodeError:  # under such a name nobody can open it to write
        with path.open("rb") as plain:
            return plain.read(_HEAD_SIZE).ljust(_HEAD_SIZE, b"\0")
    try:
        return file.xRead(_HEAD_SIZE, 0).ljust(_HEAD_SIZE, b"\0")
    finally:
        file.xClose()


def is_cut(path: Path) -> bool:
    """Return whether a file is shorter than its head says: SQLite may read what is missing as zeros.

    While there is a log or a journal, it may be being written, and pages may be in the log alone.
    """
    beside = (path.with_name(path.name + ending) for ending in ("-wal", "-journal"))
    if any(file.exists() and file.stat().st_size for file in beside):
        return False
    size, head = path.stat().st_size, read_head(path)
    if size < _HEAD_SIZE:
        return bool(size)
    page, pages = int.from_bytes(head[16:18]), int.from_bytes(head[28:32])
    return size < (65536 if page == 1 else page) * pages


def reserve_checksums(connection: apsw.Connection) -> None:
    """Have room for a checksum in each page: of a file that is still empty, or by the next VACUUM."""
    size = ctypes.c_int(CHECKSUM_SIZE)
    connection.file_control("main", apsw.SQLITE_FCNTL_RESERVE_BYTES, ctypes.addressof(size))


def add_checksums(connection: apsw.Connection, path: Path) -> bool:
    """Write a file anew with checksums, if nobody else has it open and it is not large; tell whether that was done.

    The write-ahead log is left for it, which only works alone: a process that has the file open would go on writing
    pages without checksums.
    """
    if path.stat().st_size > MAX_CONVERTED:
        return False
    try:
        if connection.execute("PRAGMA journal_mode=delete").fetchall() != [("delete",)]:
            return False
        reserve_checksums(connection)
        connection.execute("VACUUM")
    except (apsw.BusyError, apsw.LockedError, apsw.FullError):
        return False
    return True
