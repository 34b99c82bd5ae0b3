"""Open the frontier of a collection's crawl, as far as the user trusts the collection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from webmill.collection import default_crawl_name
from webmill.crawl.backends import crawl_backends
from webmill.crawl.frontier_admin.backend import frontier_backend
from webmill.crawl.frontier_admin.crawl_frontier import CrawlFrontier, crawl_frontier
from webmill.crawl.stored_settings import FILE, parse_stored, read_json, read_stored
from webmill.pipeline.trust import is_trusted, refuse_outside_links
from webmill.settings import Sources, refuse_untrusted


@contextmanager
def open_crawl(collection: Path, frontier: str | None = None, *, name: str | None = None) -> Iterator[CrawlFrontier]:
    """Open the crawl in a folder; `frontier` is its Redis, when not the one that the crawl has stored."""
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
