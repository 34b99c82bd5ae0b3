"""Patterns of URLs that are parked, since they gave nothing new: which they are, and to release them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from webmill.crawl.frontier_admin.crawl_frontier import CrawlFrontier
from webmill.crawl.scheduler.commands import ReleasePattern, retry_urls
from webmill.crawl.scheduler.inbox import publish_command
from webmill.crawl.yields.domain_yield import YieldBudget
from webmill.crawl.yields.yield_store import FILE_NAME, YieldStore, parked_patterns


class ParkedPattern(msgspec.Struct, frozen=True):
    pattern: str
    urls: int  # that were parked
    fetched: int
    new: int  # of those fetched that had something new


def read_parked(crawl: CrawlFrontier) -> Iterator[ParkedPattern]:
    """Yield the parked patterns of the shards whose files are here, also while a crawl runs."""
    for shard in range(crawl.shards()):
        file = crawl.paths.shard(shard) / FILE_NAME
        if file.exists():
            for pattern, found in parked_patterns(file):
                yield ParkedPattern(pattern, found.parked, found.fetched, found.new)


def release_pattern(crawl: CrawlFrontier, pattern: str) -> int | None:
    """Never park a pattern again, and ask for its URLs; return how many there are. None: the running crawl does it."""
    command = ReleasePattern(pattern)
    with crawl.try_exclusively(doing="changing its frontier") as is_alone:
        if not is_alone or crawl.backend.is_shared:
            for shard in range(crawl.shards()):
                with crawl.inbox(shard) as inbox:
                    publish_command(inbox, command)
            return None
        count = 0
        for shard in range(crawl.shards()):
            with crawl.frontier(shard) as frontier:
                yields = YieldStore(crawl.paths.shard(shard) / FILE_NAME, YieldBudget())
                try:
                    yields.release(pattern)
                finally:
                    yields.close()
                count += retry_urls(command, frontier)
        return count
