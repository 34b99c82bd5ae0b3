"""Looking at what others write, without a trace: no file is made, nothing is changed, nobody has to wait for us."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import apsw

from webmill.errors import BadInput, NotFound
from webmill.infra.atomic import RESERVED, os_errors
from webmill.infra.sqlite import Row, Value, translated

PATIENCE = 1000  # milliseconds

Read = Callable[..., list[Row]]  # read(sql, values) -> its rows


@contextmanager
def reading(path: Path) -> Iterator[Read]:
    """An SQLite file of anybody. `NotFound`; `BadInput` when it is damaged, or not what the questions are about.

    A file whose last writer has closed it has no log beside it. It is read as if it could not change, since a reader
    who shares would make a log of his own. After the kill of a writer that left a log but no index of it, what is read
    is what was there before the log.
    """
    if not path.is_file():
        raise NotFound(f"no file {path}")
    is_shared = _has(path, "-shm") or _has(path, "-journal")
    mode = "mode=ro" if is_shared else "immutable=1"
    connection: apsw.Connection | None = None
    try:
        address = f"file:{quote(os.fsencode(path.resolve()))}?{mode}"
        connection = apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        connection.set_busy_timeout(PATIENCE)
        opened = connection

        def read(sql: str, values: Sequence[Value] = ()) -> list[Row]:
            return opened.execute(sql, values).fetchall()

        yield read
    except apsw.SQLError as error:  # no such table
        raise BadInput(f"not what it should be: {error}", reason="corrupt", source=str(path)) from error
    except apsw.Error as error:
        raise translated(error, path) from error
    finally:
        if connection is not None:
            connection.close()


def _has(path: Path, ending: str) -> bool:
    return path.with_name(path.name + ending).exists()


def is_held(folder: Path, name: str) -> bool:
    """Whether a process has the lock of that name (`infra.lock`). It is tried for a moment, and never made."""
    path = folder / f"{RESERVED}{name}-lock"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        with os_errors(str(path)):
            raise
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
