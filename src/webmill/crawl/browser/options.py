"""What the processes of a crawl are told about browsers: which, when, and what a page may cost."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import msgspec

from webmill.crawl.browser.process import BrowserLimits, find_browser, require_browser
from webmill.crawl.sites import CrawlSites
from webmill.settings import CrawlSettings
from webmill.settings.browser_section import BrowserMode


class PageLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one page may cost. Time that it waits for hosts which must not be asked yet does not count."""

    seconds: float = 60.0
    longest: float = 1800.0  # seconds in all
    requests: int = 1000
    bytes: int = 200 << 20
    cpu: float = 60.0  # seconds of its main thread


class BrowserOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`mode` is for all pages but those of tables that say otherwise."""

    program: Path
    mode: BrowserMode
    tabs: int = 2
    limits: BrowserLimits = BrowserLimits()
    budget: PageLimits = PageLimits()
    behaviours: Path | None = None  # a folder
    scripts: tuple[str, ...] = ()  # run in each document before its own

    @classmethod
    def from_settings(cls, settings: CrawlSettings, *, behaviours: Path) -> Self | None:
        """Return what settings say, None where no page is to be shown. Misconfigured: there is no such browser."""
        modes = {settings.browser, *(rule.browser for rule in settings.sites if rule.browser)}
        if modes == {"never"}:
            return None
        program = require_browser(settings.browser_path) if "always" in modes else find_browser(settings.browser_path)
        if program is None:
            return None
        return cls(
            program=program,
            mode=settings.browser,
            tabs=settings.browser_tabs,
            limits=BrowserLimits(memory=settings.browser_memory),
            budget=PageLimits(
                seconds=settings.browser_time,
                cpu=settings.browser_time,
                bytes=settings.browser_bytes,
                requests=settings.max_page_resources,
            ),
            behaviours=behaviours,
        )


def mode_of(url: str, mode: BrowserMode, sites: CrawlSites | None) -> BrowserMode:
    """Return when a page is shown in a browser: as its site says, or as the crawl does."""
    rule = sites.find(url) if sites else None
    return rule.browser if rule and rule.browser else mode
