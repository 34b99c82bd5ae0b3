"""One process at a time. The kernel frees the lock when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from webmill.errors import Conflict
from webmill.infra.atomic import RESERVED, os_errors

GLANCE = 0.1  # seconds: who only looks whether a lock is held (`infra.looking`) has it for microseconds


@contextmanager
def exclusive(folder: Path, name: str, *, doing: str, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock `name` of a folder; `Conflict` when another process holds it, and still does after `patience`."""
    with _holding(folder, name, fcntl.LOCK_EX, doing=doing, patience=patience):
        yield


@contextmanager
def shared(folder: Path, name: str, *, doing: str, patience: float = 0.0) -> Iterator[None]:
    """As `exclusive`, together with others who share it; nobody has it exclusively meanwhile."""
    with _holding(folder, name, fcntl.LOCK_SH, doing=doing, patience=patience):
        yield


@contextmanager
def _holding(folder: Path, name: str, kind: int, *, doing: str, patience: float) -> Iterator[None]:
    deadline = time.monotonic() + max(patience, GLANCE)
    path = folder / f"{RESERVED}{name}-lock"
    with os_errors(str(path)):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        while not _locked(fd, kind):
            if time.monotonic() >= deadline:
                raise Conflict(f"another process is {doing} in {folder}: wait for it, or stop it")
            time.sleep(0.01)
        yield
    finally:
        os.close(fd)


def _locked(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
