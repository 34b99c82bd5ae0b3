"""`webmill frontier compact`: free the room of what was consumed."""

from __future__ import annotations

from pathlib import Path

import click

from webmill.cli.context import note
from webmill.cli.frontier.crawls import crawl_argument, crawl_in, frontier_option
from webmill.flows.frontier import giving


@click.command(epilog="Example: webmill frontier compact news/")
@crawl_argument
@frontier_option
def compact(*, collection: Path, frontier: str | None) -> None:
    """Free the room of URLs that were taken out of their files, while the crawl runs or not."""
    with crawl_in(collection, frontier) as place:
        is_done = giving.compact(place)
    note("done" if is_done else "the crawl does it with its next step")
