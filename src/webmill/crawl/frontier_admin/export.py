"""Export of the URLs of a frontier: of nodes with a folder each, those whose files are in this one. While a crawl runs
they are read from a copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from webmill.crawl.frontier.base import Frontier, LastVisit
from webmill.crawl.frontier_admin.crawl_frontier import CrawlFrontier
from webmill.crawl.frontier_admin.frontier_copy import copy_frontier
from webmill.crawl.frontier_admin.shard_copies import shard_copy
from webmill.errors import Conflict
from webmill.model import Link

Row = TypeVar("Row")


def waiting_urls(crawl: CrawlFrontier) -> Iterator[Link]:
    """Yield the URLs that wait or are in hand."""
    return _read_shards(crawl, lambda frontier: frontier.waiting())


def waiting_row(link: Link) -> dict[str, str | int]:
    """Return a waiting URL as it is exported: the first four keys always, the others where they are not 0."""
    row: dict[str, str | int] = {
        "url": link.url, "depth": link.depth, "priority": link.priority, "hops": link.redirects,
    }  # fmt: skip
    rare = {
        "sitemap_depth": link.sitemap_depth,
        "resource_steps": link.resource_steps,
        "resource_share": link.resource_share,
    }
    return row | {name: number for name, number in rare.items() if number}


def visited_urls(crawl: CrawlFrontier) -> Iterator[LastVisit]:
    """Yield the visits, in the order of time within each shard."""
    return _read_shards(crawl, lambda frontier: frontier.visits())


def _read_shards(crawl: CrawlFrontier, read: Callable[[Frontier], Iterator[Row]]) -> Iterator[Row]:
    shards = range(crawl.shards())
    with crawl.try_exclusively(doing="exporting its URLs") as is_alone:
        if is_alone:
            for shard in crawl.shards_here():
                with crawl.frontier(shard) as frontier:
                    yield from read(frontier)
            return
    if crawl.backend.is_shared:
        name = crawl.paths.collection.name
        raise Conflict(f"nodes are crawling {name}: stop them all, or export from a restored backup")
    with copy_frontier(crawl) as (folder, _):
        for shard in shards:
            opened = folder / f"open-{shard:02d}"
            crawl.backend.restore_shard(shard_copy(folder, shard), opened)
            frontier = crawl.backends.open_frontier(opened)
            try:
                yield from read(frontier)
            finally:
                frontier.close()
