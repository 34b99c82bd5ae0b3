"""`letsdata datasets create | view | list | delete`."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from webmill.cli.context import Context, note, pass_context
from webmill.cli.dataset.create import create_from_file
from webmill.cli.dataset.folders import dataset_path, datasets_folder_option
from webmill.cli.dropin.letsdata.options import name_option, pretty_option, print_json, start_run
from webmill.compat.letsdata.config import FILE_NAME
from webmill.pipeline.dataset import folder as dataset_folder
from webmill.pipeline.dataset.views import DatasetOverview, dataset_overview


@click.command(epilog="Example: letsdata datasets create --configFile dataset.json --prettyPrint")
@click.option(
    "--configFile",
    "file",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Description of the dataset: dataset.json.",
)
@pretty_option
@datasets_folder_option
@pass_context
def create(context: Context, /, *, file: Path, pretty: bool, root: Path) -> None:
    """Create a dataset from its dataset.json and run it in the background.

    `webmill dataset run NAME` runs it in the foreground and continues it.
    """
    folder, _ = create_from_file(file, root, http=context.settings().http)
    start_run(folder)
    print_json(describe(folder), pretty=pretty)


@click.command(epilog="Example: letsdata datasets view --datasetName NAME --prettyPrint")
@name_option
@pretty_option
@datasets_folder_option
def view(*, name: str, pretty: bool, root: Path) -> None:
    """Show a dataset: its description as it was given, and its progress."""
    print_json(describe(dataset_folder.open_dataset(dataset_path(name, root))), pretty=pretty)


@click.command("list", epilog="Example: letsdata datasets list --prettyPrint")
@pretty_option
@datasets_folder_option
def list_(*, pretty: bool, root: Path) -> None:
    """List the datasets with their progress."""
    found = [dataset_folder.open_dataset(path) for path in dataset_folder.find_datasets(root)]
    print_json([summary_of(dataset_overview(folder)) for folder in found], pretty=pretty)


@click.command(epilog="Example: letsdata datasets delete --datasetName NAME")
@name_option
@datasets_folder_option
def delete(*, name: str, root: Path) -> None:
    """Delete a dataset with the output in its folder; what was written elsewhere is kept."""
    path = dataset_path(name, root)
    dataset_folder.delete_dataset(path)
    note(f"deleted {path}")


def describe(folder: dataset_folder.DatasetFolder) -> dict[str, object]:
    """Return the description as letsdata's file had it, unknown fields included, and what became of the tasks."""
    original = folder.path / FILE_NAME
    given = original.read_bytes() if original.exists() else msgspec.json.encode(folder.dataset)
    return {**msgspec.json.decode(given, type=dict[str, object]), **summary_of(dataset_overview(folder))}


def summary_of(state: DatasetOverview) -> dict[str, object]:
    counts = msgspec.structs.asdict(state.counts)
    return {
        "datasetName": state.name,
        "datasetStatus": status_of(state),
        "folder": state.path,
        "tasks": {"total": state.tasks, **counts},
    }


def status_of(state: DatasetOverview) -> str:
    if state.running:
        return "running"
    if state.tasks and state.counts.done + state.counts.failed == state.tasks:
        return "failed" if state.counts.failed else "done"
    begun = state.counts.done or state.counts.running or state.counts.paused
    return "stopped" if begun else "planned"
