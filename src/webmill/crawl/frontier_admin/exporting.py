"""The URLs of a frontier, one after the other. While a crawl runs they are read from a copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from webmill.crawl.frontier.base import Frontier, LastVisit
from webmill.crawl.frontier_admin.copying import copied, part
from webmill.crawl.frontier_admin.place import Place
from webmill.errors import Conflict
from webmill.model import Link

Row = TypeVar("Row")


def waiting(place: Place) -> Iterator[Link]:
    """Those in hand included."""
    return _each(place, lambda frontier: frontier.waiting())


def as_row(link: Link) -> dict[str, str | int]:
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


def visited(place: Place) -> Iterator[LastVisit]:
    """In the order of time within each shard."""
    return _each(place, lambda frontier: frontier.visits())


def _each(place: Place, read: Callable[[Frontier], Iterator[Row]]) -> Iterator[Row]:
    shards = range(place.shards())
    with place.alone_if_possible(doing="exporting its URLs") as is_alone:
        if is_alone:
            for shard in shards:
                with place.frontier(shard) as frontier:
                    yield from read(frontier)
            return
    if place.tools.is_shared:
        name = place.options.folder.collection.name
        raise Conflict(f"nodes are crawling {name}: stop them all, or export from a restored backup")
    with copied(place) as folder:
        for shard in shards:
            opened = folder / f"open-{shard:02d}"
            place.tools.restore(part(folder, shard), opened)
            frontier = place.options.backends.open_frontier(opened)
            try:
                yield from read(frontier)
            finally:
                frontier.close()
