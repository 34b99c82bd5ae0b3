"""The options that name a crawl: its folder, and where its frontier is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from webmill.crawl.control import person_at_terminal
from webmill.crawl.frontier_admin.control import CrawlSteering
from webmill.pipeline.crawl_frontier import open_crawl

__all__ = ["crawl_argument", "frontier_option", "name_option", "open_crawl", "steer_crawl"]

Decorator = Callable[[Callable[..., None]], Callable[..., None]]

crawl_argument: Decorator = click.argument(
    "collection", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR"
)
frontier_option: Decorator = click.option(
    "--frontier",
    metavar="redis://…",
    help="Redis of a crawl on many machines  [default: the one that the crawl in DIR uses]",
)
name_option: Decorator = click.option(
    "--name", help="Name of the crawl  [default: its present name, else the name of DIR]"
)


@contextmanager
def steer_crawl(collection: Path, frontier: str | None) -> Iterator[CrawlSteering]:
    """Open the crawl in a folder for the person at this terminal, whose actions are logged."""
    with open_crawl(collection, frontier) as crawl:
        yield CrawlSteering(crawl, person_at_terminal())
