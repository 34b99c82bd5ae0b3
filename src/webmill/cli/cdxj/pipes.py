"""How a command knows whether the command before it in a pipe has ended well.

The reader of a pipe sees an end, not why. On Linux a pipe has a capacity, which either end may set and read, and which
nothing else depends on: a command of ours sets one capacity while it writes into a pipe and another when it is done.
Whoever reads the end of a pipe whose writer was not done knows that it was killed or has failed. Nothing is added to
the data, so foreign commands may read it; a foreign writer changes no capacity, and cannot be judged unless it wrote
nothing at all: an index is not made of that.
"""

from __future__ import annotations

import fcntl
import os
import stat
from typing import Any, BinaryIO, Literal

PipeEnd = Literal["no pipe", "unknown", "writing", "done"]

WRITING, DONE = 128 << 10, 256 << 10  # bytes; the default is 64 KiB
_SET: int | None = getattr(fcntl, "F_SETPIPE_SZ", None)  # Linux
_GET: int | None = getattr(fcntl, "F_GETPIPE_SZ", None)


def begin_writing(stream: BinaryIO) -> None:
    """Say that a command of ours writes into this pipe, if it is one and its capacity may be changed."""
    if _set_capacity(stream, DONE):  # so that it will be possible at the end
        _set_capacity(stream, WRITING)


def end_writing(stream: BinaryIO) -> None:
    """Say that everything was written."""
    if pipe_end(stream) == "writing":
        _set_capacity(stream, DONE)


def pipe_end(stream: Any) -> PipeEnd:
    """Return what is known of the writer of a stream."""
    if not is_pipe(stream) or _GET is None:
        return "no pipe"
    capacity = fcntl.fcntl(stream.fileno(), _GET)
    return "writing" if capacity == WRITING else "done" if capacity == DONE else "unknown"


def is_pipe(stream: Any) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False  # closed, or not a file


def _set_capacity(stream: BinaryIO, size: int) -> bool:
    if _SET is None or not is_pipe(stream):
        return False
    try:
        fcntl.fcntl(stream.fileno(), _SET, size)
    except OSError:
        return False  # this user has too many large pipes, or there is more in it
    return True
