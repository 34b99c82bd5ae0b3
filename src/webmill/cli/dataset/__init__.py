"""`webmill dataset`: documents from WARC, WAT and WET files, as tracked tasks."""

from __future__ import annotations

import click

from webmill.cli.lazy import LazyGroup

COMMANDS = {
    "create": ("webmill.cli.dataset.create:create", "Make a dataset from its description."),
    "manifest": ("webmill.cli.dataset.manifest:manifest", "Write the manifest of a crawl of Common Crawl."),
    "run": ("webmill.cli.dataset.run:run", "Do its tasks; after a stop or a kill, go on."),
    "stop": ("webmill.cli.dataset.run:stop", "Stop a run; nothing is lost."),
    "view": ("webmill.cli.dataset.look:view", "What a dataset is, and how far it got."),
    "list": ("webmill.cli.dataset.look:list_", "The datasets of a folder."),
    "tasks": ("webmill.cli.dataset.tasks:tasks", "Its tasks: state, progress, reasons; redrive failed ones."),
    "errors": ("webmill.cli.dataset.look:errors", "What could not be read or made, and why."),
    "delete": ("webmill.cli.dataset.create:delete", "Remove a dataset."),
}


@click.group(
    cls=LazyGroup,
    commands_at=COMMANDS,
    epilog="""\b
Example: documents of ten files of Common Crawl
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
    """Documents from WARC, WAT and WET files, as tracked tasks.

    A dataset is a folder; every line of its manifest is a task. Killed at any moment and run again, it goes on where
    it was, and every document is in the output once.
    """
