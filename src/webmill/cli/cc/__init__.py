"""`webmill cc`: fetches pages of Common Crawl, or of another webmill server."""

from __future__ import annotations

import click

from webmill.cli.lazy import LazyGroup

COMMANDS = {
    "crawls": ("webmill.cli.cc.crawls:crawls", "List the available crawls."),
    "paths": ("webmill.cli.cc.paths:paths", "List the files of a crawl."),
    "batch": ("webmill.cli.cc.batch:batch", "Select captures from a crawl's index and queue them in batches."),
    "work": ("webmill.cli.cc.work:work", "Fetch queued captures and extract documents."),
    "seal": ("webmill.cli.cc.work:seal", "Write what workers have done so far to files."),
    "run": ("webmill.cli.cc.run:run", "Select, fetch and extract in one command."),
    "dead": ("webmill.cli.dead:dead", ""),  # its old name
}


@click.group(
    cls=LazyGroup,
    commands_at=COMMANDS,
    epilog="""\b
Example: queue the English pages of a domain for workers
  webmill cc crawls
  webmill cc batch --crawl latest --domain example.com \\
    --language eng --status 200 --queue sqlite:work.sqlite""",
)
def cc() -> None:
    """Fetch pages of Common Crawl, or of any served webmill collection, and extract documents.

    `batch` selects captures from a crawl's index and queues them; `work` fetches them. Both can be interrupted at any
    time: run them again to continue.
    """
