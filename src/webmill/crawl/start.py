"""Run a crawl on one machine, or go on with one: one lock, one set of shards for life, files repaired, seeds sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path

import msgspec

from webmill.crawl.control import RunControl
from webmill.crawl.failed_seeds import FailedSeed, FindVisits, find_failed_seeds
from webmill.crawl.frontier.base import LastVisit
from webmill.crawl.layout import CrawlFolder, load_or_create_layout, read_seeds, record_files, write_seeds
from webmill.crawl.options import CrawlOptions
from webmill.crawl.progress import CrawlProgress, has_no_page
from webmill.crawl.reload import ReloadedSettings
from webmill.crawl.removed_pages import restore_removed_pages
from webmill.crawl.scheduler.commands import ResumeCrawl
from webmill.crawl.scheduler.coordinator import Coordinator, CrawlEnd, LocalCoordinator, Show, run_until_done
from webmill.crawl.scheduler.inbox import ShardInbox, publish_command, publish_links, shard_of
from webmill.crawl.scheduler.shard_processes import StartProcess, start_process
from webmill.crawl.status_file import StatusFile
from webmill.crawl.visit.page_reader import SEED
from webmill.errors import Misconfigured
from webmill.infra import atomic
from webmill.infra.lock import exclusive
from webmill.model import Link

SEEDS_PER_MESSAGE = 1000
MOST_SEEDS = 10_000  # that are tried anew when a crawl is continued


class NoSeeds(Misconfigured):
    """There is nothing to begin with."""


class CrawlRunReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a run of a crawl ended. `total` counts the whole crawl."""

    end: CrawlEnd
    total: CrawlProgress
    seconds: float
    seeds: int  # sent; those known from an earlier run included
    failed_seeds: list[FailedSeed] = []  # of a crawl that has no page yet; the first ones


class RunWatcher(msgspec.Struct, frozen=True, kw_only=True):
    """Who follows a run: `show` gets the progress now and then, `started` the coordinator, to stop it. `is_stopped`
    tells whether it was stopped before there was a coordinator."""

    show: Show = lambda _: None
    started: Callable[[Coordinator], None] = lambda _: None
    is_stopped: Callable[[], bool] = lambda: False


def start_crawl(
    options: CrawlOptions,
    seeds: Iterable[str],
    *,
    processes: int | None,
    watcher: RunWatcher = RunWatcher(),  # noqa: B008 - it is frozen
    reload: Callable[[], ReloadedSettings] | None = None,
    start: StartProcess = start_process,
) -> CrawlRunReport:
    """Begin or go on with a crawl on this machine, until it ends or is stopped. `seeds` are normalised URLs. `reload`
    reads the settings again when a person asks for it."""
    started, folder = time.monotonic(), options.folder
    atomic.make_folder(folder.path)
    with exclusive(folder.path, "crawl", doing="crawling", patience=1.0):
        shards = load_or_create_layout(folder, processes)
        options.archive.recover()
        urls = remember_seeds(folder.seeds, seeds)
        sent = send_seeds(urls, folder, shards, open_inbox=options.backends.open_inbox)
        if not folder.seeds.exists():
            raise NoSeeds("no seed is a URL that can be fetched")
        retry_failed_seeds(options, shards)
        resume_shards(options, shards)
        restore_removed_pages(options, range(shards))
        status = StatusFile(folder.path, name=folder.collection.name, started=time.time(), clock=time.time)
        control = RunControl(folder.path, reload or (lambda: ReloadedSettings(options=options)))
        coordinator = LocalCoordinator(options, shards, control=control, start=start)
        try:
            end, total = run_crawl(coordinator, options, status, watcher)
        finally:
            record_files(folder)
        failed: list[FailedSeed] = []
        if end != "stopped" and has_no_page(total):
            failed = find_failed_seeds(total, folder.seeds, shards=shards, find_visits=visits_in_frontier(options))
        return CrawlRunReport(end=end, total=total, seconds=time.monotonic() - started, seeds=sent, failed_seeds=failed)


def retry_failed_seeds(options: CrawlOptions, shards: int) -> None:
    """Let seeds wait again that gave nothing: the site may be back, and other flags may allow what was refused.

    A run that watches asks for those that failed anyway, less and less often; it only tries anew what was refused here.
    """
    by_shard: dict[int, list[str]] = {}
    for url in islice(read_seeds(options.folder.seeds), MOST_SEEDS):
        by_shard.setdefault(shard_of(url, shards), []).append(url)
    for shard, urls in by_shard.items():
        if (options.folder.shard(shard)).exists():
            with closing(options.backends.open_frontier(options.folder.shard(shard))) as frontier:
                visits = [visit for url in urls if (visit := frontier.visit(url))]
                frontier.retry([one.url for one in visits if is_tried_anew(one, watches=options.revisits.watches)])


def is_tried_anew(visit: LastVisit, *, watches: bool) -> bool:
    """Return whether a seed is fetched at once in the next run: what was refused may be allowed by now."""
    is_refused = visit.is_left_alone or "blocked_" in visit.error
    return bool(visit.error) and (not visit.interval or not watches or is_refused)


def resume_shards(options: CrawlOptions, shards: int) -> None:
    """Let shards go on that were paused in an earlier run: whoever starts a crawl wants it to run."""
    for shard in range(shards):
        if options.folder.shard(shard).exists():
            with closing(options.backends.open_inbox(options.folder.inbox(shard))) as inbox:
                publish_command(inbox, ResumeCrawl())


def visits_in_frontier(options: CrawlOptions) -> FindVisits:
    """Return what reads the last visits of URLs from the frontier. Only for one who holds the lock of the crawl."""

    def find_visits(shard: int, urls: Iterable[str]) -> list[LastVisit | None]:
        with closing(options.backends.open_frontier(options.folder.shard(shard))) as frontier:
            return [frontier.visit(url) for url in urls]

    return find_visits


def run_crawl(
    coordinator: Coordinator, options: CrawlOptions, status: StatusFile, watcher: RunWatcher
) -> tuple[CrawlEnd, CrawlProgress]:
    """Run a crawl to its end. Whatever that is, the files that it leaves are whole."""

    def show(progress: CrawlProgress) -> None:
        status.show(progress)
        watcher.show(progress)

    watcher.started(coordinator)
    end: CrawlEnd = "stopped"
    try:
        end = run_until_done(coordinator, show=show)
    finally:
        status.write(coordinator.total(), end=end)
        options.archive.finish()
    return end, coordinator.total()


def remember_seeds(file: Path, seeds: Iterable[str]) -> list[str]:
    """Add seeds to the crawl's list and return them: what is in scope follows from the list."""
    urls = list(seeds)
    known = set(read_seeds(file)) if file.exists() else set()
    if not known.issuperset(urls):
        write_seeds(file, sorted(known.union(urls)))
    return urls


def send_seeds(
    seeds: Iterable[str], folder: CrawlFolder, shards: int, *, open_inbox: Callable[[Path], ShardInbox]
) -> int:
    """Send seeds to the inboxes of their shards, and return how many. Seeds that are known do no harm."""
    count = 0
    with ExitStack() as opened:
        inboxes: dict[int, ShardInbox] = {}
        waiting: dict[int, list[Link]] = {}

        def send(shard: int) -> None:
            if shard not in inboxes:
                inboxes[shard] = open_inbox(folder.inbox(shard))
                opened.callback(inboxes[shard].close)
            publish_links(inboxes[shard], waiting.pop(shard))

        for url in seeds:
            count += 1
            shard = shard_of(url, shards)
            waiting.setdefault(shard, []).append(Link(url, priority=SEED))
            if len(waiting[shard]) >= SEEDS_PER_MESSAGE:
                send(shard)
        for shard in list(waiting):
            send(shard)
    return count
