"""Durable writes: write aside, sync, rename, sync the folder. A name holds the old bytes, the new bytes, or nothing.

Everything happens inside a folder that is held open, so that a folder swapped for a link meanwhile changes nothing.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from webmill.errors import Misconfigured, Unavailable, WebmillError
from webmill.infra.files import RESERVED, as_webmill_error, os_errors
from webmill.infra.lock import try_lock

_TEMP = re.compile(re.escape(RESERVED) + r"tmp-(\d{1,10})-[0-9a-f]{16}", re.ASCII)

_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOTSUP}


EVERYONE, OWNER = 0o666, 0o600  # before the umask: the readers may be other users, but not where a secret may be


def write_bytes(path: Path, data: bytes, *, mode: int = EVERYONE) -> None:
    """Replace the content of a file, durably on return."""
    with writing(path, mode=mode) as file:
        file.write(data)


@contextmanager
def writing(path: Path, *, mode: int = EVERYONE) -> Iterator[BinaryIO]:
    """Yield a file that replaces `path` when the block ends well, durably. When it raises, nothing is left."""
    with open_folder(path.parent) as folder, drafting(folder, what=str(path), mode=mode) as draft:
        yield draft.file
        draft.sync()
        draft.replace(path.name)


@contextmanager
def writing_unnamed(path: Path) -> Iterator[BinaryIO]:
    """Do the same with a file that has no name before it is complete: a killed writer leaves nothing behind.

    Where the file system has no such files it is `writing`.
    """
    with open_folder(path.parent) as folder:
        try:
            draft: Draft = UnnamedDraft(folder, what=str(path))
        except OSError:
            draft = Draft(folder, what=str(path))
        try:
            yield draft.file
            draft.sync()
            draft.replace(path.name)
        finally:
            draft.close()


def create_exclusive(path: Path, data: bytes, *, mode: int = EVERYONE) -> None:
    """Create a file; `Conflict` when the name exists. Whoever sees the name sees all of the data."""
    with open_folder(path.parent) as folder, drafting(folder, what=str(path), mode=mode) as draft:
        draft.file.write(data)
        draft.sync()
        draft.create(path.name)


def make_folder(path: Path) -> None:
    """Create a folder with its parents, each of them durable."""
    with os_errors(str(path)):
        if path.is_dir():
            return
    if path.parent != path:
        make_folder(path.parent)
    with open_folder(path.parent) as parent, os_errors(str(path)):
        make_subfolder(parent, path.name)


def make_subfolder(folder: int, name: str) -> None:
    try:
        os.mkdir(name, dir_fd=folder)
    except FileExistsError:
        pass  # made meanwhile by another; opening it will tell whether it is a folder
    sync_folder(folder)


def remove_stale_temps(folder: Path) -> int:
    """Remove the temporary files of dead writers from a folder; return how many there were."""
    with open_folder(folder) as fd:
        return remove_stale_temps_in(fd)


def remove_stale_temps_in(folder: int) -> int:
    with os_errors("removing stale temporary files"):
        return sum(_remove_if_stale(folder, name) for name in os.listdir(folder))


def is_stale_temp(path: Path) -> bool:
    """Return whether this is a temporary file whose writer is dead."""
    with open_folder(path.parent) as folder, _stale(folder, path.name) as stale:
        return stale


def _remove_if_stale(folder: int, name: str) -> bool:
    with _stale(folder, name) as stale:
        if stale:
            try:
                os.unlink(name, dir_fd=folder)
            except OSError:
                return False  # gone meanwhile
        return stale


@contextmanager
def _stale(folder: int, name: str) -> Iterator[bool]:
    """Yield whether the writer of a temporary file is dead, and keep its lock while the block lasts.

    Two signs must agree.

    The process id alone is wrong for a folder shared between containers; the lock alone is taken a moment after the
    file is made.
    """
    match = _TEMP.fullmatch(name)
    if not match or _is_running(int(match[1])):
        yield False
        return
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        yield False  # gone meanwhile, or no file of ours
        return
    try:
        yield _is_unlocked_file(fd)
    finally:
        os.close(fd)


def _is_unlocked_file(fd: int) -> bool:
    try:
        return try_lock(fd) and stat.S_ISREG(os.fstat(fd).st_mode)
    except OSError:
        return False  # no locks here: nothing can be known


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # somebody else's, and alive
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """Return whether a process is dead but not reaped; where no init does that, it stays so (Linux only)."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    except (OSError, IndexError):
        return False


class Draft:
    """A new file under a temporary name in an open folder, until it is published or its block ends."""

    def __init__(self, folder: int, *, what: str, mode: int = EVERYONE) -> None:
        self.folder = folder
        self.what = what
        self.name = f"{RESERVED}tmp-{os.getpid()}-{secrets.token_hex(8)}"
        self.fd = self._open(mode)
        self._raw = _Raw(self.fd, what=what)
        self.file = io.BufferedWriter(self._raw, 1 << 16)
        try:
            try_lock(self.fd)  # tells remove_stale_temps that we live
        except OSError:
            pass  # a file system without locks: remove_stale_temps will leave its files alone

    def _open(self, mode: int) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os_errors(self.what):
            return os.open(self.name, flags, mode, dir_fd=self.folder)

    def sync(self) -> None:
        """After an error here the kernel may have forgotten the pages: the draft is lost, never synced again."""
        self.file.flush()
        with os_errors(self.what):
            sync(self.fd)

    def replace(self, name: str) -> None:
        try:
            os.replace(self.name, name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
            sync_folder(self.folder)
        except OSError as error:
            raise self._failure(error) from error

    def create(self, name: str) -> None:
        """`Conflict` when the name exists: link(2) decides, so it holds against any other program too."""
        try:
            os.link(self.name, name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
            self.discard()
            sync_folder(self.folder)
        except OSError as error:
            if error.errno in _NO_LINKS:
                message = f"{self.what}: this file system makes no hard links; keep the collection on one that does"
                raise Misconfigured(message) from error
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> WebmillError:
        if error.errno == errno.ENOENT:  # not the caller's name is missing but ours
            return Unavailable(f"{self.what}: its temporary file was removed by someone else")
        return as_webmill_error(error, self.what)

    def discard(self) -> None:
        try:
            os.unlink(self.name, dir_fd=self.folder)
        except OSError:
            pass  # published by rename, or the disk is ill: remove_stale_temps comes later

    def close(self) -> None:
        self._raw.close()  # not the buffer: what was not flushed is not wanted
        self.discard()


class UnnamedDraft(Draft):
    """A draft that gets its temporary name only to be renamed. `OSError`: this file system has none."""

    def _open(self, mode: int) -> int:
        if not hasattr(os, "O_TMPFILE"):
            raise OSError(errno.ENOTSUP, "no unnamed files")
        return os.open(".", os.O_RDWR | os.O_TMPFILE, mode, dir_fd=self.folder)

    def replace(self, name: str) -> None:
        with os_errors(self.what):
            os.link(f"/proc/self/fd/{self.fd}", self.name, dst_dir_fd=self.folder, follow_symlinks=True)
        super().replace(name)


@contextmanager
def drafting(folder: int, *, what: str, mode: int = EVERYONE) -> Iterator[Draft]:
    draft = Draft(folder, what=what, mode=mode)
    try:
        yield draft
    finally:
        draft.close()


class _Raw(io.FileIO):
    """A file whose errors are ours, so that they differ from the errors of whatever else the caller's block does."""

    def __init__(self, fd: int, *, what: str) -> None:
        super().__init__(fd, "r+b")
        self._what = what

    def write(self, data: Any, /) -> int:  # any buffer; Python has no name for that before 3.12
        try:
            return super().write(data)
        except OSError as error:
            raise as_webmill_error(error, self._what) from error


@contextmanager
def open_folder(path: Path) -> Iterator[int]:
    with os_errors(str(path)):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def sync(fd: int) -> None:
    if sys.platform == "darwin":
        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # fsync there does not reach the platter
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL):
                raise
        else:
            return
    os.fsync(fd)


def sync_folder(fd: int) -> None:
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems cannot and need not
            raise
