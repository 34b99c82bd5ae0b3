"""One process at a time. The kernel frees the lock when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from webmill.errors import Conflict
from webmill.infra.atomic import RESERVED, os_errors


@contextmanager
def exclusive(folder: Path, name: str, *, doing: str) -> Iterator[None]:
    """Hold the lock `name` of a folder; `Conflict` at once when another process holds it."""
    path = folder / f"{RESERVED}{name}-lock"
    with os_errors(str(path)):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(f"another process is {doing} in {folder}: wait for it, or stop it") from None
        yield
    finally:
        os.close(fd)
