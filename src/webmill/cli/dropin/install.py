"""`webmill dropin install`: installs commands with the old names into a folder."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from webmill.cli.context import note
from webmill.cli.dropin import OLD_NAMES
from webmill.errors import Conflict
from webmill.infra import atomic

MARK = "# written by `webmill dropin install`"


@click.command(epilog="Example: webmill dropin install ~/bin/replay-tools")
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
def install(*, folder: Path) -> None:
    """Write an executable file for each old command into DIR.

    Other files with these names are never replaced.
    """
    foreign = [name for name in OLD_NAMES if not may_be_written(folder / name)]
    if foreign:
        raise Conflict(f"{folder} has other files with these names: {', '.join(foreign)}; nothing was written")
    atomic.make_folder(folder)
    for name in OLD_NAMES:
        with atomic.writing(folder / name) as file:
            file.write(make_wrapper(name).encode())
        (folder / name).chmod(0o755)
    note(f"# {len(OLD_NAMES)} commands in {folder}")


def may_be_written(path: Path) -> bool:
    """Return whether the path is free, or was written by this command before."""
    if not path.is_symlink() and not path.exists():
        return True
    return path.is_file() and not path.is_symlink() and MARK.encode() in path.read_bytes()[:200]


def make_wrapper(name: str) -> str:
    return f'#!/bin/sh\n{MARK}\nexec {shlex.quote(sys.executable)} -m webmill dropin {name} "$@"\n'
