"""Where a shard keeps its cookies across restarts, apart from everything that is published, for its owner alone (0600).

A crawl that loses the file loses no page: sessions are begun again. So one that is damaged is replaced.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from webmill.errors import BadInput, Misconfigured
from webmill.formats.http.cookies import MAX_FILE, Cookie, read_cookie_file
from webmill.formats.http.storage_state import StorageState, is_storage_state, read_storage_state
from webmill.infra import atomic
from webmill.infra.files import os_errors
from webmill.infra.sqlite import Database, Schema

log = logging.getLogger(__name__)

# Not *.sqlite: a crawl goes on without it, and backups and copies of a frontier do not have it.
FILE = "cookies.db"
SCHEMA = Schema(
    tag=int.from_bytes(b"wmCk"),
    steps=("CREATE TABLE site (name TEXT PRIMARY KEY, cookies BLOB NOT NULL) STRICT, WITHOUT ROWID;",),
)
_ENCODE = msgspec.json.Encoder()
_DECODE = msgspec.json.Decoder(tuple[Cookie, ...])

SiteChanges = Mapping[str, tuple[Cookie, ...]]  # the cookies of a site; none: it is forgotten


class CookieStore:
    def __init__(self, path: Path) -> None:
        self._database = _open(path)

    def read(self) -> Iterator[tuple[str, tuple[Cookie, ...]]]:
        """Yield sites with their cookies; one that cannot be read is skipped."""
        for site, encoded in self._database.read("SELECT name, cookies FROM site"):
            try:
                yield site, _DECODE.decode(encoded)
            except msgspec.MsgspecError:
                log.warning("stored cookies cannot be read", extra={"site": site})

    def write(self, changes: SiteChanges, *, durably: bool = False) -> None:
        """Write changes. Not `durably` a power cut may undo them, which costs a few requests."""
        with self._database.write() if durably else self._database.write_relaxed() as run:
            for site, cookies in changes.items():
                if cookies:
                    run("INSERT OR REPLACE INTO site VALUES (?, ?)", (site, _ENCODE.encode(cookies)))
                else:
                    run("DELETE FROM site WHERE name = ?", (site,))

    def close(self) -> None:
        self._database.close()


def _open(path: Path) -> Database:
    make_private(path)
    try:
        database = Database(path, schema=SCHEMA)
        try:
            database.verify()
        except BadInput:
            database.close()
            raise
    except (BadInput, Misconfigured) as error:
        log.warning("the stored cookies are damaged: sessions begin anew", extra={"why": str(error)})
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            with suppress(FileNotFoundError):
                (path.parent / name).unlink()
        make_private(path)
        return Database(path, schema=SCHEMA)
    return database


def make_private(path: Path) -> None:
    """Make a file, or one that is there, readable and writable for its owner alone; SQLite's files beside it follow."""
    with os_errors(str(path)):
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, atomic.OWNER))
        path.chmod(atomic.OWNER)


def load_cookie_file(path: Path) -> list[Cookie]:
    """Return the cookies of a file that a user gave. Misconfigured: there are none, or it is no such file."""
    data, changed = _read_given_file(path)
    has_storage = False
    try:
        if is_storage_state(data):
            state = read_storage_state(data, source=str(path))
            cookies, has_storage = state.own_cookies(), bool(state.origins)
        else:
            cookies = list(read_cookie_file(data.decode("latin-1"), source=str(path)))
    except BadInput as error:
        raise Misconfigured(f"{path}: {error.message}: export it again as cookies.txt") from error
    if not cookies and not has_storage:
        raise Misconfigured(f"{path} has no cookies: export it again as cookies.txt, while you are logged in")
    return [msgspec.structs.replace(one, created=changed, changed=changed) for one in cookies]


def load_storage_state(path: Path) -> StorageState:
    """Return the state of a browser that a file holds; an empty one for a file of cookies alone. Misconfigured: it
    cannot be read."""
    data, _ = _read_given_file(path)
    try:
        return read_storage_state(data, source=str(path)) if is_storage_state(data) else StorageState()
    except BadInput as error:
        raise Misconfigured(f"{path}: {error.message}: export it again") from error


def _read_given_file(path: Path) -> tuple[bytes, float]:
    """Return what a file of the user holds, and when it was written. Misconfigured: it cannot be read, or is large."""
    try:
        with path.open("rb") as file:
            data, changed = file.read(MAX_FILE + 1), os.fstat(file.fileno()).st_mtime
    except OSError as error:
        repair = "give --cookies the path of a file in Netscape format, `session` or `off`"
        raise Misconfigured(f"{path}: {error.strerror}: {repair}") from error
    if len(data) > MAX_FILE:
        raise Misconfigured(f"{path} is larger than {MAX_FILE >> 20} MB: export only the cookies of the sites")
    return data, changed
