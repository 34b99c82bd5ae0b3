"""`webmill dataset run`, `stop`."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from pathlib import Path

import click
import msgspec

from webmill.cli.context import Context, finish, note, pass_context
from webmill.cli.dataset.folders import dataset_path, datasets_folder_option
from webmill.cli.extract_report import print_extract_report, suggest_extractor, warn_if_unreadable
from webmill.cli.options import processes_option
from webmill.errors import Unavailable
from webmill.infra import waiting
from webmill.infra.executor.backends import open_executor
from webmill.pipeline.dataset.config import ComputeSection
from webmill.pipeline.dataset.folder import DatasetFolder, open_dataset
from webmill.pipeline.dataset.run import run_dataset
from webmill.settings import ExecutorSettings


@click.command(
    epilog="""\b
Examples:
  webmill dataset run news
  webmill dataset run news --processes 4
  webmill dataset run news --executor ray://HOST:10001
  webmill -q dataset run news | jq .url        # with write.to = "stdout"

Exit code 3: done, but some tasks or pages failed; see `webmill dataset tasks` and `webmill dataset errors`."""
)
@click.argument("name")
@datasets_folder_option
@click.option(
    "--executor",
    help="Where tasks run: pool, inline, ray:local, ray:auto or ray://HOST:PORT  [default: from the dataset]",
)
@processes_option("Number of tasks to run in parallel  [default: one per core]")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the report as JSON on stdout (on stderr if stdout gets the documents).",
)
@pass_context
def run(context: Context, /, *, name: str, root: Path, executor: str | None, jobs: int | None, as_json: bool) -> None:
    """Run the tasks of dataset NAME that are not done.

    If a run is interrupted, the next one continues: finished tasks are not repeated, others resume where they were.
    Failed tasks stay failed until `webmill dataset tasks redrive`.
    """
    folder = open_dataset(dataset_path(name, root))
    settings = context.settings()
    chosen = choose_executor(settings.executor, folder.dataset.compute, executor=executor, jobs=jobs)
    suggest_extractor(folder.making.recipe.extractor)
    with closing(open_executor(chosen.url, workers=chosen.jobs)) as workers:
        report = run_dataset(
            folder,
            workers,
            http=settings.http,
            progress=context.progress,
            emit=write_stdout,
            killable=chosen.url != "inline",
        )
    if as_json:
        click.echo(msgspec.json.encode(report), err=folder.dataset.write.to == "stdout")
    else:
        print_extract_report(report)
    warn_if_unreadable(report.outcomes, captures=report.captures)
    where = f"`webmill dataset tasks {name}` and `webmill dataset errors {name}` say why"
    finish(rejected=report.rejected, where=where)


def choose_executor(
    settings: ExecutorSettings, compute: ComputeSection, *, executor: str | None, jobs: int | None
) -> ExecutorSettings:
    """Return the executor of the flag, else of the dataset, else of the settings."""
    return ExecutorSettings(
        url=executor or compute.executor or settings.url, jobs=jobs or compute.jobs or settings.jobs
    )


def write_stdout(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()  # the task counts as done after this


@click.command(
    epilog="""\b
Example:
  webmill dataset stop news"""
)
@click.argument("name")
@datasets_folder_option
@click.option(
    "--wait", default=60.0, show_default=True, metavar="SECONDS", help="How long to wait until it has stopped."
)
def stop(*, name: str, root: Path, wait: float) -> None:
    """Stop the run of dataset NAME; the next run continues it.

    The run must be on this machine, or the dataset on a shared disk that supports file locks.
    """
    stop_run(open_dataset(dataset_path(name, root)), wait=wait)


def stop_run(folder: DatasetFolder, *, wait: float) -> None:
    if not folder.is_running():
        note("the dataset is not running")
        return
    folder.stop_file.touch()
    deadline = time.monotonic() + wait
    while folder.is_running():
        if time.monotonic() > deadline:
            raise Unavailable(f"the run did not stop within {wait:g} s: wait longer, or kill it")
        waiting.sleep(0.1)
    note("stopped")
