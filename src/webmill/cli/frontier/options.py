"""The options that name a crawl: its folder, and where its frontier is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from webmill.pipeline.crawl_frontier import open_crawl

__all__ = ["crawl_argument", "frontier_option", "name_option", "open_crawl"]

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
