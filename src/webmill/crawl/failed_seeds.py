"""Why a crawl has no page: each of its seeds, with what the frontier knows of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby, islice
from pathlib import Path

import msgspec

from webmill.crawl.frontier.base import LastVisit
from webmill.crawl.layout import read_seeds
from webmill.crawl.progress import CrawlProgress, count_others
from webmill.crawl.scheduler.inbox import shard_of

MOST_FAILED = 20  # seeds whose reasons are told
NO_ANSWER = "no_answer: not tried yet, or to be tried again later"

FindVisits = Callable[[int, Iterable[str]], list[LastVisit | None]]  # of URLs of a shard


class FailedSeed(msgspec.Struct, frozen=True):
    """A seed that gave no page, and why."""

    url: str
    reason: str  # `dns_not_found: …`, `robots`, `http_404`


def find_failed_seeds(total: CrawlProgress, seeds: Path, *, shards: int, find_visits: FindVisits) -> list[FailedSeed]:
    """Return why each seed gave none in a run without a page. Nothing if it had no time to ask for any, or if the crawl
    has pages and one of its seeds had an answer when it was last asked.
    """
    failed: list[FailedSeed] = []
    has_pages = total.pages > count_others(total)
    first = sorted(islice(read_seeds(seeds), MOST_FAILED), key=lambda url: shard_of(url, shards))
    for shard, group in groupby(first, key=lambda url: shard_of(url, shards)):
        urls = list(group)
        visits = find_visits(shard, urls)
        if has_pages and any(map(has_answered, visits)):
            return []
        failed += map(explain, urls, visits)
    had_no_time = not total.errors and all(seed.reason == NO_ANSWER for seed in failed)
    return [] if had_no_time else failed


def has_answered(visit: LastVisit | None) -> bool:
    """Tell whether the last visit of a seed gave a page, be it one that broke off."""
    is_failed = visit is None or visit.status >= 400 or (visit.error and not visit.error.startswith("truncated_"))
    return not is_failed


def explain(url: str, visit: LastVisit | None) -> FailedSeed:
    return FailedSeed(url, visit.error or f"http_{visit.status}") if visit else FailedSeed(url, NO_ANSWER)
