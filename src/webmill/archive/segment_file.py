"""One WARC file while it is written: appended to, synced, at last sealed, which gives it its final name.

    X.warc.gz.open   locked by its writer; everything below `synced` is durable
    X.warc.gz        never changes again

Nobody else can have the name: `.open` is made exclusively, and only its maker (or recovery, once the maker is dead) can
make the final name of it. A name that exists in either form is refused with `Conflict`.
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
    """`end` is behind the last whole write, `synced` the part of it that is durable, `first` where captures begin."""

    def __init__(self, path: Path, *, key: str, warcinfo: bytes, warcinfo_id: str) -> None:
        """A new file that begins so. `path` is its final name, `key` what an index calls it."""
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
        """Recovery may have found the new file before it was locked, and removed it as one that is empty."""
        locked = lock_segment(self._fd, what=str(self.path))
        if not locked or not is_file_at(self._fd, self.open_path) or self.path.exists():
            raise Conflict(f"{self.path} is somebody else's")

    @property
    def is_empty(self) -> bool:
        """No capture is in it."""
        return self.end <= self.first

    def append(self, data: bytes) -> int:
        """Where it was written. When it could not be, what of it was is taken back (or will be, when it is sealed)."""
        try:
            with os_errors(str(self.open_path)):
                write_all(self._fd, data, at=self.end)
        except WebmillError:
            self._cut_quietly()
            raise
        start, self.end = self.end, self.end + len(data)
        return start

    def sync(self) -> None:
        """After an error the kernel may have forgotten what it could not write: never sync for it again, `forget`."""
        if self.synced < self.end:
            with os_errors(str(self.open_path)):
                sync_data(self._fd)

    def confirm(self) -> None:
        """What was synced counts."""
        self.synced = self.end

    def forget(self) -> None:
        """What was not confirmed is void. Sealing syncs once more, but only the cut depends on it."""
        self.end = self.synced
        self._cut_quietly()

    def seal(self) -> None:
        """Durable under its final name, or gone when it holds no capture. On an error it is left to recovery."""
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
            os.close(self._fd)  # and so unlocked
            self._fd = -1

    def _remove(self) -> None:
        """Ours only if it is still there; a file that cannot be removed is removed by recovery."""
        try:
            if is_file_at(self._fd, self.open_path):
                self.open_path.unlink()
        except OSError:
            pass
        self.close()

    def _cut_quietly(self) -> None:
        """Sealing cuts again, and does not let it pass."""
        try:
            os.ftruncate(self._fd, self.end)
        except OSError:
            pass


def lock_segment(fd: int, *, what: str) -> bool:
    """Until `fd` is closed. False: another has it."""
    try:
        return try_lock(fd)
    except OSError as error:
        message = f"{what}: this file system has no locks ({error.strerror}); keep the collection on one that has"
        raise Misconfigured(message) from error


def is_file_at(fd: int, path: Path) -> bool:
    """Whether this is the file that has the name: it may have been sealed or removed after it was opened."""
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except FileNotFoundError:
        return False


def seal_file(fd: int, path: Path, *, end: int) -> None:
    """Cut to `end`, durably, then give it its final name."""
    final = path.with_name(path.name.removesuffix(OPEN_SUFFIX))
    if final.exists():  # then it was put there by hand: we own the name as long as we have the open one
        raise Conflict(f"{final} exists beside {path.name}: move one of them away")
    if os.fstat(fd).st_size != end:
        os.ftruncate(fd, end)
    atomic.sync(fd)
    path.rename(final)
    with atomic.open_folder(path.parent) as folder:
        atomic.sync_folder(folder)


def write_all(fd: int, data: bytes, *, at: int) -> None:
    """At a place of our own reckoning: an exception between two writes cannot shift what comes after."""
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
