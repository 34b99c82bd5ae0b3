"""A storage in a folder of this machine, shared by threads and processes.

Links are not followed below the root: every segment is opened from its parent with O_NOFOLLOW, so no key, no link and
no swap of a folder for a link leads out. What is not a plain file is not there. The one exception is for reading files
whose names have the endings of `links`: an operator keeps archives on several disks, and links to them.

Etag: modification time in nanoseconds, size, inode. The time is set by us and is later than that of the value it
replaces. Without that, compare-and-swap would be wrong: a freed inode is given out again at once, and the kernel's
own time stands still for milliseconds. A digest would be right too, but costs a read of the whole file for each `stat`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat as modes
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from webmill.errors import BadInput, Conflict, Misconfigured, NotFound, Unavailable
from webmill.infra.address import scheme_of
from webmill.infra.atomic import (
    Draft,
    drafting,
    make_folder,
    make_subfolder,
    remove_stale_temps_in,
    sync_folder,
)
from webmill.infra.files import RESERVED, as_webmill_error, os_errors
from webmill.infra.lock import lock
from webmill.infra.storage.base import (
    Absent,
    Condition,
    Data,
    Matches,
    RawStream,
    Stat,
    StorageOptions,
    buffer_stream,
    check_key,
    check_read,
    chunks_of,
    end_of_range,
    open_data,
)
from webmill.infra.storage.walk import Entry, is_listed, walk

log = logging.getLogger(__name__)

LOCKS = f"{RESERVED}locks"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # NONBLOCK: a pipe in the root must not hang us
_TIME_STEPS = (1, 1_000, 2_000_000_000)  # nanoseconds; what file systems can tell apart, down to FAT


def open_local(url: str, options: StorageOptions) -> LocalStorage:
    return LocalStorage(Path(scheme_of(url)[1]), links=options.links)


class LocalStorage:
    """Holds nothing open between calls: may be copied to other processes."""

    def __init__(self, root: Path, *, links: tuple[str, ...] = (), now: Callable[[], int] = time.time_ns) -> None:
        self.root = root.resolve()
        self._links = links
        self._now = now

    def stat(self, key: str) -> Stat:
        """Return size and etag. Publishers call it for every blob, so it opens no file, twice as fast as reading."""
        if self._may_be_link(key):
            with self._open_file(key) as (_, stat):
                return stat
        return self._stat(key)

    def _path(self, key: str) -> str:
        """Return the name of a file for whoever must repair what keeps us from writing it."""
        return f"{self.root}/{key}"

    def _may_be_link(self, key: str) -> bool:
        return bool(self._links) and key.lower().endswith(self._links)

    def _stat(self, key: str) -> Stat:
        folder, _, name = check_key(key).rpartition("/")
        try:
            fd = _open_below(self.root, folder)
            try:
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            finally:
                os.close(fd)
        except OSError as error:
            problem = as_webmill_error(error, key)
            if isinstance(problem, BadInput):
                problem = NotFound(f"{key}: {problem.message}")  # through a file or a link: not there
            raise problem from error
        if not modes.S_ISREG(status.st_mode):
            raise NotFound(f"{key} is not a plain file")
        return _stat_of(status, key=key)

    def read(self, key: str, *, start: int = 0, length: int | None = None, etag: str | None = None) -> bytes:
        with self._open_file(key) as (fd, stat):
            _check_etag(stat, etag)
            end = end_of_range(start, length, stat=stat)
            check_read(key, end - start)
            with _Range(os.dup(fd), key=key, start=start, end=end) as raw:
                return raw.readall()

    def open(self, key: str, *, start: int = 0, length: int | None = None, etag: str | None = None) -> BinaryIO:
        with self._open_file(key) as (fd, stat):
            _check_etag(stat, etag)
            end = end_of_range(start, length, stat=stat)
            return buffer_stream(_Range(os.dup(fd), key=key, start=start, end=end))

    def write(self, key: str, data: Data, *, condition: Condition | None = None) -> Stat:
        with self._folder(check_key(key), create=True) as (folder, name):
            _check_condition(folder, _stat_in(folder, name, key=key), key=key, condition=condition)  # saves the copy
            with drafting(folder, what=self._path(key)) as draft:
                with open_data(data) as source:
                    draft.file.writelines(chunks_of(source))
                draft.file.flush()
                _stamp(draft, self._now())
                draft.sync()
                with self._locked(key):
                    there = _stat_in(folder, name, key=key)
                    _check_condition(folder, there, key=key, condition=condition)
                    _make_later(draft, there)
                    if isinstance(condition, Absent):
                        draft.create(name)
                    else:
                        draft.replace(name)
                return _stat_of(os.fstat(draft.fd), key=key)

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[Stat]:
        return walk(self._entries, prefix=prefix, start_after=start_after)

    def delete(self, key: str) -> None:
        try:
            self._stat(key)  # links and folders are not ours to remove
            with self._folder(key) as (folder, name), self._locked(key), os_errors(self._path(key)):
                os.unlink(name, dir_fd=folder)
                sync_folder(folder)
        except NotFound:
            pass

    def sweep(self) -> int:
        """Remove the temporary files of killed writers; return how many there were."""
        return sum(self._sweep(""))

    def _sweep(self, folder: str) -> Iterator[int]:
        subfolders = [key.decode() for key, stat in self._entries(folder) if not stat]
        try:
            with self._open_folder(folder) as fd:
                yield remove_stale_temps_in(fd)
        except NotFound:
            return  # gone meanwhile
        for subfolder in subfolders:
            yield from self._sweep(subfolder)

    @contextmanager
    def _folder(self, key: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        """Open the folder of a key; yield its descriptor and the name in it."""
        path, _, name = key.rpartition("/")
        with self._open_folder(path, create=create) as folder:
            yield folder, name

    @contextmanager
    def _open_folder(self, path: str, *, create: bool = False) -> Iterator[int]:
        """Open a folder below the root segment by segment: O_NOFOLLOW guards only the last one of a path."""
        if create:
            make_folder(self.root)
        with os_errors(f"{self.root}/{path}"):
            fd = _open_below(self.root, path, create=create)
        try:
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def _open_file(self, key: str) -> Iterator[tuple[int, Stat]]:
        try:
            fd = self._open_linked(key) if self._may_be_link(key) else self._open_strictly(key)
        except BadInput as error:
            if error.reason != "bad_path":
                raise
            raise NotFound(f"{key}: {error.message}") from error  # through a file or a link: not there
        try:
            with os_errors(key):
                status = os.fstat(fd)
            if not modes.S_ISREG(status.st_mode):
                raise NotFound(f"{key} is not a plain file")
            yield fd, _stat_of(status, key=key)
        finally:
            os.close(fd)

    def _open_strictly(self, key: str) -> int:
        with self._folder(check_key(key)) as (folder, name), os_errors(key):
            return os.open(name, _FILE, dir_fd=folder)

    def _open_linked(self, key: str) -> int:
        with os_errors(key):
            return os.open(self.root / check_key(key), os.O_RDONLY | os.O_NONBLOCK)

    @contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        """Lock a key against other threads and processes between a check of its value and a rename.

        The kernel frees the lock when its holder dies. 256 locks serve all keys.
        """
        with self._open_folder(LOCKS, create=True) as folder, os_errors(self._path(key)):
            name = hashlib.sha256(key.encode()).hexdigest()[:2]
            fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666, dir_fd=folder)
        try:
            with os_errors(key):
                lock(fd)
            yield
        finally:
            os.close(fd)

    def _entries(self, folder: str) -> Iterator[Entry]:
        try:
            with self._open_folder(folder) as fd, os_errors(folder):
                for name in os.listdir(fd):  # noqa: PTH208  a Path cannot list an open folder
                    entry = _entry(fd, folder + name, name)
                    if entry:
                        yield entry
        except (NotFound, BadInput):
            return  # no such folder, or gone meanwhile


def _entry(folder: int, key: str, name: str) -> Entry | None:
    if not is_listed(key):
        return None
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if modes.S_ISDIR(status.st_mode):
        return f"{key}/".encode(), None
    if modes.S_ISREG(status.st_mode):
        return key.encode(), _stat_of(status, key=key)
    log.warning("not listed, not a plain file: %s", key)
    return None


def _open_below(root: Path, folder: str, *, create: bool = False) -> int:
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for segment in filter(None, folder.split("/")):
            above, fd = fd, _open_subfolder(fd, segment, create=create)
            os.close(above)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _open_subfolder(parent: int, name: str, *, create: bool) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=parent)
    except FileNotFoundError:
        if not create:
            raise
    make_subfolder(parent, name)
    return os.open(name, _FOLDER, dir_fd=parent)


def _stat_in(folder: int, name: str, *, key: str) -> Stat | None:
    try:
        with os_errors(key):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except NotFound:
        return None
    if modes.S_ISDIR(status.st_mode):
        raise BadInput("a key cannot be the folder of another", reason="bad_path", source=key)
    return _stat_of(status, key=key)


def _stat_of(status: os.stat_result, *, key: str) -> Stat:
    etag = f"{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ino:x}"
    return Stat(key=key, size=status.st_size, etag=etag, modified=_datetime(status.st_mtime_ns))


def _datetime(nanoseconds: int) -> datetime | None:
    try:
        return EPOCH + timedelta(microseconds=nanoseconds // 1000)
    except OverflowError:
        return None  # a file from the year 12000


def _check_etag(stat: Stat, etag: str | None) -> None:
    if etag and etag != stat.etag:
        raise Conflict(f"{stat.key} is another value by now")


def _check_condition(folder: int, there: Stat | None, *, key: str, condition: Condition | None) -> None:
    match condition:
        case Absent() if there:
            with os_errors(key):
                sync_folder(folder)  # its writer may not have come to that yet, and the caller will build on it
            raise Conflict(f"{key} exists already")
        case Matches(etag) if not there or there.etag != etag:
            raise Conflict(f"{key} is another value by now")


def _stamp(draft: Draft, nanoseconds: int) -> None:
    with os_errors(draft.what):
        os.utime(draft.fd, ns=(nanoseconds, nanoseconds))


def _make_later(draft: Draft, there: Stat | None) -> None:
    """Make the draft later than what it replaces. Nearly always it is, and this costs one fstat."""
    if not there:
        return
    old = int(there.etag.partition("-")[0], 16)
    for step in _TIME_STEPS:
        if os.fstat(draft.fd).st_mtime_ns > old:
            return
        _stamp(draft, old + step)
        draft.sync()
    if os.fstat(draft.fd).st_mtime_ns <= old:
        raise Misconfigured(f"{draft.what}: this file system stores no times; keep the collection on one that does")


class _Range(RawStream):
    """A range of an open file. Files are replaced, never changed, so its bytes are of one value."""

    def __init__(self, fd: int, *, key: str, start: int, end: int) -> None:
        self._fd, self._key, self._at, self._end = fd, key, start, end

    def _next(self, most: int) -> bytes:
        wanted = min(most, self._end - self._at)
        if not wanted:
            return b""
        with os_errors(self._key):
            data = os.pread(self._fd, wanted, self._at)
        if not data:
            raise Unavailable(f"{self._key}: the file was truncated at byte {self._at} while it was read")
        self._at += len(data)
        return data

    def close(self) -> None:
        if not self.closed:
            os.close(self._fd)
        super().close()
