"""`letsdata`: the commands of letsdata's own CLI, over datasets of ours.

    letsdata datasets create --configFile dataset.json --prettyPrint
    letsdata datasets view --datasetName NAME --prettyPrint
    letsdata tasks list --datasetName NAME --prettyPrint

All print JSON. As in letsdata's service, a dataset that was created is run: in the background, on this machine.
"""

from __future__ import annotations

import click

from webmill.cli.lazy import LazyGroup

DATASETS = {
    "create": ("webmill.cli.dropin.letsdata.datasets:create", "Create a dataset and run it in the background."),
    "view": ("webmill.cli.dropin.letsdata.datasets:view", "Show a dataset and its progress."),
    "list": ("webmill.cli.dropin.letsdata.datasets:list_", "List the datasets."),
    "delete": ("webmill.cli.dropin.letsdata.datasets:delete", "Delete a dataset."),
}
TASKS = {
    "list": ("webmill.cli.dropin.letsdata.tasks:list_", "List the tasks of a dataset."),
    "redrive": ("webmill.cli.dropin.letsdata.tasks:redrive", "Retry failed tasks."),
    "stop": ("webmill.cli.dropin.letsdata.tasks:stop", "Stop a run; redrive continues it."),
}
ERRORS = {"list": ("webmill.cli.dropin.letsdata.tasks:errors", "List what could not be read, and why.")}


@click.group(
    epilog="""\b
Examples:
  letsdata datasets create --configFile dataset.json --prettyPrint
  letsdata datasets view --datasetName NAME --prettyPrint
  letsdata tasks list --datasetName NAME --prettyPrint"""
)
def letsdata() -> None:
    """The commands of letsdata, for existing scripts: same as webmill dataset."""


@letsdata.group(cls=LazyGroup, commands_at=DATASETS)
def datasets() -> None:
    """Create, view, list and delete datasets."""


@letsdata.group(cls=LazyGroup, commands_at=TASKS)
def tasks() -> None:
    """List, retry and stop tasks."""


@letsdata.group(cls=LazyGroup, commands_at=ERRORS)
def errors() -> None:
    """List errors."""
