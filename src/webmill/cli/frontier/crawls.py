"""The crawl that a command names: the folder, and where its frontier is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from webmill.cli.index import crawl_name
from webmill.flows.frontier.place import Place, place_of
from webmill.wiring import crawl_backends, frontier_tools

crawl_argument: Callable[[Callable[..., None]], Callable[..., None]] = click.argument(
    "collection", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR"
)


def crawl_in(collection: Path) -> Place:
    root = collection.resolve()
    return place_of(root, crawl_backends(), frontier_tools(), name=crawl_name(root))
