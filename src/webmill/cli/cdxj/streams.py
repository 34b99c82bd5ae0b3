"""Where lines come from and go to: files or the pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from webmill.index.lines import Batch, read_batches
from webmill.infra import atomic

INPUT = click.argument("source", default="-", type=click.Path(dir_okay=False, path_type=Path, allow_dash=True))
OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path, allow_dash=True),
    default=Path("-"),
    help="File to write; it appears when it is complete  [default: stdout]",
)


def batches_of(source: Path) -> Iterator[Batch]:
    """Lines of a file, or of stdin for `-`; plain or gzip."""
    if source == Path("-"):
        return read_batches(sys.stdin.buffer, name="stdin")
    return read_batches(source)


def name_of(source: Path) -> str:
    return "stdin" if source == Path("-") else str(source)


@contextmanager
def output_to(target: Path) -> Iterator[BinaryIO]:
    """A file that appears whole or not at all, or stdout for `-`."""
    if target == Path("-"):
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with atomic.writing(target) as out:
        yield out
