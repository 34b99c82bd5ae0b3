"""Save one page now into a collection, beside a crawl or a run that may be under way: fetched, archived, indexed.

    report = save_page(Path("news/"), "https://example.org/", sources=…)
    report.timestamp                       # 20261118093000: /web/20261118093000/https://example.org/

It has a WARC file of its own, which is durable before the crawl learns of the visit. Killed at any moment it leaves
what a killed crawl leaves: the next crawl, save or index goes on from that. Two saves may run at the same time.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from webmill import collection as collections
from webmill.crawl import stored_settings
from webmill.crawl.backends import crawl_backends
from webmill.crawl.frontier.base import RobotsEntry, VisitDone
from webmill.crawl.frontier_admin.backend import frontier_backend
from webmill.crawl.frontier_admin.commands import record_visits
from webmill.crawl.frontier_admin.crawl_frontier import CrawlFrontier
from webmill.crawl.frontier_admin.url_state import UrlState
from webmill.crawl.options import CrawlOptions
from webmill.crawl.politeness.requester import open_fetcher
from webmill.crawl.run import CollectionCrawl, CrawlWatcher, make_options
from webmill.crawl.scheduler.batch import WrittenRecords
from webmill.crawl.scheduler.capture_archiver import ArchivedPayloads, CaptureArchiver
from webmill.crawl.scheduler.inbox import shard_of
from webmill.crawl.scheduler.shard_process import make_scope
from webmill.crawl.seeds import Seeds, parse_seed
from webmill.crawl.sites import CrawlSites
from webmill.crawl.visit.captures import archived_original
from webmill.crawl.visit.outcome import VisitResult
from webmill.crawl.visit.page_saver import PageSaver, SavedVisit
from webmill.crawl.visit_log import VisitLog
from webmill.errors import BadInput, Conflict, NotFound, WrongUse
from webmill.formats.timestamps import from_datetime
from webmill.infra import atomic, waiting
from webmill.infra.executor.pool import available_cores
from webmill.pipeline.crawl_archive import WarcArchive
from webmill.pipeline.index import index_crawl
from webmill.pipeline.plugins import crawl_plugins
from webmill.pipeline.progress import progress_to
from webmill.pipeline.trust import is_new, remember_own
from webmill.settings import Settings, Sources

MAX_WAIT = 300.0  # seconds for a host that must not be asked yet
INDEX_PATIENCE, INDEX_RETRY = 120.0, 0.5  # seconds for somebody else who is indexing
CONNECTIONS = 8
PAYLOADS = "saved.sqlite"  # in the frontier's folder: which payloads `save` has archived
Notice = Callable[[str], None]


class SavedCapture(msgspec.Struct, frozen=True, kw_only=True):
    """What was archived of one URL, or why nothing was."""

    url: str
    status: int = 0
    error: str = ""
    timestamp: str = ""  # 14 digits
    filename: str = ""
    offset: int = 0
    length: int = 0
    is_unchanged: bool = False  # the server said so, or sent what was archived before: a revisit record


class SaveReport(msgspec.Struct, frozen=True, kw_only=True):
    """What came of saving a page. `pages` are the URL and what it redirected to; the last one is the page."""

    collection: str
    url: str
    pages: list[SavedCapture]
    resources: list[SavedCapture] = []
    indexed: bool = True
    crawl_was_running: bool = False  # it learns of the visit by itself

    @property
    def page(self) -> SavedCapture:
        return self.pages[-1]

    @property
    def path(self) -> str:
        """Return where a server of the collection shows the page."""
        return f"/web/{self.page.timestamp}/{self.page.url}"

    @property
    def failed_resources(self) -> int:
        return sum(one.status == 0 for one in self.resources)


def save_page(
    root: Path,
    url: str,
    *,
    sources: Sources,
    page_resources: bool | None = None,
    max_wait: float = MAX_WAIT,
    notice: Notice = lambda _: None,
) -> SaveReport:
    """Save a URL, and what it needs to be displayed if `page_resources` (None: as its crawl does).

    The report says when nothing was archived.
    """
    try:
        wanted = parse_seed(url)
    except BadInput as error:
        raise WrongUse(f"{url!r}: {error.message}") from error
    with open_for_saving(root, sources, page_resources=page_resources, notice=notice) as place:
        visits = asyncio.run(place.save(wanted, max_wait=max_wait))
        was_running = not place.record(visits)
    captures = [saved_capture(saved, is_unchanged=saved.done.url in place.unchanged) for saved in visits]
    pages = [capture for capture, saved in zip(captures, visits, strict=True) if not saved.is_resource]
    notice("indexing")
    is_indexed = index_now(place.options, place.settings) if any(page.filename for page in pages) else False
    return SaveReport(
        collection=str(root),
        url=wanted,
        pages=pages,
        resources=[capture for capture, saved in zip(captures, visits, strict=True) if saved.is_resource],
        indexed=is_indexed,
        crawl_was_running=was_running,
    )


@contextmanager
def open_for_saving(
    root: Path, sources: Sources, *, page_resources: bool | None, notice: Notice
) -> Iterator[CollectionForSaving]:
    folder = root / "frontier"
    settings, _ = stored_settings.resolve_settings(sources, folder)
    chosen = settings.crawl
    if page_resources is not None:
        sites = tuple(msgspec.structs.replace(rule, page_resources=page_resources) for rule in chosen.sites)
        chosen = msgspec.structs.replace(chosen, page_resources=page_resources, sites=sites)
        settings = msgspec.structs.replace(settings, crawl=chosen)
    redis, name = chosen.frontier or None, chosen.name or collections.default_crawl_name(root)
    crawl = CollectionCrawl(
        root=root,
        seeds=Seeds(),
        sources=sources,
        open_archive=open_archive,
        watcher=CrawlWatcher(),
        forget=(),
        watch=None if chosen.refresh else settings.watch.every,
        plugins=crawl_plugins(),
    )
    was_new = is_new(root)
    options = make_options(crawl, settings, backends=crawl_backends(redis, name=name))
    with ExitStack() as stack:
        backend = frontier_backend(redis, name=options.folder.collection.name)
        stack.callback(backend.close)
        frontier = CrawlFrontier(options.folder, options.backends, backend)
        atomic.make_folder(folder)
        if was_new:
            remember_own(root, made_by="save")
        shards = find_shards(frontier, settings.crawl.processes)
        options.archive.recover()
        yield CollectionForSaving(options, settings, frontier, shards=shards, notice=notice)
        options.archive.finish()


def open_archive(collection: collections.Collection, settings: Settings) -> WarcArchive:
    """Return the archive of saved pages: a segment for each day, so that thousands of them are few folders."""
    return WarcArchive(
        collection,
        operator=settings.http.contact or "",
        max_bytes=settings.crawl.file_size,
        languages=settings.crawl.languages,
        segment=f"saved-{datetime.now(UTC):%Y%m%d}",
    )


def find_shards(frontier: CrawlFrontier, processes: int | None) -> int:
    """Return how many shards the crawl has. Where there is none yet, it is divided as `webmill crawl` would."""
    try:
        return frontier.shards()
    except NotFound:
        with frontier.exclusively(doing="dividing its frontier"):
            frontier.backend.settle_layout(frontier.paths, processes or available_cores())
    return frontier.shards()


class CollectionForSaving:
    """A collection into which pages are saved."""

    def __init__(
        self, options: CrawlOptions, settings: Settings, frontier: CrawlFrontier, *, shards: int, notice: Notice
    ) -> None:
        self.options, self.settings = options, settings
        self._frontier, self._shards, self._notice = frontier, shards, notice
        self._robots = list[RobotsEntry]()
        self.unchanged: set[str] = set()  # URLs whose captures are revisit records

    async def save(self, url: str, *, max_wait: float) -> list[SavedVisit]:
        options = self.options
        with ExitStack() as stack:
            schedule = stack.enter_context(self._frontier.host_schedule())
            clock = schedule.clock(None)
            payloads = stack.enter_context(closing(ArchivedPayloads(options.folder.path / PAYLOADS)))
            writer = options.archive.open_writer(
                stem=f"saved-{secrets.token_hex(4)}", now=lambda: datetime.fromtimestamp(clock(), UTC)
            )
            archiver = CaptureArchiver(stack.enter_context(closing(writer)), payloads)
            visit_log = stack.enter_context(closing(VisitLog(options.folder.path, "saved")))
            thread = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="webmill-save"))
            fetcher = open_fetcher(options.politeness, options.limits, options.network, connections=CONNECTIONS)
            saver = PageSaver(
                options,
                fetcher,
                schedule,
                clock=clock,
                thread=thread,
                find=self._find,
                keep=ResultKeeper(archiver, payloads, visit_log, self.unchanged),
                notice=self._notice,
            )
            try:
                return await saver.save(url, until=clock() + max_wait)
            finally:
                self._robots += saver.robots
                await fetcher.close()

    def record(self, visits: list[SavedVisit]) -> bool:
        """Let the crawl go on from these visits: of pages that it knows, or would have come to. False: it is running,
        and does that next."""
        seeds = self.options.folder.seeds
        sites = CrawlSites(self.options.settings.sites)
        scope = make_scope(self.options.rules, seeds, sites=sites) if seeds.exists() else None
        known = [
            with_interval(saved, first=self.options.revisits.first)
            for saved in visits
            if saved.done.visit.filename
            and not saved.is_resource
            and (saved.state.known != "unknown" or (scope and scope.decide(saved.done.url, 1) is None))
        ]
        return record_visits(self._frontier, known, self._robots)

    def _find(self, url: str) -> UrlState:
        return self._frontier.backend.find_url(self._frontier.paths.shard(shard_of(url, self._shards)), url)


class ResultKeeper:
    """Archives results, durably, one after the other. `unchanged` gets the URLs whose captures are revisit records."""

    def __init__(
        self, archiver: CaptureArchiver, payloads: ArchivedPayloads, visit_log: VisitLog, unchanged: set[str]
    ) -> None:
        self._archiver, self._payloads, self._visit_log = archiver, payloads, visit_log
        self._unchanged = unchanged

    def __call__(self, result: VisitResult, state: UrlState) -> VisitResult:
        if not (result.captures or result.records):
            self._visit_log.write([result], now=time.time())
            return result
        if state.last and state.last.digest and state.last.record_id:  # the crawl has archived it
            self._payloads.add([(state.last.digest, archived_original(state.last))])
        written = WrittenRecords()
        self._archiver.write([result], written)
        self._archiver.sync()
        self._archiver.remember_payloads(written)
        self._visit_log.write(written.results, now=time.time())
        if written.revisits and result.outcome:
            self._unchanged.add(result.outcome.url)
        return written.results[0]


def with_interval(saved: SavedVisit, *, first: float) -> VisitDone:
    """Return the visit with the interval that the page had: that somebody saved it tells nothing of how often it
    changes. Whether it is gone is found out by the crawl."""
    last, visit = saved.state.last, saved.done.visit
    interval = last.interval if last and last.interval else first
    visit = msgspec.structs.replace(visit, interval=interval, gone=bool(last and last.gone))
    return VisitDone(visit, revisit_due=visit.time + interval, is_page=saved.done.is_page)


def saved_capture(saved: SavedVisit, *, is_unchanged: bool) -> SavedCapture:
    visit = saved.done.visit
    if not visit.filename:
        return SavedCapture(url=visit.url, error=visit.error or "nothing was archived")
    return SavedCapture(
        url=visit.url,
        status=visit.status,
        error=visit.error,
        timestamp=from_datetime(datetime.fromtimestamp(visit.time, UTC)),
        filename=visit.filename,
        offset=visit.offset,
        length=visit.length,
        is_unchanged=is_unchanged,
    )


def index_now(options: CrawlOptions, settings: Settings) -> bool:
    """Index the collection; False when somebody else still does so after a while. Their next run has the page, too."""
    settings = msgspec.structs.replace(settings, executor=msgspec.structs.replace(settings.executor, url="inline"))
    deadline = time.monotonic() + INDEX_PATIENCE
    while True:
        try:
            index_crawl(options.folder.collection, settings, progress=progress_to(None))
            return True
        except Conflict:
            if time.monotonic() > deadline:
                return False
        waiting.sleep(INDEX_RETRY)
