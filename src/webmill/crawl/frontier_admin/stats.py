"""Counts of a crawl's frontier, shard by shard, whether the crawl runs or not."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from webmill.crawl.frontier.base import FrontierStats
from webmill.crawl.frontier_admin.backend import ShardOverview
from webmill.crawl.frontier_admin.crawl_frontier import CrawlFrontier
from webmill.errors import NotFound
from webmill.infra.tree import files_below

NO_STATS = FrontierStats(**dict.fromkeys(FrontierStats.__struct_fields__, 0))


class ShardStats(msgspec.Struct, frozen=True, kw_only=True):
    shard: int | None  # None: all of them
    stats: FrontierStats
    known: int  # URLs: waiting, in hand and visited
    excluded: int  # domains
    bytes: int  # on the disk
    oldest: float  # seconds since the domain that waits longest may be asked


def read_stats(crawl: CrawlFrontier, *, now: float) -> Iterator[ShardStats]:
    for shard in range(crawl.shards()):
        folder = crawl.paths.shard(shard)
        try:
            overview = crawl.backend.read_overview(folder)
        except NotFound:  # the crawl has not begun
            overview = ShardOverview(NO_STATS, 0, None)
        yield ShardStats(
            shard=shard,
            stats=overview.stats,
            known=overview.stats.waiting + overview.stats.in_hand + overview.stats.visited,
            excluded=overview.excluded,
            bytes=disk_usage(folder),
            oldest=max(0.0, now - overview.due) if overview.due is not None and overview.stats.waiting else 0.0,
        )


def sum_stats(each: Sequence[ShardStats]) -> ShardStats:
    names = FrontierStats.__struct_fields__
    return ShardStats(
        shard=None,
        stats=FrontierStats(**{name: sum(getattr(one.stats, name) for one in each) for name in names}),
        known=sum(one.known for one in each),
        excluded=sum(one.excluded for one in each),
        bytes=sum(one.bytes for one in each),
        oldest=max((one.oldest for one in each), default=0.0),
    )


def disk_usage(folder: Path) -> int:
    """Return the bytes of a folder in blocks of the disk: a file may have holes. Files that vanish do not count."""
    return sum(map(_blocks, files_below(folder)))


def _blocks(entry: os.DirEntry[str]) -> int:
    try:
        return 512 * entry.stat(follow_symlinks=False).st_blocks
    except FileNotFoundError:
        return 0
