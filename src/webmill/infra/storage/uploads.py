"""Which files of a folder lie in another store, too, and reading them from there once they are gone here.

    FOLDER/.webmill/uploads.sqlite      a row for each file that was read back from the store, byte for byte

A row is durable before the file here may be deleted, and says what the store has: size, SHA-256 and etag. The address
of the store may hold a password, so the file is its owner's alone. Where the folder is somebody else's, the address is
data: nothing is read from another machine unless the user trusts the folder (docs/design/trust.md).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Self
from urllib.parse import urlsplit

import msgspec

from webmill.collection import STATE_FOLDER
from webmill.errors import Misconfigured, NotFound
from webmill.infra import atomic
from webmill.infra.sqlite import Database, Run, Schema, open_read_only
from webmill.infra.storage.base import Readable, Stat
from webmill.infra.trusted_folders import TrustedFolders
from webmill.masking import hide_secrets

FILE_NAME = "uploads.sqlite"
SCHEMA = Schema(
    tag=int.from_bytes(b"wmUp"),
    steps=(
        """
        CREATE TABLE place (id INTEGER PRIMARY KEY, address TEXT NOT NULL) STRICT;
        CREATE TABLE file (key TEXT PRIMARY KEY, place INTEGER NOT NULL, known TEXT NOT NULL) STRICT, WITHOUT ROWID;
        CREATE TABLE trouble (one INTEGER PRIMARY KEY CHECK (one = 1), told TEXT NOT NULL) STRICT;
        """,
        """
        CREATE TABLE backlog (one INTEGER PRIMARY KEY CHECK (one = 1), told TEXT NOT NULL) STRICT;
        """,
    ),
)
_FILES = "SELECT key, address, known FROM file JOIN place ON place.id = file.place"


class UploadedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that the store at `place` holds, as it was read back. `looks` is the file's stat here, for whoever must
    know that nothing has changed but the place."""

    size: int
    sha256: str
    etag: str
    verified: float
    looks: str = ""
    place: str = ""


class UploadTrouble(msgspec.Struct, frozen=True, kw_only=True):
    """Why files wait for the store at the moment."""

    message: str
    since: float
    last: float
    waiting: int


class UploadBacklog(msgspec.Struct, frozen=True, kw_only=True):
    """The finished files that the store does not have yet. `since`: when the oldest of them was finished."""

    files: int = 0
    bytes: int = 0
    since: float | None = None


class UploadJournal:
    """What was uploaded of a folder. One process writes it."""

    def __init__(self, root: Path, place: str) -> None:
        """`place`: the address of the store that files are uploaded to from now on."""
        self._database = _open_database(root)
        self._place = self._remember_place(place)

    def files(self) -> dict[str, UploadedFile]:
        return _files(self._database.read)

    def record(self, key: str, file: UploadedFile) -> None:
        """Record, durably, that the store holds this file."""
        known = msgspec.json.encode(msgspec.structs.replace(file, place="")).decode()
        with self._database.write() as run:
            run("INSERT OR REPLACE INTO file VALUES (?, ?, ?)", (key, self._place, known))

    def forget(self, key: str) -> None:
        """The store does not hold this file any more, or another one."""
        with self._database.write() as run:
            run("DELETE FROM file WHERE key = ?", (key,))

    def tell_trouble(self, trouble: UploadTrouble | None) -> None:
        with self._database.write_relaxed() as run:
            run("DELETE FROM trouble")
            if trouble:
                run("INSERT INTO trouble VALUES (1, ?)", (msgspec.json.encode(trouble).decode(),))

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _remember_place(self, place: str) -> int:
        """Return the number of a place. Other keys for the same place replace those that were known."""
        with self._database.write() as run:
            for number, address in run("SELECT id, address FROM place"):
                if _without_user(str(address)) == _without_user(place):
                    run("UPDATE place SET address = ? WHERE id = ?", (place, number))
                    return int(number or 0)
            run("INSERT INTO place (address) VALUES (?)", (place,))
            return int(run("SELECT max(id) FROM place")[0][0] or 0)


def journal_path(root: Path) -> Path:
    return root / STATE_FOLDER / FILE_NAME


@contextmanager
def _reading(root: Path, table: str) -> Iterator[Run]:
    """Open the journal of a folder, if it has that table: not while it is being made, nor of an earlier webmill."""
    path = journal_path(root)
    if not path.is_file():
        yield lambda *_: []
        return
    with open_read_only(path) as read:
        is_made = read("SELECT 1 FROM sqlite_schema WHERE name = ?", (table,))
        yield read if is_made else lambda *_: []


def uploaded_files(root: Path) -> dict[str, UploadedFile]:
    """Return the files of a folder that are in another store, by key; nothing without a journal."""
    with _reading(root, "file") as read:
        return _files(read)


def _open_database(root: Path) -> Database:
    path = journal_path(root)
    atomic.make_folder(path.parent)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, atomic.OWNER))
    return Database(path, schema=SCHEMA)


def record_backlog(root: Path, backlog: UploadBacklog) -> None:
    """Note what waits for the store at the moment, for whoever wants to know it."""
    with _open_database(root) as database, database.write_relaxed() as run:
        run("INSERT OR REPLACE INTO backlog VALUES (1, ?)", (msgspec.json.encode(backlog).decode(),))


def upload_backlog(root: Path) -> UploadBacklog:
    """Return what waits for the store of a folder, as it was noted last."""
    with _reading(root, "backlog") as read:
        rows = read("SELECT told FROM backlog")
    return msgspec.json.decode(str(rows[0][0]), type=UploadBacklog) if rows else UploadBacklog()


def upload_trouble(root: Path) -> UploadTrouble | None:
    """Return why files of a folder wait for their store, if they do."""
    with _reading(root, "trouble") as read:
        rows = read("SELECT told FROM trouble")
    return msgspec.json.decode(str(rows[0][0]), type=UploadTrouble) if rows else None


class UploadedReads:
    """A folder whose files may lie in another store by now: they are read there. May be copied to other processes."""

    def __init__(self, local: Readable, root: Path, open_place: Callable[[str], Readable]) -> None:
        self._local, self._root, self._open_place = local, root, open_place
        self._opened: dict[str, Readable] = {}

    def __getstate__(self) -> tuple[Readable, Path, Callable[[str], Readable]]:
        return self._local, self._root, self._open_place

    def __setstate__(self, state: tuple[Readable, Path, Callable[[str], Readable]]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def stat(self, key: str) -> Stat:
        try:
            return self._local.stat(key)
        except NotFound:
            return self._find(key).stat(key)

    def read(self, key: str, *, start: int = 0, length: int | None = None, etag: str | None = None) -> bytes:
        try:
            return self._local.read(key, start=start, length=length, etag=etag)
        except NotFound:
            return self._find(key).read(key, start=start, length=length, etag=etag)

    def open(self, key: str, *, start: int = 0, length: int | None = None, etag: str | None = None) -> BinaryIO:
        try:
            return self._local.open(key, start=start, length=length, etag=etag)
        except NotFound:
            return self._find(key).open(key, start=start, length=length, etag=etag)

    def _find(self, key: str) -> Readable:
        """Return the store that has a file which is not here; the `NotFound` that is under way goes on without one."""
        file = uploaded_file(self._root, key)
        if file is None:
            raise  # noqa: PLE0704 - called while it is handled
        if file.place not in self._opened:
            refuse_untrusted_place(self._root, file.place)
            self._opened[file.place] = self._open_place(file.place)
        return self._opened[file.place]


def refuse_untrusted_place(root: Path, place: str) -> None:
    """Raise Misconfigured for a store that only the journal of somebody else's folder names."""
    if not TrustedFolders(os.environ).is_trusted(root):
        raise Misconfigured(
            f"archives of {root} lie at {hide_secrets(place)}, and you have not said that you trust {root}: if it is "
            f"yours, run `webmill trust {shlex.quote(str(root))}`"
        )


def uploaded_file(root: Path, key: str) -> UploadedFile | None:
    """Return what is known of one file in another store."""
    with _reading(root, "file") as read:
        rows = read(f"{_FILES} WHERE key = ?", (key,))
    return _decode(str(rows[0][1]), str(rows[0][2])) if rows else None


def _files(read: Run) -> dict[str, UploadedFile]:
    return dict(_decoded(read))


def _decoded(read: Run) -> Iterator[tuple[str, UploadedFile]]:
    for key, address, known in read(_FILES):
        yield str(key), _decode(str(address), str(known))


def _decode(address: str, known: str) -> UploadedFile:
    return msgspec.structs.replace(msgspec.json.decode(known, type=UploadedFile), place=address)


def _without_user(address: str) -> str:
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
