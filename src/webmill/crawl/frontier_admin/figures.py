"""How the frontier of a crawl stands, shard by shard, whether somebody crawls with it or not."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from webmill.crawl.frontier.base import FrontierStats
from webmill.crawl.frontier_admin.place import Place
from webmill.crawl.frontier_admin.tools import Look
from webmill.errors import NotFound
from webmill.infra.tree import files_below

NOTHING = FrontierStats(**dict.fromkeys(FrontierStats.__struct_fields__, 0))


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    shard: int | None  # None: all of them
    stats: FrontierStats
    known: int  # URLs: waiting, in hand and visited
    excluded: int  # domains
    bytes: int  # on the disk
    oldest: float  # seconds since the domain that waits longest may be asked


def figures(place: Place, *, now: float) -> Iterator[Figures]:
    for shard in range(place.shards()):
        folder = place.options.folder.shard(shard)
        try:
            seen = place.tools.look(folder)
        except NotFound:  # the crawl has not begun
            seen = Look(NOTHING, 0, None)
        yield Figures(
            shard=shard,
            stats=seen.stats,
            known=seen.stats.waiting + seen.stats.in_hand + seen.stats.visited,
            excluded=seen.excluded,
            bytes=size_of(folder),
            oldest=max(0.0, now - seen.due) if seen.due is not None and seen.stats.waiting else 0.0,
        )


def total(each: Sequence[Figures]) -> Figures:
    names = FrontierStats.__struct_fields__
    return Figures(
        shard=None,
        stats=FrontierStats(**{name: sum(getattr(one.stats, name) for one in each) for name in names}),
        known=sum(one.known for one in each),
        excluded=sum(one.excluded for one in each),
        bytes=sum(one.bytes for one in each),
        oldest=max((one.oldest for one in each), default=0.0),
    )


def size_of(folder: Path) -> int:
    """In blocks of the disk: a file may have holes. What goes away meanwhile is not counted."""
    return sum(map(_blocks, files_below(folder)))


def _blocks(entry: os.DirEntry[str]) -> int:
    try:
        return 512 * entry.stat(follow_symlinks=False).st_blocks
    except FileNotFoundError:
        return 0
