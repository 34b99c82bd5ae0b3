"""The options that name a crawl: its folder, and where its frontier is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from webmill.collection import default_crawl_name
from webmill.crawl.backends import crawl_backends
from webmill.crawl.frontier_admin.backend import frontier_backend
from webmill.crawl.frontier_admin.crawl_frontier import CrawlFrontier, crawl_frontier
from webmill.crawl.stored_settings import FILE, parse_stored, read_json, read_stored
from webmill.pipeline.trust import is_trusted, refuse_outside_links
from webmill.settings import Sources, refuse_untrusted

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
def open_crawl(collection: Path, frontier: str | None, *, name: str | None = None) -> Iterator[CrawlFrontier]:
    root = collection.resolve()
    refuse_outside_links(root)
    flags = read_stored(root / "frontier")
    redis = frontier or stored_redis(root)
    called = (
        name or flags.get("name") or read_json(root / "frontier" / "crawl.json").get("name") or default_crawl_name(root)
    )
    backend = frontier_backend(redis, name=called)
    try:
        yield crawl_frontier(root, crawl_backends(redis, name=called), backend, name=called)
    finally:
        backend.close()


def stored_redis(root: Path) -> str | None:
    """Return the Redis that the crawl in `root` uses, if any. Misconfigured: the user does not trust the collection."""
    folder = root / "frontier"
    stored = parse_stored(read_stored(folder), source=folder / FILE)
    found = {name: value for name, value in stored.items() if name == ("crawl", "frontier")}
    if not is_trusted(root):
        refuse_untrusted(found, Sources(), folder=root, where=lambda _: str(folder / FILE))
    return found.get(("crawl", "frontier")) or None
