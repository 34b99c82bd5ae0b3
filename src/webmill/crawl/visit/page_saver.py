"""Visit one page now, with its redirects and what it needs to be displayed, beside a crawl that may be running.

    saver = PageSaver(options, fetcher, schedule, …)
    visits = await saver.save(url, until=clock() + 300)

By all the rules of a crawl: robots.txt first, vetted addresses, one request to a host at a time, each at a time that is
reserved with the crawl in the same host schedule. `keep` archives what came of each visit before the next one begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import inf

import msgspec

from webmill.crawl.browser.resource_requests import PoliteResources
from webmill.crawl.browser.visits import BrowserVisits
from webmill.crawl.fetch import HttpFetcher
from webmill.crawl.frontier.base import (
    PAGE_RESOURCE,
    ClaimedUrl,
    DomainTurn,
    LastVisit,
    NotTried,
    RetryLater,
    RobotsEntry,
    VisitDone,
    domain_of,
)
from webmill.crawl.frontier_admin.url_state import UrlState
from webmill.crawl.options import ROBOTS_NAME, CrawlOptions, CrawlRules
from webmill.crawl.politeness.pace import HostPace
from webmill.crawl.politeness.request_signer import open_signer
from webmill.crawl.politeness.requester import Requester
from webmill.crawl.politeness.robots import RobotsPolicy
from webmill.crawl.politeness.robots_fetcher import RobotsCache, RobotsFetcher
from webmill.crawl.politeness.session import open_session
from webmill.crawl.scope import Scope, ScopeRules
from webmill.crawl.sites import CrawlSites
from webmill.crawl.visit.outcome import VisitResult
from webmill.crawl.visit.page_fetcher import BackgroundReservations
from webmill.crawl.visit.page_reader import REDIRECTED, SEED, PageReader
from webmill.crawl.visit.url_visitor import UrlVisitor
from webmill.forgotten import never_asked
from webmill.formats.url.normalise import host_of
from webmill.infra.clock import SteadyClock
from webmill.infra.host_schedule.fixed_delays import HostSchedule
from webmill.infra.plugins.loaded import load_plugins
from webmill.model import Link

ATTEMPTS, RETRY_WAIT = 2, 3.0  # of one URL: somebody is waiting
SHORTEST_DELAY = 0.001
MOST_HOSTS = 8  # whose page resources are fetched at the same time

FindUrl = Callable[[str], UrlState]
KeepResult = Callable[[VisitResult, UrlState], VisitResult]
Notice = Callable[[str], None]


class SavedVisit(msgspec.Struct, frozen=True):
    """A visit that came to an end: with a response, or with the reason why there is none."""

    done: VisitDone
    state: UrlState  # what the crawl knew of the URL before
    is_resource: bool = False


class PageSaver:
    """Saves pages of one collection. `find` returns what its crawl knows of a URL, `keep` archives a result and returns
    it with the place of its capture; both are called in a thread. `notice` gets sentences for a person."""

    def __init__(
        self,
        options: CrawlOptions,
        fetcher: HttpFetcher,
        schedule: HostSchedule,
        *,
        clock: SteadyClock,
        thread: ThreadPoolExecutor,
        find: FindUrl,
        keep: KeepResult,
        notice: Notice,
    ) -> None:
        sites = CrawlSites(options.settings.sites)
        self._pace, self._clock, self._thread = HostPace(options.politeness, sites), clock, thread
        self._find, self._keep, self._notice = find, keep, notice
        self.robots: list[RobotsEntry] = []  # files that were fetched
        self._last_sent: dict[str, float] = {}  # by host
        options = for_saving(options)
        reservations = BackgroundReservations(schedule, thread, clock=clock)
        plugins = load_plugins(options.plugins)
        session = open_session(
            options.settings, sites, root=options.folder.collection.root, stored={}, clock=clock, plugins=plugins
        )
        forgotten = never_asked(options.folder.collection.root)
        self._requester = Requester(
            fetcher,
            options.politeness,
            reservations,
            clock=clock,
            page_resources=True,
            session=session,
            signer=open_signer(options.settings, options.folder.collection.root),
            forgotten=forgotten,
        )
        policy = RobotsPolicy(agent=ROBOTS_NAME, max_delay=options.politeness.max_crawl_delay, first_retry=RETRY_WAIT)
        cache = RobotsCache(_KnownRobots(find, options.settings.exclude_domains), policy, clock=clock)
        reader = PageReader(
            Scope(ScopeRules(kind="any", extensions=frozenset()), seeds=(), year=1970, forgotten=forgotten),
            options.rules,
            options.politeness,
            page_resources=options.limits.page_resources,
            sites=sites,
            plugins=plugins,
        )
        # To the requester a page resource is like a page: it must not be requested beside one of a running crawl.
        alike = msgspec.structs.replace(options, rules=msgspec.structs.replace(options.rules, page_resources=False))
        robots = RobotsFetcher(self._requester, cache, policy, clock=clock)
        self.browser = None
        if options.browser:
            resources = PoliteResources(self._requester, robots, may_fetch=reader.may_fetch, clock=clock)
            self.browser = BrowserVisits(options.browser, resources, sites=sites, keep=self._keep_soon, clock=clock)
        self._visitor = UrlVisitor(self._requester, robots, reader, alike, clock=clock, browser=self.browser)
        self._kept = list[asyncio.Future[VisitResult]]()  # what a browser fetched, on its way to the archive

    async def save(self, url: str, *, until: float) -> list[SavedVisit]:
        """Visit a URL, what it redirects to, and its page resources if the rules say so. `until` is when it is too
        late to send a request."""
        visits, resources = [], list[Link]()
        item: ClaimedUrl | None = ClaimedUrl(url, 0, SEED, 1)
        try:
            while item:
                saved, links = await self._visit(item, until)
                visits.append(saved)
                resources += [link for link in links if link.priority == PAGE_RESOURCE]
                target = next((link for link in links if link.priority == REDIRECTED), None)
                item = ClaimedUrl(target.url, 0, SEED, 1, redirects=target.redirects) if target else None
            await asyncio.gather(*self._kept)
            return [*visits, *await self._save_resources(resources, until)]
        finally:
            if self.browser:
                await self.browser.close()
            self._leave_hosts()

    async def _save_resources(self, links: Sequence[Link], until: float) -> list[SavedVisit]:
        """Visit page resources, and what they bring: each host after its last answer, several hosts side by side."""
        visits: list[SavedVisit] = []
        seen: set[str] = set()
        while links := [link for link in {one.url: one for one in links}.values() if link.url not in seen]:
            seen.update(link.url for link in links)
            self._notice(f"fetching {len(links):,} page resources")
            by_host: dict[str, list[Link]] = {}
            for link in links:
                by_host.setdefault(host_of(link.url), []).append(link)
            limit = asyncio.Semaphore(MOST_HOSTS)
            some = await asyncio.gather(*(self._save_of_host(own, until, limit) for own in by_host.values()))
            visits += [saved for one, _ in some for saved in one]
            links = [link for _, more in some for link in more if link.priority == PAGE_RESOURCE]
        return visits

    async def _save_of_host(
        self, links: Sequence[Link], until: float, limit: asyncio.Semaphore
    ) -> tuple[list[SavedVisit], list[Link]]:
        visits, more = [], list[Link]()
        async with limit:
            for link in links:
                own = (link.redirects, link.sitemap_depth, link.resource_steps, link.resource_share)
                saved, found = await self._visit(ClaimedUrl(link.url, 0, PAGE_RESOURCE, 1, None, *own), until)
                visits.append(saved)
                more += found
        return visits, more

    async def _visit(self, item: ClaimedUrl, until: float) -> tuple[SavedVisit, Sequence[Link]]:
        """Visit a URL, and wait for its host as long as there is time."""
        loop = asyncio.get_running_loop()
        state = await loop.run_in_executor(self._thread, self._find, item.url)
        item = msgspec.structs.replace(item, last=state.last)
        is_resource = item.priority == PAGE_RESOURCE
        if state.is_excluded:
            return SavedVisit(self._refuse(item, "excluded_domain"), state, is_resource), ()
        while True:
            turn = DomainTurn(domain_of(item.url), 0, inf, (item,))
            visited = await self._visitor.visit(turn, item)
            result = await loop.run_in_executor(self._thread, self._keep, visited, state)
            self._learn(result)
            match result.outcome:
                case VisitDone() as done:
                    return SavedVisit(done, state, is_resource), result.links
                case NotTried(not_before=time) | RetryLater(not_before=time) as later:
                    why = later.error if isinstance(later, RetryLater) else f"busy: {host_of(item.url)} must wait"
                    if max(time, self._clock()) > until:
                        return SavedVisit(self._refuse(item, why), state, is_resource), ()
                    item = msgspec.structs.replace(item, attempts=item.attempts + isinstance(later, RetryLater))
                    await self._wait(item.url, time)
                case None:
                    raise AssertionError("a visit has an outcome")

    def _keep_soon(self, result: VisitResult) -> None:
        """Archive what a browser fetched: the thread does one thing after the other, and the page comes last."""
        state = UrlState(known="unknown")
        self._kept.append(asyncio.get_running_loop().run_in_executor(self._thread, self._keep, result, state))
        self._learn(result)

    async def _wait(self, url: str, time: float) -> None:
        if (left := time - self._clock()) > 1:
            self._notice(f"waiting {left:,.0f} s until {host_of(url)} may be asked")
        while (left := time - self._clock()) > 0:
            await asyncio.sleep(left)

    def _learn(self, result: VisitResult) -> None:
        if result.robots:
            self.robots.append(result.robots)
        for capture in result.captures:
            host = host_of(capture.exchange.url)
            self._pace.learn(host, capture.exchange.seconds)
            self._last_sent[host] = self._clock() - capture.exchange.seconds

    def _refuse(self, item: ClaimedUrl, error: str) -> VisitDone:
        return VisitDone(LastVisit(url=item.url, time=self._clock(), error=error), is_page=False)

    def _leave_hosts(self) -> None:
        """Let a running crawl wait as if each page had been its own."""
        for host, sent in self._last_sent.items():
            self._requester.hold_host(f"https://{host}/", sent + self._pace.delay_of(f"https://{host}/"))


class _KnownRobots:
    """The robots.txt files that a crawl knows, as `RobotsCache` asks for them."""

    def __init__(self, find: FindUrl, excluded: Sequence[str]) -> None:
        self._find, self._excluded = find, excluded

    def robots(self, origin: str) -> RobotsEntry | None:
        return self._find(f"{origin}/").robots

    def excluded(self) -> Iterator[str]:
        return iter(self._excluded)


def for_saving(options: CrawlOptions) -> CrawlOptions:
    """Return the options of a crawl for one page that somebody named: in scope whatever it is, and not for long."""
    page_resources, politeness = options.rules.page_resources, options.politeness
    if not politeness.delay:  # without one nothing is reserved, and nobody asks whether a server wants to be left alone
        politeness = msgspec.structs.replace(politeness, delay=SHORTEST_DELAY)
    if page_resources:  # all of them wait for the last request, whatever that was, as short as between resources
        politeness = msgspec.structs.replace(politeness, delay=politeness.resource_delay, is_auto=False)
    return msgspec.structs.replace(
        options,
        rules=CrawlRules(
            scope="any",
            traps=False,
            skip_binary=False,
            sitemaps=False,
            page_resources=page_resources,
            resources_everywhere=options.rules.resources_everywhere,
        ),
        limits=msgspec.structs.replace(options.limits, attempts=ATTEMPTS, retry_wait=RETRY_WAIT),
        politeness=politeness,
    )
