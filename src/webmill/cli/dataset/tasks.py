"""`webmill dataset tasks NAME`, `tasks redrive NAME`, `tasks log NAME TASK`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from webmill.cli.context import note
from webmill.cli.dataset.folders import dataset_path, datasets_folder_option
from webmill.cli.text import format_count
from webmill.pipeline.dataset import views as dataset_views
from webmill.pipeline.dataset.folder import open_dataset


class ListByDefaultGroup(click.Group):
    """Runs `list` if the first word is not a command: `tasks NAME` is short for `tasks list NAME`."""

    otherwise = "list"

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, args if args[0] in self.commands else [self.otherwise, *args])


@click.group(
    cls=ListByDefaultGroup,
    epilog="""\b
Examples:
  webmill dataset tasks news                    # short for: tasks list news
  webmill dataset tasks news --state failed
  webmill dataset tasks redrive news            # all failed ones""",
)
def tasks() -> None:
    """List the tasks of a dataset, or retry failed ones."""


@tasks.command(
    "list",
    short_help="List every task with its state, progress and counts.",
    epilog="""\b
Examples:
  webmill dataset tasks news --state failed
  webmill dataset tasks news --json | jq 'select(.totals.errors > 0) | .files'""",
)
@click.argument("name")
@datasets_folder_option
@click.option(
    "--state",
    type=click.Choice(["planned", "running", "paused", "done", "failed"]),
    help="List only tasks in this state.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line, with all details.")
def list_(*, name: str, root: Path, state: str | None, as_json: bool) -> None:
    """List every task of dataset NAME with its state, progress and counts, also during a run."""
    folder = open_dataset(dataset_path(name, root))
    for view in dataset_views.task_views(folder):
        if state in (None, view.state):
            click.echo(msgspec.json.encode(view) if as_json else describe_task(view))


@tasks.command(
    short_help="Retry failed tasks in the next run.",
    epilog="""\b
Examples:
  webmill dataset tasks redrive news
  webmill dataset tasks redrive news 000017-3f9a0c1d2e4b""",
)
@click.argument("name")
@click.argument("ids", nargs=-1, metavar="[TASK]...")
@datasets_folder_option
def redrive(*, name: str, ids: tuple[str, ...], root: Path) -> None:
    """Retry failed tasks of dataset NAME, all or the given ones, in the next run.

    They resume from where they failed.
    """
    count = dataset_views.redrive(open_dataset(dataset_path(name, root)), ids)
    note(f"{format_count(count, 'task')} will be retried by the next run")


@tasks.command(
    short_help="Show what a task has written so far.",
    epilog="""\b
Example:
  webmill dataset tasks log news 000017-3f9a0c1d2e4b""",
)
@click.argument("name")
@click.argument("task")
@datasets_folder_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line, with all details.")
def log(*, name: str, task: str, root: Path, as_json: bool) -> None:
    """Show the parts that TASK of dataset NAME has written so far: counts, time, files, and where it resumes."""
    folder = open_dataset(dataset_path(name, root))
    dataset_views.check_tasks(folder, [task])
    named = next(one for one in folder.tasks() if one.id == task)
    for receipt in dataset_views.read_receipts(folder, named):
        if as_json:
            click.echo(msgspec.json.encode(receipt))
            continue
        files = ", ".join(part.name for part in (receipt.output, receipt.errors) if part)
        at = ", ".join(f"{kind} {offset:,}" for kind, offset in receipt.resume.items())
        captures = format_count(receipt.captures, "capture")
        click.echo(f"part {receipt.number}: {captures} in {receipt.seconds:g} s -> {files} (resumes at {at})")


def describe_task(view: dataset_views.TaskView) -> str:
    totals = view.totals
    counts = format_count(totals.documents, "document") + f", {format_count(totals.errors, 'error')}" * bool(
        totals.errors
    )
    when = f" {datetime.fromtimestamp(view.changed, UTC):%Y-%m-%dT%H:%M:%SZ}" if view.changed else ""
    reason = f"  {view.reason.splitlines()[0]}" if view.reason and view.state != "done" else ""
    return f"{view.id} {view.state:7} {view.progress:4.0%} {counts}{when}  {next(iter(view.files.values()))}{reason}"
