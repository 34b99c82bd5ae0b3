"""One WARC file while it is written: appended to, synced and finally sealed, which gives it its final name.

    X.warc.gz.open   locked by its writer; everything below `synced` is durable
    X.warc.gz        never changes again

The name is exclusive: `.open` is created exclusively, and only its writer (or recovery, once the writer is dead) can
rename it to the final name. A name that exists in either form raises `Conflict`.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

from webmill.archive.segment import OPEN_SUFFIX
from webmill.errors import Conflict, Misconfigured, WebmillError
from webmill.infra import atomic
from webmill.infra.files import os_errors
from webmill.infra.lock import try_lock

_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


class SegmentFile:
    """An open WARC file.

    `end` is the end of the last complete write, `synced` of what is durable, `first` of the warcinfo.
    """

    def __init__(self, path: Path, *, key: str, warcinfo: bytes, warcinfo_id: str) -> None:
        """Create the file with its warcinfo record. `path` is its final name, `key` its name in an index."""
        self.path = path
        self.key = key
        self.warcinfo_id = warcinfo_id
        self.open_path = path.with_name(path.name + OPEN_SUFFIX)
        self.first = self.end = self.synced = 0
        atomic.make_folder(path.parent)
        with os_errors(str(path)):
            self._fd = os.open(self.open_path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            self._claim()
            self.append(warcinfo)
            with atomic.open_folder(path.parent) as folder, os_errors(str(path)):
                atomic.sync_folder(folder)
        except WebmillError:
            self._remove()
            raise
        self.first = self.end

    def _claim(self) -> None:
        """Lock the file. Recovery may have found it before that, and removed it as empty."""
        locked = lock_segment(self._fd, what=str(self.path))
        if not locked or not is_file_at(self._fd, self.open_path) or self.path.exists():
            raise Conflict(f"{self.path} belongs to another writer")

    @property
    def is_empty(self) -> bool:
        """Whether the file holds no capture."""
        return self.end <= self.first

    def append(self, data: bytes) -> int:
        """Write `data` and return its offset. A failed write is truncated, now or when the file is sealed."""
        try:
            with os_errors(str(self.open_path)):
                write_all(self._fd, data, at=self.end)
        except WebmillError:
            self._try_truncate()
            raise
        start, self.end = self.end, self.end + len(data)
        return start

    def sync(self) -> None:
        """Make the writes durable.

        After an error never sync again (the kernel may have dropped the data): `discard_unsynced`.
        """
        if self.synced < self.end:
            with os_errors(str(self.open_path)):
                sync_data(self._fd)

    def mark_synced(self) -> None:
        """Take all that was synced as durable."""
        self.synced = self.end

    def discard_unsynced(self) -> None:
        """Drop what is not marked as synced. Sealing syncs once more, but only the truncation depends on it."""
        self.end = self.synced
        self._try_truncate()

    def seal(self) -> None:
        """Give the file its final name, durably, or remove it if it holds no capture.

        On an error it is left to recovery.
        """
        try:
            if self.is_empty:
                self._remove()
                return
            with os_errors(str(self.open_path)):
                seal_file(self._fd, self.open_path, end=self.end)
        finally:
            self.close()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)  # this unlocks it
            self._fd = -1

    def _remove(self) -> None:
        """Remove the file if it is still ours; recovery removes it where this fails."""
        try:
            if is_file_at(self._fd, self.open_path):
                self.open_path.unlink()
        except OSError:
            pass
        self.close()

    def _try_truncate(self) -> None:
        """Truncate to `end`, ignoring errors: sealing truncates again, and raises them."""
        try:
            os.ftruncate(self._fd, self.end)
        except OSError:
            pass


def lock_segment(fd: int, *, what: str) -> bool:
    """Lock a file until `fd` is closed. Return False if another process holds it."""
    try:
        return try_lock(fd)
    except OSError as error:
        message = f"{what}: this file system has no locks ({error.strerror}); move the collection to one that does"
        raise Misconfigured(message) from error


def is_file_at(fd: int, path: Path) -> bool:
    """Return whether `fd` is the file at `path`: it may have been sealed or removed after it was opened."""
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except FileNotFoundError:
        return False


def seal_file(fd: int, path: Path, *, end: int) -> None:
    """Truncate the file to `end`, durably, then give it its final name."""
    final = path.with_name(path.name.removesuffix(OPEN_SUFFIX))
    if final.exists():  # someone put it there by hand: the open file reserves the name
        raise Conflict(f"{final} exists beside {path.name}; move one of them away")
    if os.fstat(fd).st_size != end:
        os.ftruncate(fd, end)
    atomic.sync(fd)
    path.rename(final)
    with atomic.open_folder(path.parent) as folder:
        atomic.sync_folder(folder)


def write_all(fd: int, data: bytes, *, at: int) -> None:
    """Write `data` at an explicit offset, so that an interrupted write cannot shift what comes after."""
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, at)
        if not written:
            raise OSError(errno.EIO, "nothing was written")
        view, at = view[written:], at + written


def sync_data(fd: int) -> None:
    if sys.platform == "darwin":
        atomic.sync(fd)
    else:
        os.fdatasync(fd)
