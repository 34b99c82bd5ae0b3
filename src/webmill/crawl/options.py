"""What a crawl is told: plain values that travel to its processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, Self

import msgspec

from webmill.collection import Collection
from webmill.crawl.archive import Archive
from webmill.crawl.frontier.base import Frontier
from webmill.crawl.politeness.host_schedule import GateBook
from webmill.crawl.scheduler.domain_budget import Quota
from webmill.crawl.scheduler.inbox import Box
from webmill.settings import CrawlSettings

LONGEST_WAIT = 3600.0  # for a server that wants to be left alone
AGENT = "webmill"  # the name that robots.txt files know us by


class Manners(msgspec.Struct, frozen=True, kw_only=True):
    """How politely. Times in seconds, between the beginnings of two requests."""

    user_agent: str
    delay: float = 70.0  # to one registered domain and to one host
    domain_delay: float | None = None  # another for the domain: its hosts may be many, and none's in particular
    address_delay: float = 1.0  # to one address, which thousands of domains may share; never more than `delay`
    requisite_delay: float = 1.0  # before what belongs to a page; never more than `delay`
    max_crawl_delay: float = 60.0  # what a robots.txt may ask for
    max_retry_after: float = 86400.0
    obey_robots: bool = True
    obey_nofollow: bool = True
    window: float = 30.0  # a request must be on its way this soon after its time was booked

    @classmethod
    def of(cls, settings: CrawlSettings, *, user_agent: str) -> Self:
        return cls(
            user_agent=user_agent,
            delay=settings.delay,
            address_delay=settings.address_delay,
            requisite_delay=settings.page_resource_delay,
            max_crawl_delay=settings.max_crawl_delay,
            obey_robots=settings.robots,
            obey_nofollow=settings.nofollow,
        )

    @property
    def soon(self) -> float:
        """After any request to a domain or a host, until a requisite may be asked for there."""
        return min(self.delay, self.requisite_delay)

    @property
    def longest(self) -> float:
        """No gate is ever shut for longer."""
        return self.window + max(self.max_retry_after, self.delay, self.max_crawl_delay)

    @property
    def connect_time(self) -> float:
        """What of the window may go by until there is a connection, TLS included."""
        return min(20.0, 2 * self.window / 3)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """None: no limit."""

    pages: int | None = None
    pages_per_domain: int | None = None
    seconds: float | None = None
    bytes: int | None = None
    wait: float | None = None  # for anything to be asked: a run does not sleep for longer
    body: int = 64 << 20  # of one answer
    deadline: float = 120.0  # for one answer
    attempts: int = 4  # for one URL
    retry_wait: float = 60.0  # before the second attempt; later ones wait longer
    redirects: int = 10
    requisites: int = 1000  # of one page

    @classmethod
    def of(cls, settings: CrawlSettings) -> Self:
        return cls(
            pages=settings.max_pages,
            pages_per_domain=settings.max_pages_per_domain,
            seconds=settings.max_time,
            bytes=settings.max_bytes,
            wait=LONGEST_WAIT if settings.max_wait is None and not settings.refresh else settings.max_wait,
            body=settings.max_body,
            retry_wait=settings.retry_wait,
            requisites=settings.max_page_resources,
        )


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """Which addresses may be connected to."""

    allow_private: bool = False
    resolve: dict[str, tuple[str, int]] = {}  # instead of DNS
    tls: Literal["verify", "archive"] = "verify"


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """Which URLs belong to the crawl."""

    scope: Literal["host", "domain", "path", "any"] = "host"
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    depth: int | None = None
    traps: bool = True
    extensions: bool = True  # leave out what is no text by its name
    sitemaps: bool = True
    requisites: bool = False  # fetch what pages need to be seen, wherever it lies

    @classmethod
    def of(cls, settings: CrawlSettings) -> Self:
        return cls(
            scope=settings.scope,
            include=settings.include,
            exclude=settings.exclude,
            depth=settings.depth,
            traps=settings.traps,
            extensions=not settings.all_types,
            sitemaps=settings.sitemaps,
            requisites=settings.page_resources,
        )


class Refresh(msgspec.Struct, frozen=True, kw_only=True):
    """How often pages are visited again, in seconds. Off: each is visited once."""

    on: bool = False
    first: float = 86400.0
    least: float = 3600.0
    most: float = 30 * 86400.0

    @classmethod
    def of(cls, settings: CrawlSettings) -> Self:
        least = min(cls().least, settings.refresh_every)  # what was asked for is never too often
        return cls(on=settings.refresh, first=settings.refresh_every, least=least)


class Backends(msgspec.Struct, frozen=True):
    """How a process opens what it needs: functions of a module, since they travel by name."""

    frontier: Callable[[Path], Frontier]
    box: Callable[[Path], Box]
    gates: Callable[[Path], GateBook]
    quota: Callable[[Path, int | None], Quota]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    collection: Collection
    archive: Archive
    backends: Backends
    manners: Manners
    limits: Limits = Limits()
    reach: Reach = Reach()
    rules: Rules = Rules()
    refresh: Refresh = Refresh()
    settings: CrawlSettings = CrawlSettings()  # what the parts above do not say
    verbosity: int = 0
    log_format: str = "text"
    node: str = ""  # of many: in the names of its files

    @property
    def longest_rest(self) -> float | None:
        """When nothing can be asked for longer than this, the run is over. Its own pace is no reason to end it."""
        wait = self.limits.wait
        return None if wait is None else max(wait, self.manners.delay, self.manners.max_crawl_delay)

    @property
    def folder(self) -> Path:
        return self.collection.root / "frontier"

    @property
    def seeds(self) -> Path:
        return self.folder / "seeds.txt"

    def shard_folder(self, shard: int) -> Path:
        return self.folder / f"shard-{shard:02d}"

    @property
    def gates(self) -> Path:
        return self.folder / "gates.sqlite"

    def box(self, shard: int) -> Path:
        return self.folder / f"mail-{shard:02d}.sqlite"
