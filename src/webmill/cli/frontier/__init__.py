"""`webmill frontier`: inspects and changes the frontier of a crawl."""

from __future__ import annotations

import click

from webmill.cli.lazy import LazyGroup

COMMANDS = {
    "stats": ("webmill.cli.frontier.stats:stats", "Show how many URLs wait and were visited, and the disk space."),
    "add": ("webmill.cli.frontier.add:add", "Add URLs to a crawl."),
    "exclude": ("webmill.cli.frontier.domains:exclude", "Stop crawling some domains."),
    "include": ("webmill.cli.frontier.domains:include", "Crawl excluded domains again."),
    "retry": ("webmill.cli.frontier.retry:retry", "Fetch URLs again that failed."),
    "parked": ("webmill.cli.frontier.parked:parked", "List the patterns of URLs that gave nothing new."),
    "release": ("webmill.cli.frontier.parked:release", "Fetch the URLs of a parked pattern after all."),
    "why": ("webmill.cli.frontier.why:why", "Show what is known of a URL, and when it is due."),
    "compact": ("webmill.cli.frontier.compact:compact", "Free disk space that the frontier no longer needs."),
    "reshard": ("webmill.cli.frontier.reshard:reshard", "Divide a crawl into another number of shards."),
    "backup": ("webmill.cli.frontier.backup:backup", "Back up the frontier to a folder or S3."),
    "restore": ("webmill.cli.frontier.backup:restore", "Restore a crawl from a backup."),
    "pause": ("webmill.cli.frontier.pause:pause", "Pause a running crawl."),
    "resume": ("webmill.cli.frontier.pause:resume", "Let a running crawl go on that was paused."),
    "export": ("webmill.cli.frontier.export:export", "Write the waiting or visited URLs to a file."),
    "import-redis": (
        "webmill.cli.frontier.imports:import_redis",
        "Import a frontier from another crawler's Redis and files.",
    ),
    "import-postgres": ("webmill.cli.frontier.imports:import_postgres", "Import a frontier from PostgreSQL."),
}


@click.group(
    cls=LazyGroup,
    commands_at=COMMANDS,
    epilog="""\b
Examples:
  webmill frontier stats news/
  webmill frontier add news/ https://example.com/new --priority 0
  webmill frontier exclude news/ example.net
  webmill frontier retry news/ --error connect_refused
  webmill frontier why news/ https://example.com/page
  webmill frontier backup news/ s3://bucket/news-backup""",
)
def frontier() -> None:
    """Inspect and change the frontier: the URLs that a crawl will fetch or has visited.

    DIR is the collection that `webmill crawl` writes to. All commands except reshard, restore and the imports work
    while the crawl runs.
    """
