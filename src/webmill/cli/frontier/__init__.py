"""`webmill frontier`: what a crawl will fetch, looked at and cared for from outside."""

from __future__ import annotations

import click

from webmill.cli.lazy import LazyGroup

COMMANDS = {
    "stats": ("webmill.cli.frontier.stats:stats", "What waits, what was visited, and how much room it takes."),
    "add": ("webmill.cli.frontier.add:add", "Give a crawl more URLs, while it runs or not."),
    "exclude": ("webmill.cli.frontier.domains:exclude", "Leave domains alone from now on."),
    "include": ("webmill.cli.frontier.domains:include", "Let excluded domains be asked again."),
    "compact": ("webmill.cli.frontier.compact:compact", "Free the room of what was consumed."),
    "backup": ("webmill.cli.frontier.backup:backup", "Copy the frontier to a folder or S3, while it runs or not."),
    "restore": ("webmill.cli.frontier.backup:restore", "Make a crawl of a backup, to go on with it."),
    "export": ("webmill.cli.frontier.export:export", "Write the URLs that wait, or were visited, to a file."),
    "import-postgres": ("webmill.cli.frontier.imports:import_postgres", "Take over a frontier kept in PostgreSQL."),
}


@click.group(
    cls=LazyGroup,
    commands_at=COMMANDS,
    epilog="""\b
Examples:
  webmill frontier stats news/
  webmill frontier add news/ https://example.com/new --priority 0
  webmill frontier exclude news/ example.net
  webmill frontier backup news/ s3://bucket/news-backup""",
)
def frontier() -> None:
    """What a crawl will fetch: look at it, change it, copy it.

    DIR is the collection that `webmill crawl` writes to. All but import-postgres and restore work while the crawl runs.
    """
