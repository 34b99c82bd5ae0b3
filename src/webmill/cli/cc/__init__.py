"""`webmill cc`: pages of Common Crawl, or of any webmill that is served."""

from __future__ import annotations

import click

from webmill.cli.lazy import LazyGroup

COMMANDS = {
    "crawls": ("webmill.cli.cc.crawls:crawls", "List the crawls there are."),
    "paths": ("webmill.cli.cc.paths:paths", "List the files of a crawl."),
    "batch": ("webmill.cli.cc.batch:batch", "Choose captures of a crawl's index, queue them in batches."),
    "work": ("webmill.cli.cc.work:work", "Fetch queued captures, extract their text, keep it."),
    "seal": ("webmill.cli.cc.work:seal", "Make files of what workers have done so far."),
    "run": ("webmill.cli.cc.run:run", "Batcher and workers in one command."),
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
    """Pages of Common Crawl, or of any webmill collection that is served.

    `batch` reads a crawl's index and queues what is asked for; workers fetch it. Both may be killed at any moment
    and run again.
    """
