"""`webmill dataset`: documents from WARC, WAT and WET files, as tracked tasks."""

from __future__ import annotations

import click

from webmill.cli.lazy import LazyGroup

COMMANDS = {
    "create": ("webmill.cli.dataset.create:create", "Create a dataset from its description."),
    "manifest": ("webmill.cli.dataset.manifest:manifest", "Write the manifest of a crawl."),
    "run": ("webmill.cli.dataset.run:run", "Run the tasks of a dataset, or continue them."),
    "stop": ("webmill.cli.dataset.run:stop", "Stop a run; the next run continues it."),
    "view": ("webmill.cli.dataset.inspection:view", "Show a dataset and its progress."),
    "list": ("webmill.cli.dataset.inspection:list_", "List the datasets of a folder."),
    "tasks": ("webmill.cli.dataset.tasks:tasks", "List tasks with their state, or retry failed ones."),
    "errors": ("webmill.cli.dataset.inspection:errors", "List what could not be read or extracted, and why."),
    "delete": ("webmill.cli.dataset.create:delete", "Delete a dataset."),
}


@click.group(
    cls=LazyGroup,
    commands_at=COMMANDS,
    epilog="""\b
Example: the documents of ten files of Common Crawl
  webmill dataset manifest --crawl CC-MAIN-2024-30 --limit 10 > manifest.txt
  cat > news.toml <<END
  name = "news"
  manifest = "manifest.txt"
  read.from = "https://data.commoncrawl.org/"
  write.format = "parquet"
  END
  webmill dataset create news.toml
  webmill dataset run news""",
)
def dataset() -> None:
    """Extract documents from WARC, WAT and WET files, as tracked tasks.

    A dataset is a folder; every line of its manifest is a task. If a run is interrupted, the next run continues it;
    every document is in the output exactly once.
    """
