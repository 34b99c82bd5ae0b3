"""`webmill dataset view`, `list`, `errors`."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import click
import msgspec

from webmill.cli.context import warn
from webmill.cli.dataset.folders import dataset_path, datasets_folder_option
from webmill.cli.text import format_count
from webmill.errors import WebmillError
from webmill.masking import hide_secrets
from webmill.pipeline.dataset import views as dataset_views
from webmill.pipeline.dataset.folder import find_datasets, open_dataset


@click.command(
    epilog="""\b
Example:
  webmill dataset view news --json | jq .state.counts"""
)
@click.argument("name")
@datasets_folder_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
def view(*, name: str, root: Path, as_json: bool) -> None:
    """Show dataset NAME and its progress."""
    folder = open_dataset(dataset_path(name, root))
    state = dataset_views.dataset_overview(folder)
    if as_json:
        click.echo(hide_secrets(msgspec.json.encode({"dataset": folder.dataset, "state": state}).decode()))
        return
    click.echo(describe_dataset(state))
    click.echo(hide_secrets(msgspec.json.format(msgspec.json.encode(folder.dataset)).decode()))


@click.command(
    "list",
    epilog="""\b
Example:
  webmill dataset list --in /data/datasets""",
)
@datasets_folder_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def list_(*, root: Path, as_json: bool) -> None:
    """List the datasets of a folder, with the state of their tasks."""
    for path in find_datasets(root):
        try:
            state = dataset_views.dataset_overview(open_dataset(path))
        except WebmillError as error:
            warn(f"{path}: {error}")
            continue
        click.echo(msgspec.json.encode(state) if as_json else describe_dataset(state))


@click.command(
    epilog="""\b
Examples:
  webmill dataset errors news | jq -r .reason | sort | uniq -c
  webmill dataset errors news --limit 5"""
)
@click.argument("name")
@datasets_folder_option
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Print only the first N.")
def errors(*, name: str, root: Path, limit: int | None) -> None:
    """List what could not be read or extracted: one JSON object per line, with reason, files and byte ranges.

    `webmill dataset tasks` lists tasks that failed as a whole.
    """
    folder = open_dataset(dataset_path(name, root))
    for line in islice(dataset_views.error_lines(folder), limit):
        click.echo(line, nl=False)


def describe_dataset(state: dataset_views.DatasetOverview) -> str:
    counts = ", ".join(f"{getattr(state.counts, name):,} {name}" for name in state.counts.__struct_fields__)
    return f"{state.name}: {format_count(state.tasks, 'task')} ({counts}){', running now' * state.running}"
