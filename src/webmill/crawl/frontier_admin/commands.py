"""What a person tells a frontier: add URLs, exclude domains, compact.

While a crawl runs, and always where nodes share it, commands go into the inboxes of the shards; else they are carried
out at once, and then it is known what was new.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import msgspec

from webmill.crawl.frontier.base import CommitResult, Frontier, FrontierUpdate, RobotsEntry, VisitDone
from webmill.crawl.frontier_admin.crawl_frontier import CrawlFrontier, crawl_clock
from webmill.crawl.scheduler.commands import (
    CompactFrontier,
    ExcludeDomains,
    IncludeDomains,
    PauseCrawl,
    RecordVisits,
    ResumeCrawl,
    RetryUrls,
    ShardCommand,
    apply_command,
    retry_urls,
)
from webmill.crawl.scheduler.inbox import publish_command, publish_links, shard_of
from webmill.model import Link

AT_ONCE = 5000


class AddResult(msgspec.Struct, kw_only=True):
    """`sent` to a crawl that runs, which will find out which are new; the other counts are of one that does not."""

    sent: int = 0
    added: int = 0
    known: int = 0
    excluded: int = 0


def add_urls(crawl: CrawlFrontier, links: Iterable[Link]) -> AddResult:
    shards = crawl.shards()
    with crawl.try_exclusively(doing="adding URLs") as is_alone:
        if is_alone and not crawl.backend.is_shared:
            with crawl.frontiers() as frontiers, crawl.host_schedule() as schedule:
                clock = crawl_clock(schedule, frontiers)
                return _commit(links, frontiers, clock)
    result = AddResult()
    for batch in _batches(links):
        for shard, own in _group_links(batch, shards).items():
            with crawl.inbox(shard) as inbox:
                publish_links(inbox, own)
            result.sent += len(own)
    return result


def _commit(links: Iterable[Link], frontiers: list[Frontier], clock: Callable[[], float]) -> AddResult:
    result = AddResult()
    for batch in _batches(links):
        for shard, own in _group_links(batch, len(frontiers)).items():
            done: CommitResult = frontiers[shard].commit(FrontierUpdate(links=own), now=clock())
            result.added += done.added
            result.known += done.known
            result.excluded += done.excluded
    return result


def exclude_domains(crawl: CrawlFrontier, domains: Iterable[str]) -> bool:
    """Exclude domains. True: it is done already; else the running crawl does it with its next step."""
    return _send(crawl, {shard: ExcludeDomains(tuple(own)) for shard, own in _group_domains(crawl, domains).items()})


def include_domains(crawl: CrawlFrontier, domains: Iterable[str]) -> bool:
    return _send(crawl, {shard: IncludeDomains(tuple(own)) for shard, own in _group_domains(crawl, domains).items()})


def compact_frontier(crawl: CrawlFrontier) -> bool:
    return _send(crawl, dict.fromkeys(range(crawl.shards()), CompactFrontier()))


def retry_failed(crawl: CrawlFrontier, command: RetryUrls) -> int | None:
    """Ask again for URLs that were visited; return how many there are. None: the running crawl does it next."""
    with crawl.try_exclusively(doing="changing its frontier") as is_alone:
        if is_alone and not crawl.backend.is_shared:
            with crawl.frontiers() as frontiers:
                return sum(retry_urls(command, frontier) for frontier in frontiers)
        for shard in range(crawl.shards()):
            with crawl.inbox(shard) as inbox:
                publish_command(inbox, command)
    return None


def pause_crawl(crawl: CrawlFrontier, command: PauseCrawl | ResumeCrawl) -> None:
    """Pause a running crawl, or let it go on. NotFound: none is running."""
    crawl.refuse_unless_running()
    for shard in range(crawl.shards()):
        with crawl.inbox(shard) as inbox:
            publish_command(inbox, command)


def record_visits(crawl: CrawlFrontier, visits: Iterable[VisitDone], robots: Iterable[RobotsEntry] = ()) -> bool:
    """Let the crawl take visits as its own. True: it is done already; else the running crawl does it next."""
    shards = crawl.shards()
    by_shard: defaultdict[int, tuple[list[VisitDone], list[RobotsEntry]]] = defaultdict(lambda: ([], []))
    for done in visits:
        by_shard[shard_of(done.url, shards)][0].append(done)
    for entry in robots:
        by_shard[shard_of(f"{entry.origin}/", shards)][1].append(entry)
    return _send(crawl, {shard: RecordVisits(tuple(own), tuple(files)) for shard, (own, files) in by_shard.items()})


def _send(crawl: CrawlFrontier, commands: dict[int, ShardCommand]) -> bool:
    with crawl.try_exclusively(doing="changing its frontier") as is_alone:
        is_alone = is_alone and not crawl.backend.is_shared
        for shard, command in commands.items():
            if is_alone:
                with crawl.frontier(shard) as frontier:
                    apply_command(command, frontier)
            else:
                with crawl.inbox(shard) as inbox:
                    publish_command(inbox, command)
        return is_alone


def _group_domains(crawl: CrawlFrontier, domains: Iterable[str]) -> dict[int, list[str]]:
    shards = crawl.shards()
    found: defaultdict[int, list[str]] = defaultdict(list)
    for domain in domains:
        found[shard_of(f"http://{domain}/", shards)].append(domain)
    return found


def _group_links(links: Iterable[Link], shards: int) -> dict[int, list[Link]]:
    found: defaultdict[int, list[Link]] = defaultdict(list)
    for link in links:
        found[shard_of(link.url, shards)].append(link)
    return found


def _batches(links: Iterable[Link]) -> Iterator[list[Link]]:
    stream = iter(links)
    while batch := list(islice(stream, AT_ONCE)):
        yield batch
