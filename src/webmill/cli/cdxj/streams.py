"""Input and output of the commands: files or pipes.

The reader of a pipe cannot know whether its writer has failed. So a command that fails writes a last line that is not
CDXJ, and the next one refuses it: `merge … | zipnum -o index/` does not replace a good index by half of one. (A writer
that is killed writes nothing: use `set -o pipefail`, or one command for everything, `webmill index`.)
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from webmill.errors import BadInput
from webmill.index.lines import Batch, read_batches
from webmill.infra import atomic

STDIN = STDOUT = Path("-")
BROKEN = b"\0webmill: the command that wrote this has failed: the lines above are not all\n"

INPUT = click.argument("source", default="-", type=click.Path(dir_okay=False, path_type=Path, allow_dash=True))
OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path, allow_dash=True),
    default=STDOUT,
    help="File to write; it appears when it is complete  [default: stdout]",
)


def read_source(source: Path) -> Iterator[Batch]:
    """Read batches of lines from a file, or from stdin for `-`; plain or gzip."""
    if source == STDIN:
        return refuse_broken_pipe(read_batches(sys.stdin.buffer, name="stdin"))
    return read_batches(source)


def refuse_broken_pipe(batches: Iterable[Batch]) -> Iterator[Batch]:
    for batch in batches:
        if batch[-1] == BROKEN:
            message = "the command before this one in the pipe failed; see its message"
            raise BadInput(message, reason="broken_pipe", source="stdin")
        yield batch


def source_name(source: Path) -> str:
    return "stdin" if source == STDIN else str(source)


@contextmanager
def open_output(target: Path) -> Iterator[BinaryIO]:
    """Open a file that appears only when it is complete, or stdout for `-`."""
    if target != STDOUT:
        target = target.resolve()  # a symlink stays; its target is written
        special = target.exists() and not target.is_file()  # a device or a pipe is written to, never replaced
        with target.open("wb") if special else atomic.writing(target) as out:
            yield out
        return
    try:
        yield sys.stdout.buffer
    except BrokenPipeError:
        raise
    except BaseException:
        mark_pipe_broken()
        raise
    sys.stdout.buffer.flush()


def mark_pipe_broken() -> None:
    try:
        if stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode):
            sys.stdout.buffer.write(BROKEN)
            sys.stdout.buffer.flush()
    except OSError:
        pass  # the reader is gone, or stdout is not a file
