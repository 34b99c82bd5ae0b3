"""Locks between processes: `flock` on a lock file of a folder, or on a file that is open anyway.

The kernel frees a lock when its holder dies, however it dies. A lock belongs to the open file: processes forked while
it is open share it, and it is free when all of them have closed the file or one of them has called `unlock`.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from webmill.errors import Conflict
from webmill.infra import waiting
from webmill.infra.files import RESERVED, os_errors

PEEK_TIME = 0.1  # seconds: `is_locked` has a lock for microseconds, which is no reason to refuse it to others
POLL_INTERVAL = 0.01


@contextmanager
def exclusive(folder: Path, name: str, *, doing: str, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock `name` of a folder; `Conflict` when another process holds it, and still does after `patience`."""
    with _lock_file(folder, name, fcntl.LOCK_EX, doing=doing, patience=patience):
        yield


@contextmanager
def shared(folder: Path, name: str, *, doing: str, patience: float = 0.0) -> Iterator[None]:
    """As `exclusive`, together with others who share it; nobody has it exclusively meanwhile."""
    with _lock_file(folder, name, fcntl.LOCK_SH, doing=doing, patience=patience):
        yield


def is_locked(folder: Path, name: str) -> bool:
    """Return whether a process holds the lock `name` of a folder exclusively. The lock file is not created."""
    path = _path(folder, name)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        with os_errors(str(path)):
            raise
    try:
        return not _try(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


# --- open files ---


def lock(file: int | BinaryIO) -> None:
    """Wait for the exclusive lock of an open file, however long."""
    fcntl.flock(file, fcntl.LOCK_EX)


def try_lock(file: int | BinaryIO, *, patience: float = 0.0, interval: float = POLL_INTERVAL) -> bool:
    """Lock an open file exclusively; False when another still has it after `patience` seconds.

    `OSError` where the file system has no locks.
    """
    if _try(file, fcntl.LOCK_EX):
        return True
    return patience > 0 and _try_until(time.monotonic() + patience, file, fcntl.LOCK_EX, interval=interval)


def unlock(file: int | BinaryIO) -> None:
    fcntl.flock(file, fcntl.LOCK_UN)


def _path(folder: Path, name: str) -> Path:
    return folder / f"{RESERVED}{name}-lock"


@contextmanager
def _lock_file(folder: Path, name: str, kind: int, *, doing: str, patience: float) -> Iterator[None]:
    deadline = time.monotonic() + max(patience, PEEK_TIME)
    path = _path(folder, name)
    with os_errors(str(path)):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        if not _try_until(deadline, fd, kind, interval=POLL_INTERVAL):
            raise Conflict(f"another process is {doing} in {folder}: wait for it, or stop it")
        yield
    finally:
        os.close(fd)


def _try_until(deadline: float, file: int | BinaryIO, kind: int, *, interval: float) -> bool:
    while not _try(file, kind):
        if time.monotonic() >= deadline:
            return False
        waiting.sleep(interval)
    return True


def _try(file: int | BinaryIO, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
