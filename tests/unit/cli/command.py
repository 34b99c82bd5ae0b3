"""The whole command in this process, as a script sees it: bytes in, bytes out, exit code."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import click

from webmill.cli import context
from webmill.cli.lazy import LazyGroup
from webmill.cli.main import main
from webmill.cli.main import webmill as top

PROGRAM = [sys.executable, "-m", "webmill"]


@dataclass(frozen=True)
class Ended:
    code: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[bytes]:
        return self.out.splitlines(keepends=True)


def webmill(*arguments: str | Path, stdin: bytes = b"") -> Ended:
    """Fails on a traceback: whatever escapes `main` escapes here too."""
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    streams = {"stdin": io.TextIOWrapper(io.BytesIO(stdin)), "stdout": out, "stderr": err}
    argv = ["webmill", *map(str, arguments)]
    noted = patch.object(context, "_noted", set())  # notes that come once in a process
    with quiet_logs(), noted, patch.multiple(sys, argv=argv, **streams), patch.dict(os.environ, {"COLUMNS": "80"}):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    out.flush()
    return Ended(code, out.buffer.getvalue(), err.getvalue())  # type: ignore[attr-defined]  # it is a BytesIO


def dropin(*arguments: str | Path, stdin: bytes = b"") -> Ended:
    return webmill("dropin", *arguments, stdin=stdin)


@contextmanager
def quiet_logs() -> Iterator[None]:
    """The command sets up logging for a process of its own; this one goes on."""
    handlers, raises = logging.root.handlers[:], logging.raiseExceptions
    try:
        yield
    finally:
        logging.root.handlers[:], logging.raiseExceptions = handlers, raises


def started(*arguments: str | Path, **options: object) -> subprocess.Popen[bytes]:
    """A process, for what needs one: pipes, signals."""
    pipes: dict[str, object] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen([*PROGRAM, *map(str, arguments)], **pipes)  # type: ignore[call-overload,no-any-return]


def commands_of(group: str) -> list[tuple[str, ...]]:
    """The names of all commands below a group of the top level, groups included."""
    return list(_below(_command(top, group), (group,)))


def _below(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            try:
                yield from _below(_command(command, name), (*path, name))
            except ModuleNotFoundError as error:
                raise AssertionError(f"{' '.join(path)} {name} cannot be imported") from error


def _command(group: click.Command, name: str) -> click.Command:
    assert isinstance(group, LazyGroup | click.Group)
    found = group.get_command(click.Context(group), name)
    assert found is not None
    return found
