"""What a crawl is told: plain values that travel to its processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, Self

import msgspec

from webmill.crawl.archive import CrawlArchive
from webmill.crawl.browser.options import BrowserOptions
from webmill.crawl.fetch.route import NetworkRoute
from webmill.crawl.frontier.base import Frontier
from webmill.crawl.layout import CrawlFolder
from webmill.crawl.scheduler.budgets import DomainBudget
from webmill.crawl.scheduler.inbox import ShardInbox
from webmill.crawl.sites import CrawlSites
from webmill.crawl.visit.revisit_schedule import RevisitSchedule
from webmill.formats.preferences.content_usage import CURRENT, Revision
from webmill.formats.preferences.decision import Purpose
from webmill.infra.host_schedule.fixed_delays import HostSchedule
from webmill.infra.plugins.sources import PluginSource
from webmill.settings import CrawlSettings

LONGEST_WAIT = 3600.0  # for a server that wants to be left alone
AUTO_DELAY, CROWDED_DELAY = 30.0, 70.0  # the longest delays of `delay = "auto"`: with few domains, and with hundreds
SHORTEST_IDLE, LONGEST_IDLE = 15.0, 300.0  # seconds that a connection waits for its next request
IDLE_MARGIN = 10.0  # seconds from the time that a host may be asked again to that when it is
ROBOTS_NAME = "webmill"  # the product token that robots.txt files address us by


class Politeness(msgspec.Struct, frozen=True, kw_only=True):
    """How politely servers are asked. Delays are seconds between the beginnings of two requests."""

    user_agent: str
    delay: float = 70.0  # to one registered domain and to one host; by `is_auto` at most
    is_auto: bool = False  # it follows how fast a host answers, and how many domains wait (`politeness/pace.py`)
    domain_delay: float | None = None  # a delay of its own for a domain whose hosts belong to many people
    address_delay: float = 1.0  # to one address, which thousands of domains may share; never more than `delay`
    page_resource_delay: float = 1.0  # before a resource of a page; never more than `delay`
    max_crawl_delay: float = 60.0  # the longest delay that a robots.txt may ask for
    max_retry_after: float = 86400.0
    obey_robots: bool = True
    obey_nofollow: bool = True
    window: float = 30.0  # a request must be on its way this soon after its time was reserved

    @classmethod
    def from_settings(cls, settings: CrawlSettings, *, user_agent: str) -> Self:
        return cls(
            user_agent=user_agent,
            delay=AUTO_DELAY if settings.delay is None else settings.delay,
            is_auto=settings.delay is None,
            address_delay=settings.address_delay,
            page_resource_delay=settings.page_resource_delay,
            max_crawl_delay=settings.max_crawl_delay,
            obey_robots=settings.robots,
            obey_nofollow=settings.nofollow,
        )

    @property
    def resource_delay(self) -> float:
        """Return the delay between any request to a host and the next page resource from it."""
        return min(self.delay, self.page_resource_delay)

    @property
    def longest_reservation(self) -> float:
        """Return the longest time for which a host can be reserved."""
        return self.window + max(self.max_retry_after, self.longest_delay, self.max_crawl_delay)

    @property
    def longest_delay(self) -> float:
        return max(self.delay, CROWDED_DELAY) if self.is_auto else self.delay

    @property
    def idle_time(self) -> float:
        """Return how long a connection may wait for the next request: as long as the delay, unless that is long."""
        wanted = self.longest_delay + IDLE_MARGIN
        return wanted if SHORTEST_IDLE < wanted <= LONGEST_IDLE else SHORTEST_IDLE

    @property
    def connect_time(self) -> float:
        """Return the part of the window that connecting may take, TLS included."""
        return min(20.0, 2 * self.window / 3)


class CrawlLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Where a crawl, a domain, a page and a request end. None is no limit."""

    pages: int | None = None
    pages_per_domain: int | None = None
    seconds: float | None = None
    bytes: int | None = None
    wait: float | None = None  # a run ends when every remaining host must wait longer than this
    body: int = 64 << 20  # bytes of one response
    deadline: float = 120.0  # seconds for one response
    attempts: int = 4  # for one URL
    retry_wait: float = 60.0  # before the second attempt; later ones wait longer
    redirects: int = 10
    page_resources: int = 1000  # of one page

    @classmethod
    def from_settings(cls, settings: CrawlSettings) -> Self:
        return cls(
            pages=settings.max_pages,
            pages_per_domain=settings.max_pages_per_domain,
            seconds=settings.max_time,
            bytes=settings.max_bytes,
            wait=LONGEST_WAIT if settings.max_wait is None and not settings.refresh else settings.max_wait,
            body=settings.max_body,
            retry_wait=settings.retry_wait,
            page_resources=settings.max_page_resources,
        )


class NetworkAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Which addresses may be connected to, and how."""

    allow_private: bool = False
    resolve: dict[str, tuple[str, int]] = {}  # instead of DNS
    dns_servers: tuple[str, ...] = ()  # addresses, or `system`; none: those of this machine
    tls: Literal["verify", "archive"] = "verify"
    http2: bool = True
    route: NetworkRoute = NetworkRoute()

    @classmethod
    def from_settings(cls, settings: CrawlSettings) -> Self:
        return cls(
            allow_private=settings.allow_private,
            resolve=settings.resolve,
            dns_servers=settings.dns_servers,
            tls=settings.tls,
            http2=settings.http2 == "auto",
            route=NetworkRoute.from_settings(settings.proxy, settings.source_address),
        )


class CrawlRules(msgspec.Struct, frozen=True, kw_only=True):
    """Which URLs belong to the crawl."""

    scope: Literal["host", "domain", "path", "any"] = "host"
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    depth: int | None = None
    traps: bool = True
    trap_budget: int = 100  # requests of one pattern of URLs that may give nothing new; 0: any number
    domain_trap_budget: int = 500
    fold: bool = True  # drop parameters of links that never change a page
    skip_binary: bool = True  # skip URLs whose ending says that they are not text
    sitemaps: bool = True
    page_resources: bool = False  # fetch what pages need to be displayed, on whatever host
    resources_everywhere: bool = True  # of all pages, but those of tables that say otherwise; else only of such that do
    order: Literal["breadth", "best"] = "breadth"

    @classmethod
    def from_settings(cls, settings: CrawlSettings) -> Self:
        return cls(
            scope=settings.scope,
            include=settings.include,
            exclude=settings.exclude,
            depth=settings.depth,
            traps=settings.traps,
            trap_budget=settings.trap_budget,
            domain_trap_budget=settings.domain_trap_budget,
            fold=settings.fold_parameters,
            skip_binary=not settings.all_types,
            sitemaps=settings.sitemaps,
            page_resources=settings.page_resources or any(rule.page_resources for rule in settings.sites),
            resources_everywhere=settings.page_resources,
            order=settings.order,
        )


class UsagePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What a crawl is for, and how it learns what sites say of that. `site_files`: it asks each site for its
    `tdmrep.json` and `llms.txt`, and for the licences that its robots.txt names."""

    purpose: Purpose = "archive"
    revision: Revision = CURRENT
    site_files: bool = False

    @classmethod
    def from_settings(cls, settings: CrawlSettings) -> Self:
        asks = settings.purpose in ("training", "research") if settings.site_files is None else settings.site_files
        return cls(purpose=settings.purpose, revision=settings.usage_revision, site_files=asks)


class CrawlBackends(msgspec.Struct, frozen=True):
    """Functions by which each process opens its state. They travel by name, so they are functions of a module."""

    open_frontier: Callable[[Path], Frontier]
    open_inbox: Callable[[Path], ShardInbox]
    open_host_schedule: Callable[[Path], HostSchedule]
    open_domain_budget: Callable[[Path, int | None], DomainBudget]


class CrawlOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the processes of one crawl are told."""

    folder: CrawlFolder
    archive: CrawlArchive
    backends: CrawlBackends
    politeness: Politeness
    limits: CrawlLimits = CrawlLimits()
    network: NetworkAccess = NetworkAccess()
    rules: CrawlRules = CrawlRules()
    revisits: RevisitSchedule = RevisitSchedule()
    browser: BrowserOptions | None = None  # None: no page is shown in one
    usage: UsagePolicy = UsagePolicy()
    plugins: tuple[PluginSource, ...] = ()
    settings: CrawlSettings = CrawlSettings()  # what the parts above do not say
    verbosity: int = 0
    log_format: str = "text"
    node: str = ""  # the id of this node in a cluster: part of its files' names

    @property
    def longest_idle(self) -> float | None:
        """Return how long a run waits for the next due host before it ends. Its own delays never end it."""
        wait, own = self.limits.wait, CrawlSites(self.settings.sites).longest_delay()
        return None if wait is None else max(wait, own, self.politeness.longest_delay, self.politeness.max_crawl_delay)
