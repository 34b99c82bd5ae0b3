"""What one process of a crawl runs: open the shard's parts, listen to the coordinator, crawl until told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from webmill.crawl.browser.resource_requests import PoliteResources
from webmill.crawl.browser.visits import BrowserVisits
from webmill.crawl.cookies.store import FILE as COOKIES
from webmill.crawl.cookies.store import CookieStore
from webmill.crawl.fetch import HttpFetcher
from webmill.crawl.frontier.base import Frontier, FrontierUpdate
from webmill.crawl.layout import read_seeds
from webmill.crawl.options import ROBOTS_NAME, CrawlOptions, CrawlRules
from webmill.crawl.politeness.request_signer import open_signer
from webmill.crawl.politeness.requester import BatchedReservations, Requester, open_fetcher
from webmill.crawl.politeness.robots import RobotsPolicy
from webmill.crawl.politeness.robots_fetcher import RobotsCache, RobotsFetcher
from webmill.crawl.politeness.session import open_session
from webmill.crawl.progress import CrawlProgress
from webmill.crawl.removed_pages import record_removed_pages
from webmill.crawl.scheduler.capture_archiver import ArchivedPayloads, CaptureArchiver
from webmill.crawl.scheduler.domain_scores import DomainScores
from webmill.crawl.scheduler.inbox import ShardMessages
from webmill.crawl.scheduler.shard_crawler import ShardCrawler
from webmill.crawl.scheduler.shard_store import ShardParts, ShardStore
from webmill.crawl.scope import NO_TEXT, Scope, ScopeRules
from webmill.crawl.sites import CrawlSites
from webmill.crawl.traps import TrapRules
from webmill.crawl.visit.page_reader import PageReader
from webmill.crawl.visit.site_files import FILE as SITE_FILES
from webmill.crawl.visit.site_files import SiteFileStore
from webmill.crawl.visit.url_visitor import UrlVisitor
from webmill.crawl.visit_log import VisitLog
from webmill.crawl.yields.domain_yield import YieldBudget
from webmill.crawl.yields.judge import YieldJudge
from webmill.crawl.yields.yield_store import FILE_NAME as YIELDS_FILE
from webmill.crawl.yields.yield_store import YieldStore
from webmill.errors import Conflict, Unavailable, WebmillError
from webmill.forgotten import ForgottenFiles, never_asked
from webmill.infra import atomic, interrupts, waiting
from webmill.infra.clock import Anchor
from webmill.infra.log import configure
from webmill.infra.plugins.costs import record_spent, spent_on
from webmill.infra.plugins.loaded import load_plugins

log = logging.getLogger(__name__)

OPEN_PATIENCE = 60.0  # seconds for a former owner of the shard's files to end


def main(options: CrawlOptions, shard: int, shards: int, parent: Connection) -> None:
    interrupts.ignore()  # the parent tells us
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    configure(verbosity=options.verbosity, form=options.log_format)
    collect_garbage_seldom()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy brings it, and it starts a thread for each core
    try:
        run_event_loop(crawl_shard(options, shard, shards, parent))
    except (Conflict, Unavailable) as error:
        parent.send(("lost", str(error)))
    except WebmillError as error:
        parent.send(("failed", str(error)))
    finally:
        parent.close()


def collect_garbage_seldom() -> None:
    """A crawl leaves no garbage in cycles, nor do failures; to look for it as often as Python does costs 5 %."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def run_event_loop(work: Coroutine[object, object, None]) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)
    else:
        uvloop.run(work)


async def crawl_shard(options: CrawlOptions, shard: int, shards: int, parent: Connection) -> None:
    loop, connections = asyncio.get_running_loop(), options.settings.concurrency
    with ExitStack() as stack:
        store = open_store(options, shard, shards, stack)
        fetcher = open_fetcher(options.politeness, options.limits, options.network, connections=connections)
        browsers = list[BrowserVisits]()
        try:
            crawler = make_crawler(options, store, fetcher, report=partial(send_progress, parent), browsers=browsers)
            loop.add_reader(parent.fileno(), partial(receive_messages, parent, crawler))
            await crawler.run()
            record_removed_pages(store.frontier, options.archive)
        finally:
            record_spent(spent_on(load_plugins(options.plugins)), os.environ)
            loop.remove_reader(parent.fileno())
            for browser in browsers:
                await browser.close()
            await fetcher.close()


def make_crawler(
    options: CrawlOptions,
    store: ShardStore,
    fetcher: HttpFetcher,
    *,
    report: Callable[[CrawlProgress], None],
    browsers: list[BrowserVisits] | None = None,
) -> ShardCrawler:
    """Return a crawler of the shard: each part is given what it calls. `browsers` gets what is to be closed."""
    politeness, limits, rules, clock = options.politeness, options.limits, options.rules, store.clock
    wakeup, plugins = asyncio.Event(), load_plugins(options.plugins)
    reservations = BatchedReservations(clock=clock, wakeup=wakeup)
    session = open_session(
        options.settings,
        store.sites,
        root=options.folder.collection.root,
        stored=dict(store.cookies.read()) if store.cookies else {},
        clock=clock,
        plugins=plugins,
    )
    signer = open_signer(options.settings, options.folder.collection.root)
    forgotten = never_asked(options.folder.collection.root)
    requester = Requester(
        fetcher,
        politeness,
        reservations,
        clock=clock,
        page_resources=rules.page_resources,
        session=session,
        signer=signer,
        forgotten=forgotten,
    )
    policy = RobotsPolicy(agent=ROBOTS_NAME, max_delay=politeness.max_crawl_delay, first_retry=limits.retry_wait)
    robots = RobotsFetcher(requester, RobotsCache(store.frontier, policy, clock=clock), policy, clock=clock)
    reader = PageReader(
        make_scope(rules, options.folder.seeds, sites=store.sites, forgotten=forgotten),
        rules,
        politeness,
        page_resources=limits.page_resources,
        sites=store.sites,
        since=rules_changed_at(store.frontier, options, now=clock()),
        plugins=plugins,
    )
    browser = None
    if options.browser:
        resources = PoliteResources(requester, robots, may_fetch=reader.may_fetch, clock=clock)
        browser = BrowserVisits(options.browser, resources, sites=store.sites, clock=clock)
    known = store.site_files.read() if store.site_files else ()
    visitor = UrlVisitor(requester, robots, reader, options, clock=clock, browser=browser, site_files=known)
    store.visit_log.find_via = reader.find_via
    crawler = ShardCrawler(store, visitor, requester, reservations, options, wakeup=wakeup, report=report)
    if browser:
        browser.keep = crawler.add_result
        if browsers is not None:
            browsers.append(browser)
    return crawler


def rules_changed_at(frontier: Frontier, options: CrawlOptions, *, now: float) -> float:
    """Return when the rules by which links are followed became what they are now; 0.0: they were never others."""
    sites = [(one.match, one.scope, one.include, one.exclude, one.depth) for one in options.settings.sites]
    rules = msgspec.json.encode((options.rules, options.politeness.obey_nofollow, sites))
    digest, note = blake2b(rules, digest_size=16).hexdigest(), frontier.notes().get("rules")
    known = msgspec.json.decode(note, type=tuple[str, float]) if note else None
    if known and known[0] == digest:
        return known[1]
    since = now if known else 0.0
    frontier.commit(FrontierUpdate(notes={"rules": msgspec.json.encode((digest, since)).decode()}), now=now)
    return since


def open_store(options: CrawlOptions, shard: int, shards: int, stack: ExitStack) -> ShardStore:
    """Open everything that the shard keeps its state in. `stack` closes it."""
    folder, backends = options.folder.shard(shard), options.backends
    atomic.make_folder(folder)
    frontier = open_frontier(options, folder)
    stack.callback(frontier.close)
    schedule = backends.open_host_schedule(options.folder.host_schedule)
    stack.callback(schedule.close)
    note = frontier.notes().get("clock")
    clock = schedule.clock(msgspec.json.decode(note, type=Anchor) if note else None)
    frontier.exclude(options.settings.exclude_domains)
    inboxes = [options.folder.inbox(number) for number in range(shards)]
    messages = ShardMessages(inboxes, shard, open_inbox=backends.open_inbox)
    stack.callback(messages.close)
    payloads = ArchivedPayloads(folder / "payloads.sqlite")
    stack.callback(payloads.close)
    budget = backends.open_domain_budget(folder / "quota.sqlite", options.limits.pages_per_domain)
    stack.callback(budget.close)
    stem = f"{options.node}-{shard:02d}" if options.node else f"{shard:02d}"
    writer = options.archive.open_writer(stem=stem, now=lambda: datetime.fromtimestamp(clock(), UTC))
    stack.callback(writer.close)
    rules = options.rules
    yields = YieldStore(folder / YIELDS_FILE, YieldBudget(rules.trap_budget, rules.domain_trap_budget))
    stack.callback(yields.close)
    visit_log = VisitLog(options.folder.path, stem)
    stack.callback(visit_log.close)
    cookies = CookieStore(folder / COOKIES)
    stack.callback(cookies.close)
    site_files = SiteFileStore(folder / SITE_FILES)
    stack.callback(site_files.close)
    scores = DomainScores(folder / "scores.sqlite") if options.rules.order == "best" else None
    if scores:
        stack.callback(scores.close)
    return ShardStore(
        ShardParts(
            frontier=frontier,
            schedule=schedule,
            archiver=CaptureArchiver(writer, payloads),
            domain_budget=budget,
            messages=messages,
            clock=clock,
            visit_log=visit_log,
            cookies=cookies,
            site_files=site_files,
            sites=CrawlSites(options.settings.sites),
            judge=YieldJudge(yields, folds=rules.fold) if rules.traps else None,
            scores=scores,
            hold=options.archive.hold,
        ),
        shard=shard,
        shards=shards,
        politeness=options.politeness,
        revisits=options.revisits,
        claims_resources=options.rules.page_resources,
        longest_idle=options.longest_idle,
    )


def open_frontier(options: CrawlOptions, folder: Path) -> Frontier:
    """Open the shard's frontier. A process whose parent was killed may still have it, until it notices."""
    deadline = time.monotonic() + OPEN_PATIENCE
    while True:
        try:
            return options.backends.open_frontier(folder)
        except Conflict:
            if time.monotonic() > deadline:
                raise
        waiting.sleep(0.1)


def make_scope(
    rules: CrawlRules, seeds: Path, *, sites: CrawlSites | None = None, forgotten: ForgottenFiles | None = None
) -> Scope:
    """Return the scope of a crawl with these rules; `seeds` is its list. Tables of `sites` may have rules of their
    own."""
    chosen = ScopeRules(
        kind=rules.scope,
        include=rules.include,
        exclude=rules.exclude,
        max_depth=rules.depth,
        extensions=NO_TEXT if rules.skip_binary else frozenset(),
        traps=TrapRules() if rules.traps else None,
    )
    return Scope(chosen, seeds=read_seeds(seeds), year=datetime.now(UTC).year, sites=sites, forgotten=forgotten)


def receive_messages(parent: Connection, crawler: ShardCrawler) -> None:
    """Do what the coordinator says. When it is gone, stop as if it had said so."""
    try:
        while parent.poll():
            kind, *values = parent.recv()
            match kind:
                case "grant":
                    crawler.grant(*values)
                case "revoke":
                    crawler.revoke()
                case "probe":
                    crawler.probe = values[0]
                case "stop":
                    crawler.stop(grace=values[0])
    except (EOFError, OSError):
        log.warning("the coordinator is gone", extra={"pid": os.getpid()})
        asyncio.get_running_loop().remove_reader(parent.fileno())
        crawler.stop(grace=0.0)  # who comes after us waits for our files


def send_progress(parent: Connection, progress: CrawlProgress) -> None:
    try:
        parent.send(("progress", progress))
    except OSError:
        pass  # the coordinator is gone, which `receive_messages` learns, too
