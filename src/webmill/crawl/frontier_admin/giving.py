"""What a person gives to a frontier: URLs, domains to leave alone, an order to tidy up.

Into the shards' letter boxes while a crawl runs, and always where nodes share it; else at once, and then it is known
what was new.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import msgspec

from webmill.crawl.frontier.base import CommitResult, Frontier, FrontierUpdate
from webmill.crawl.frontier_admin.place import Place, clock_of
from webmill.crawl.scheduler.commands import (
    CompactFrontier,
    ExcludeDomains,
    IncludeDomains,
    ShardCommand,
    apply_command,
)
from webmill.crawl.scheduler.inbox import publish_command, publish_links, shard_of
from webmill.model import Link

AT_ONCE = 5000


class Given(msgspec.Struct, kw_only=True):
    """`sent` to a crawl that runs, which will find out which are new; the other counts are of one that does not."""

    sent: int = 0
    added: int = 0
    known: int = 0
    excluded: int = 0


def add(place: Place, links: Iterable[Link]) -> Given:
    shards = place.shards()
    with place.alone_if_possible(doing="adding URLs") as is_alone:
        if is_alone and not place.tools.is_shared:
            with place.frontiers() as frontiers, place.gates() as gates:
                clock = clock_of(gates, frontiers)
                return _committed(links, frontiers, clock)
    given = Given()
    for batch in _batches(links):
        for shard, own in _by_shard(batch, shards).items():
            with place.box(shard) as box:
                publish_links(box, own)
            given.sent += len(own)
    return given


def _committed(links: Iterable[Link], frontiers: list[Frontier], clock: Callable[[], float]) -> Given:
    given = Given()
    for batch in _batches(links):
        for shard, own in _by_shard(batch, len(frontiers)).items():
            done: CommitResult = frontiers[shard].commit(FrontierUpdate(links=own), now=clock())
            given.added += done.added
            given.known += done.known
            given.excluded += done.excluded
    return given


def exclude(place: Place, domains: Iterable[str]) -> bool:
    """Whether it is done already; else the crawl that runs does it with its next step."""
    return _order(
        place, {shard: ExcludeDomains(tuple(own)) for shard, own in _domains_by_shard(place, domains).items()}
    )


def include(place: Place, domains: Iterable[str]) -> bool:
    return _order(
        place, {shard: IncludeDomains(tuple(own)) for shard, own in _domains_by_shard(place, domains).items()}
    )


def compact(place: Place) -> bool:
    return _order(place, dict.fromkeys(range(place.shards()), CompactFrontier()))


def _order(place: Place, orders: dict[int, ShardCommand]) -> bool:
    with place.alone_if_possible(doing="changing its frontier") as is_alone:
        is_alone = is_alone and not place.tools.is_shared
        for shard, order in orders.items():
            if is_alone:
                with place.frontier(shard) as frontier:
                    apply_command(order, frontier)
            else:
                with place.box(shard) as box:
                    publish_command(box, order)
        return is_alone


def _domains_by_shard(place: Place, domains: Iterable[str]) -> dict[int, list[str]]:
    shards = place.shards()
    found: defaultdict[int, list[str]] = defaultdict(list)
    for domain in domains:
        found[shard_of(f"http://{domain}/", shards)].append(domain)
    return found


def _by_shard(links: Iterable[Link], shards: int) -> dict[int, list[Link]]:
    found: defaultdict[int, list[Link]] = defaultdict(list)
    for link in links:
        found[shard_of(link.url, shards)].append(link)
    return found


def _batches(links: Iterable[Link]) -> Iterator[list[Link]]:
    stream = iter(links)
    while batch := list(islice(stream, AT_ONCE)):
        yield batch
