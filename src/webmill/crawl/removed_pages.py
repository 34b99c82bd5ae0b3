"""Pages that are no longer there, told to the archive of the crawl: the next version leaves them out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing

from webmill.crawl.archive import CrawlArchive
from webmill.crawl.frontier.base import Frontier, FrontierUpdate, LastVisit
from webmill.crawl.options import CrawlOptions

AT_ONCE = 50_000  # pages told together
NOTE = "removed_until"  # the time of the last visit that the archive was told of


def record_removed_pages(frontier: Frontier, archive: CrawlArchive) -> None:
    """Tell the archive which pages of a shard were found to be gone since it was last told. Only for its owner.

    A frontier notes how far it was told after the archive has it, so that a kill in between tells some twice. Whoever
    owns the shard next goes on from there. Visits are read by their time: those of this run, and no others.
    """
    since = last = float(frontier.notes().get(NOTE, 0.0))
    for gone, last in find_removed(frontier, since=since):  # noqa: B007 - the last one counts
        if gone:
            archive.record_removed(gone)
    if last > since:
        frontier.commit(FrontierUpdate(notes={NOTE: repr(last)}), now=last)


def restore_removed_pages(options: CrawlOptions, shards: Iterable[int]) -> None:
    """Tell the archive of all pages that are gone, if it has lost some. Only for the owner of all shards."""
    if options.archive.has_lost_removals():
        for shard in shards:
            if options.folder.shard(shard).exists():
                with closing(options.backends.open_frontier(options.folder.shard(shard))) as frontier:
                    for gone, _ in find_removed(frontier, since=0.0):
                        if gone:
                            options.archive.record_removed(gone)
    options.archive.forget_lost_removals()


def find_removed(frontier: Frontier, *, since: float) -> Iterator[tuple[list[LastVisit], float]]:
    """Yield the pages found to be gone after `since`, some at a time, and the time of the last visit looked at."""
    gone: list[LastVisit] = []
    last = since
    for visit in frontier.visits(since=since):
        last = visit.time
        if visit.gone and visit.time > since:
            gone.append(visit)
        if len(gone) == AT_ONCE:
            yield gone, last
            gone = []
    yield gone, last
