"""An SQLite file that keeps its promises: what a write returned from is on the disk, and no opener harms another.

We go through apsw because it brings its own SQLite: the one of the operating system may carry the WAL-reset bug, which
corrupts a file that several processes write and checkpoint (https://sqlite.org/wal.html#the_wal_reset_bug). The linked
version is looked at when a file is opened; an affected one gets the rollback journal, slower but sound.

Every page carries a checksum (`sqlite_checksums.py`), which is compared when the page is read.

A file may come from somebody else: nothing that lies in it runs (`sqlite_untrusted.py`).

Errors of SQLite leave as ours: busy, full and failing disks are `Unavailable`, a damaged file is `BadInput` (corrupt),
a file of another program or a newer webmill is `Misconfigured`.
"""

from __future__ import annotations

import logging
import os
import random
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import apsw
import msgspec

from webmill.errors import BadInput, Misconfigured, NotFound, Unavailable, WebmillError
from webmill.infra import waiting
from webmill.infra.sqlite_checksums import (
    CHECKSUMMED,
    add_checksums,
    checksum_vfs,
    has_checksums,
    is_cut,
    reserve_checksums,
)
from webmill.infra.sqlite_untrusted import connect, refuse_active_schema, refuse_other_tables

log = logging.getLogger(__name__)

Value = None | int | float | str | bytes
Row = tuple[Any, ...]
Run = Callable[..., list[Row]]  # run(sql, values) -> the rows it returned

READ_PATIENCE = 1000  # milliseconds that `open_read_only` waits for a writer
NETWORK_FILE_SYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "fuse.sshfs", "fuse.glusterfs"}

# Files that were open when this process was forked. SQLite's book-keeping of locks came along, the locks did not, so
# that even a new connection in this process could be overrun by the parent's (https://sqlite.org/howtocorrupt.html).
# They are kept for ever: even closing them would be wrong.
_live: weakref.WeakSet[Database] = weakref.WeakSet()
_inherited: list[Database] = []
os.register_at_fork(after_in_child=lambda: _inherited.extend(_live))


class Schema(msgspec.Struct, frozen=True):
    """`steps[n]` lifts a file from version n to n + 1; steps are only ever appended. `tag` tells our files apart.
    `page_size` is that of new files, in bytes.
    """

    tag: int  # application_id: four letters read as a number
    steps: tuple[str, ...]
    page_size: int = 4096


class Database:
    """One connection, shared by the threads of one process under a lock. Open it after a fork, never before.

    Without a path it lives in memory, as long as this object. A file on a disk that is mounted read-only is read;
    whoever writes to it is told.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        schema: Schema,
        patience: float = 30.0,
        library: str = apsw.sqlite_lib_version(),
    ) -> None:
        self.path = path or Path(":memory:")
        self.journal = journal_for(library) if path else "memory"
        self._patience = patience
        self._lock = threading.RLock()
        self._process = os.getpid()
        if path:
            refuse_network_file_system(path)
            refuse_inherited(path)
            if path.exists():
                refuse_cut(path)
        self.is_read_only = bool(path) and is_read_only(self.path)
        with self._translate_errors():
            self._connection = connect_to_read(self.path) if self.is_read_only else connect(os.fspath(self.path))
        self.inode = inode(path) if path else None
        self._closed = False
        _live.add(self)
        try:
            self._set_up(schema)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Safe to call twice. In a forked child nothing is closed: the connection is the parent's."""
        if os.getpid() != self._process:
            return
        with self._lock:
            self._closed = True
            _live.discard(self)
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        with self._mine(), self._translate_errors():
            return self._run(sql, values)

    @contextmanager
    def write(self) -> Iterator[Run]:
        """One transaction, on the disk when the block ends; rolled back when it raises."""
        with self._transaction("FULL" if self.journal == "wal" else "EXTRA") as run:
            yield run

    @contextmanager
    def write_relaxed(self) -> Iterator[Run]:
        """As `write`, but a power cut (not a crash of ours) may undo it, in order, up to the last `write`.

        For what only matters while processes of this machine live, such as taking a lease: it saves a sync.
        """
        with self._transaction("NORMAL" if self.journal == "wal" else "EXTRA") as run:
            yield run

    def many(self, sql: str, rows: Iterable[Sequence[Value]]) -> list[Row]:
        """Run it for each of the rows; all rows that came of it. Changes belong into a `write` block of this thread."""
        with self._mine(), self._translate_errors():
            return self._connection.executemany(sql, rows).fetchall()

    def copy_to(self, path: Path) -> None:
        """All that is committed, as a file of its own; not synced yet."""
        with self._mine(), self._translate_errors():
            target = connect(os.fspath(path))
            try:
                with target.backup("main", self._connection, "main") as copying:
                    copying.step()
            finally:
                target.close()

    def verify(self) -> None:
        """Read the whole file once; raises BadInput (corrupt) with SQLite's first findings."""
        findings = [row[0] for row in self.read("PRAGMA quick_check(3)")]
        if findings != ["ok"]:
            raise BadInput("; ".join(map(str, findings)), reason="corrupt", source=str(self.path))

    @contextmanager
    def _transaction(self, sync: str) -> Iterator[Run]:
        with self._mine(), self._translate_errors():
            self._run(f"PRAGMA synchronous={sync}")
            self._run("BEGIN IMMEDIATE")
            try:
                yield self._run
                self._run("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # SQLite has rolled back by itself after a full disk
                    self._run("ROLLBACK")
                raise

    def _run(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        return self._connection.execute(sql, values).fetchall()

    @contextmanager
    def _mine(self) -> Iterator[None]:
        if os.getpid() != self._process:
            raise Misconfigured(f"{self.path} was opened before this process was forked: {FORK_REPAIR}")
        with self._lock:
            if self._closed:
                raise Misconfigured(f"{self.path} is used after it was closed")
            yield

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise translate_error(error, self.path) from error

    def _set_up(self, schema: Schema) -> None:
        self._connection.set_busy_timeout(int(self._patience * 1000))
        with self._mine(), self._translate_errors():
            refuse_active_schema(self._run, self.path)
            if not self.is_read_only:
                self._run(f"PRAGMA page_size={schema.page_size}")  # has no effect on a file that has pages
                self._prepare_checksums(schema)
                self._choose_journal()
            self._run("PRAGMA foreign_keys=ON")
        self._migrate(schema)

    def _prepare_checksums(self, schema: Schema) -> None:
        """Give a new file checksums, and one that an earlier webmill has made."""
        if self.inode is None:
            return
        if checksum_vfs() is None:
            if has_checksums(self.path):
                raise Misconfigured(
                    f"{self.path} has checksums, which this apsw cannot keep: pip install --upgrade apsw"
                )
        elif not self.path.stat().st_size:
            reserve_checksums(self._connection)
        elif not has_checksums(self.path) and self._tag() == schema.tag:
            add_checksums(self._connection, self.path)

    def _choose_journal(self) -> None:
        """Changing the journal needs the file alone and does not wait for it: openers of one moment take turns."""
        if self.journal == "delete":
            log.warning("sqlite_rollback_journal", extra={"path": str(self.path), "why": "WAL-reset bug"})
        deadline = time.monotonic() + self._patience
        while True:
            try:
                answer = self._run(f"PRAGMA journal_mode={self.journal}")[0][0]
                break
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise
                waiting.sleep(random.uniform(0.005, 0.05))  # noqa: S311  spreading, not secrecy
        if answer != self.journal:
            raise Misconfigured(f"{self.path}: the file system cannot carry journal_mode={self.journal} ({answer})")

    def _migrate(self, schema: Schema) -> None:
        with self._translate_errors():
            wanted = len(schema.steps) + (CHECKSUMMED if self.inode and has_checksums(self.path) else 0)
        if self.read("PRAGMA user_version")[0][0] == wanted and self._tag() == schema.tag:
            refuse_other_tables(self.read, schema.steps, self.path)
            return
        with self.write() as run:
            version = run("PRAGMA user_version")[0][0] % CHECKSUMMED
            self._refuse_foreign(schema, version=version)
            refuse_other_tables(run, schema.steps[:version], self.path)
            for step in schema.steps[version:]:
                run(step)
            run(f"PRAGMA user_version={wanted}")
            run(f"PRAGMA application_id={schema.tag}")

    def _refuse_foreign(self, schema: Schema, *, version: int) -> None:
        tag, tables = self._tag(), self.read("SELECT count(*) FROM sqlite_schema")[0][0]
        if tag != schema.tag and (tag or tables):
            raise Misconfigured(f"{self.path} belongs to something else (application_id {tag}): choose another path")
        if version > len(schema.steps):
            raise Misconfigured(
                f"{self.path} was made by a newer webmill (schema {version}, this one knows {len(schema.steps)}): "
                "use that version, or another path"
            )

    def _tag(self) -> int:
        tag: int = self.read("PRAGMA application_id")[0][0]
        return tag


FORK_REPAIR = "start worker processes with spawn or forkserver, and open the file in the worker"


def journal_for(library: str) -> str:
    return "delete" if has_wal_reset_bug(library) else "wal"


def has_wal_reset_bug(version: str) -> bool:
    """3.7.0 to 3.51.2, but for the two branches the repair was carried back to."""
    number = tuple(int(part) for part in version.split(".")[:3])
    repaired_branch = (3, 44, 6) <= number < (3, 45, 0) or (3, 50, 7) <= number < (3, 51, 0)
    return (3, 7, 0) <= number < (3, 51, 3) and not repaired_branch


def translate_error(error: apsw.Error, path: Path) -> WebmillError:
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return Unavailable(f"{path} is held by another process")
        case apsw.FullError():
            return Unavailable(f"{path}: the disk is full")
        case apsw.IOError() if getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_DATA:
            return BadInput("a page does not have its checksum", reason="corrupt", source=str(path))
        case apsw.IOError():
            return Unavailable(f"{path}: {error}")
        case apsw.CorruptError() | apsw.NotADBError():
            return BadInput(str(error), reason="corrupt", source=str(path))
        case apsw.TooBigError():
            return BadInput(str(error), reason="too_large", source=str(path))
        case apsw.ReadOnlyError() | apsw.CantOpenError() if is_on_read_only_disk(path.parent):
            return Misconfigured(
                f"{path}: Read-only file system; mount it for writing, or work on a copy of the folder"
            )
        case apsw.CantOpenError() | apsw.ReadOnlyError() | apsw.PermissionsError():
            return Misconfigured(f"{path}: {error}: the folder must exist and be writable")
    raise error  # wrong SQL is a bug of ours, and says so


def inode(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def refuse_inherited(path: Path) -> None:
    if path.exists() and any(inode(path) == database.inode for database in _inherited):
        raise Misconfigured(f"{path} was open when this process was forked: {FORK_REPAIR}")


def refuse_cut(path: Path) -> None:
    try:
        cut = is_cut(path)
    except apsw.Error as error:
        raise translate_error(error, path) from error
    if cut:
        raise BadInput("is cut short", reason="corrupt", source=str(path))


def is_read_only(path: Path) -> bool:
    """Return whether a file is there, on a disk that is mounted read-only."""
    return path.is_file() and is_on_read_only_disk(path)


def is_on_read_only_disk(path: Path) -> bool:
    return path.exists() and bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def connect_to_read(path: Path) -> apsw.Connection:
    """Open a file so that nothing is written, not even beside it.

    A file whose last writer has closed it has no log beside it. It is read as if it could not change, since a reader
    who shares would make a log of his own. After the kill of a writer that left a log but no index of it, what is read
    is what was there before the log.
    """
    is_shared = any(path.with_name(path.name + ending).exists() for ending in ("-shm", "-journal"))
    address = f"file:{quote(os.fsencode(path.resolve()))}?{'mode=ro' if is_shared else 'immutable=1'}"
    return connect(address, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


@contextmanager
def open_read_only(path: Path) -> Iterator[Run]:
    """Read an SQLite file of anybody without a trace: no file is made, nothing changes, and no writer has to wait.

    `NotFound`; `BadInput` when the file is damaged, or lacks the tables that are asked for.
    """
    if not path.is_file():
        raise NotFound(f"no file {path}")
    refuse_cut(path)
    connection: apsw.Connection | None = None
    try:
        connection = connect_to_read(path)
        connection.set_busy_timeout(READ_PATIENCE)
        opened = connection

        def run(sql: str, values: Sequence[Value] = ()) -> list[Row]:
            return opened.execute(sql, values).fetchall()

        refuse_active_schema(run, path)
        yield run
    except apsw.SQLError as error:  # no such table
        raise BadInput(f"not what it should be: {error}", reason="corrupt", source=str(path)) from error
    except apsw.Error as error:
        raise translate_error(error, path) from error
    finally:
        if connection is not None:
            connection.close()


def refuse_network_file_system(path: Path) -> None:
    """SQLite's locks and shared memory do not work across machines. Linux only: elsewhere it is not seen."""
    if sys.platform != "linux":
        return
    kind = file_system_of(path.absolute(), mounts=Path("/proc/self/mounts").read_text(errors="replace"))
    if kind in NETWORK_FILE_SYSTEMS:
        raise Misconfigured(f"{path} is on {kind}: SQLite needs a local disk; several machines need a server")


def file_system_of(path: Path, *, mounts: str) -> str:
    """The kind of the mount that holds `path`: the longest mount point above it, the last of equals."""
    above = {str(parent) for parent in (path, *path.parents)}
    best = ("", "")
    for line in mounts.splitlines():
        _, point, kind, *_ = line.split(" ")
        point = point.replace("\\040", " ")
        if point in above and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]
