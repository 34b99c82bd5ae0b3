"""`letsdata tasks list | redrive | stop`, `letsdata errors list`."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from webmill.cli.context import note
from webmill.cli.dataset.folders import dataset_path, datasets_folder_option
from webmill.cli.dataset.run import stop_run
from webmill.cli.dropin.letsdata.options import name_option, pretty_option, print_json, start_run
from webmill.cli.text import format_count
from webmill.pipeline.dataset import views as dataset_views
from webmill.pipeline.dataset.folder import open_dataset


@click.command("list", epilog="Example: letsdata tasks list --datasetName NAME --prettyPrint")
@name_option
@pretty_option
@datasets_folder_option
def list_(*, name: str, pretty: bool, root: Path) -> None:
    """List the tasks of a dataset: one for each line of its manifest."""
    folder = open_dataset(dataset_path(name, root))
    views = dataset_views.task_views(folder)
    print_json([task_of(view, dataset=folder.dataset.name) for view in views], pretty=pretty)


@click.command(epilog="Example: letsdata tasks redrive --datasetName NAME")
@name_option
@click.option("--taskId", "ids", multiple=True, metavar="ID", help="Retry only this task; repeatable.")
@datasets_folder_option
def redrive(*, name: str, ids: tuple[str, ...], root: Path) -> None:
    """Retry failed tasks, and run the dataset in the background."""
    folder = open_dataset(dataset_path(name, root))
    note(f"{format_count(dataset_views.redrive(folder, ids), 'task')} will be retried")
    start_run(folder)


@click.command(epilog="Example: letsdata tasks stop --datasetName NAME")
@name_option
@datasets_folder_option
def stop(*, name: str, root: Path) -> None:
    """Stop the run of a dataset; `tasks redrive` or `webmill dataset run` continues it."""
    stop_run(open_dataset(dataset_path(name, root)), wait=60.0)


@click.command("list", epilog="Example: letsdata errors list --datasetName NAME --prettyPrint")
@name_option
@pretty_option
@datasets_folder_option
def errors(*, name: str, pretty: bool, root: Path) -> None:
    """List what could not be read or made, with reasons, files and byte ranges."""
    lines = dataset_views.error_lines(open_dataset(dataset_path(name, root)))
    print_json([msgspec.Raw(line) for line in lines], pretty=pretty)


def task_of(view: dataset_views.TaskView, *, dataset: str) -> dict[str, object]:
    totals = view.totals
    return {
        "datasetName": dataset,
        "taskId": view.id,
        "taskStatus": view.state,
        "files": view.files,
        "progress": view.progress,
        "attempts": view.attempts,
        "reason": view.reason,
        "documents": totals.documents,
        "skipped": sum(totals.left_out.values()),
        "errors": totals.errors,
        "offsets": totals.resume,
        "seconds": totals.seconds,
    }
