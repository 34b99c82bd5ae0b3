"""What the commands of letsdata share: the dataset's name, the layout of their JSON, the run in the background."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from webmill.cli.context import note
from webmill.masking import hide_secrets
from webmill.pipeline.dataset.folder import DatasetFolder

F = TypeVar("F", bound=Callable[..., Any])
LOG = "run.log"


def name_option(command: F) -> F:
    return click.option("--datasetName", "name", required=True, metavar="NAME", help="Name of the dataset.")(command)


def pretty_option(command: F) -> F:
    return click.option("--prettyPrint", "pretty", is_flag=True, help="Print JSON with line breaks.")(command)


def print_json(value: object, *, pretty: bool) -> None:
    data = hide_secrets(msgspec.json.encode(value).decode()).encode()
    click.echo(msgspec.json.format(data) if pretty else data)


def start_run(folder: DatasetFolder) -> None:
    """Run the dataset in a process of its own, which goes on when this command has ended."""
    if folder.is_running():
        note(f"{folder.dataset.name} is running already")
        return
    log = folder.path / LOG
    command = [sys.executable, "-m", "webmill", "-q", "dataset", "run", str(folder.path)]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, cwd=Path.cwd()
        )
    note(f"running in the background: process {process.pid}, messages in {log}")
