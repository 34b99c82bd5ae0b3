"""`webmill frontier compact`: free the room of what was consumed."""

from __future__ import annotations

from pathlib import Path

import click

from webmill.cli.context import note
from webmill.cli.frontier.crawls import crawl_argument, crawl_in
from webmill.flows.frontier import giving


@click.command(epilog="Example: webmill frontier compact news/")
@crawl_argument
def compact(*, collection: Path) -> None:
    """Free the room of URLs that were taken out of their files, while the crawl runs or not."""
    if giving.compact(crawl_in(collection)):
        note("done")
    else:
        note("the crawl that runs will do it with its next step")
