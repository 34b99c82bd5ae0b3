"""Input and output of the commands: files or pipes.

A command that fails or is killed must not leave half of an index: `merge … | zipnum -o index/` does not replace a good
index by half of one. The next command knows by the pipe itself (`pipes`); where pipes cannot say it (macOS), a command
that fails writes a last line that is not CDXJ.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from webmill.cli.cdxj.pipes import begin_writing, end_writing, is_pipe, pipe_end
from webmill.errors import BadInput
from webmill.index.columns import as_cdxj
from webmill.index.lines import Batch, read_batches
from webmill.infra import atomic

STDIN = STDOUT = Path("-")
SILENT = "webmill.silent_pipe"  # of a command's context: stdin was an empty pipe that nobody vouched for
BROKEN = b"\0webmill: the command that wrote this has failed: the lines above are not all\n"

INPUT = click.argument("source", default="-", type=click.Path(dir_okay=False, path_type=Path, allow_dash=True))
OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path, allow_dash=True),
    default=STDOUT,
    help="File to write; it appears when it is complete  [default: stdout]",
)


def read_source(source: Path, *, block: int | None = None) -> Iterator[Batch]:
    """Read batches of lines from a file, or from stdin for `-`; plain or gzip, CDXJ or CDX. `block`: bytes to read at
    once."""
    if source == STDIN:
        return as_cdxj(refuse_broken_pipe(read_batches(sys.stdin.buffer, name="stdin", block=block)))
    return as_cdxj(read_batches(source, block=block))


def read_whole(source: Path) -> Iterator[Batch]:
    """Read a source that an index is made of: one that ends too early, or may have, is `BadInput` at its end."""
    yield from read_source(source)
    refuse_silent_pipe()


def refuse_broken_pipe(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Pass the lines of stdin on; `BadInput` when the command that wrote them did not end well."""
    is_empty = True
    for batch in batches:
        is_empty = False
        if batch[-1] == BROKEN:
            raise broken_pipe_error("the command before this one in the pipe failed; see its message")
        yield batch
    end = pipe_end(sys.stdin)
    if end == "writing":
        raise broken_pipe_error("the command before this one in the pipe failed or was killed: this is not all of it")
    if is_empty and end == "unknown":
        click.get_current_context().meta[SILENT] = True


def refuse_broken_inputs(paths: Iterable[Path]) -> None:
    """Raise `BadInput` if one of the inputs, read to its end, is a pipe (`/dev/stdin`, `<(…)`) whose writer did not end
    well."""
    for path in paths:
        if path.is_fifo():
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as pipe:  # noqa: PTH123
                if pipe_end(pipe) == "writing":
                    raise broken_pipe_error(f"the command that writes into {path} failed or was killed")


def refuse_silent_pipe() -> None:
    """Raise `BadInput` if nothing came through stdin, and nobody said that this is all."""
    if click.get_current_context().meta.get(SILENT):
        raise broken_pipe_error(
            "nothing came through the pipe: the command before may have been killed; for an empty input use /dev/null"
        )


def broken_pipe_error(message: str) -> BadInput:
    return BadInput(message, reason="broken_pipe", source="stdin")


def source_name(source: Path) -> str:
    return "stdin" if source == STDIN else str(source)


@contextmanager
def open_output(target: Path) -> Iterator[BinaryIO]:
    """Open a file that appears only when it is complete, or stdout for `-`."""
    if target != STDOUT:
        target = target.resolve()  # a symlink stays; its target is written
        special = target.exists() and not target.is_file()  # a device or a pipe is written to, never replaced
        with target.open("wb") if special else atomic.writing_unnamed(target) as out:
            yield out
            refuse_silent_pipe()
        return
    begin_writing(sys.stdout.buffer)
    try:
        yield sys.stdout.buffer
    except BrokenPipeError:
        raise
    except BaseException:
        mark_pipe_broken()
        raise
    sys.stdout.buffer.flush()
    if not click.get_current_context().meta.get(SILENT):  # else the next command should not believe us, either
        end_writing(sys.stdout.buffer)


def mark_pipe_broken() -> None:
    if not is_pipe(sys.stdout):
        return
    try:
        sys.stdout.buffer.write(BROKEN)
        sys.stdout.buffer.flush()
    except OSError:
        pass  # the reader is gone
