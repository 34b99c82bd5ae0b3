"""What all code that touches files shares: errors of the tree for those of the system, complete reads and writes."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from webmill.errors import BadInput, Conflict, Misconfigured, NotFound, Unavailable, WebmillError

RESERVED = ".webmill-"  # names of our own making begin so; nothing else may

_WRONG_PATH = {errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTEMPTY}
_FORBIDDEN = {errno.EACCES, errno.EPERM}


@contextmanager
def os_errors(what: str) -> Iterator[None]:
    """Raise an `OSError` of the block as an error of the tree that names `what`."""
    try:
        yield
    except OSError as error:
        raise as_webmill_error(error, what) from error


def as_webmill_error(error: OSError, what: str) -> WebmillError:
    reason = error.strerror or str(error)
    if error.errno == errno.ENOENT:
        return NotFound(f"{what}: {reason}")
    if error.errno == errno.EEXIST:
        return Conflict(f"{what}: {reason}")
    if error.errno in _WRONG_PATH:
        return BadInput(reason, reason="bad_path", source=what)
    if error.errno == errno.EROFS:
        return Misconfigured(f"{what}: {reason}; mount it for writing, or work on a copy of the folder")
    if error.errno in _FORBIDDEN:
        return Misconfigured(f"{what}: {reason}; give this user the right to it, or choose another folder")
    return Unavailable(f"{what}: {reason}")  # a full or failing disk, too many open files: may pass


def read_at(fd: int, size: int, offset: int) -> bytes:
    """Read `size` bytes, fewer only where the file ends.

    A single system call may do less: on network file systems, and when a signal comes.
    """
    data = os.pread(fd, size, offset)
    if len(data) == size or not data:
        return data
    parts = [data]
    while (size := size - len(data)) and (data := os.pread(fd, size, offset := offset + len(data))):
        parts.append(data)
    return b"".join(parts)


def write_at(fd: int, data: bytes, offset: int) -> None:
    """Write all of it, however little one system call takes."""
    while (done := os.pwrite(fd, data, offset)) < len(data):
        data, offset = data[done:], offset + done
