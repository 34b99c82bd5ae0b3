"""What the processes of a crawl are told about browsers: which, when, and what a page may cost."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import msgspec

from webmill.crawl.browser.process import BrowserLimits, find_browser, require_browser
from webmill.crawl.cookies.store import load_storage_state
from webmill.crawl.sites import CrawlSites
from webmill.formats.http.storage_state import OriginStorage
from webmill.settings import CrawlSettings
from webmill.settings.browser_section import BrowserMode
from webmill.settings.sites_section import COOKIE_MODES

BEHAVIOURS = "behaviors"  # a folder of the collection


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
    scripts: tuple[str, ...] = ()  # run in each document before its own: they hold the user's storage

    @classmethod
    def from_settings(cls, settings: CrawlSettings, *, root: Path) -> Self | None:
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
            behaviours=root / BEHAVIOURS,
            scripts=storage_scripts(settings, root),
        )


def storage_scripts(settings: CrawlSettings, root: Path) -> tuple[str, ...]:
    """Return what puts the local storage of the user's files into pages of their origins. Misconfigured: a file is
    none."""
    named = (settings.cookies, *(rule.cookies for rule in settings.sites))
    files = [root / name for name in named if name not in ("", *COOKIE_MODES)]
    states = [load_storage_state(path) for path in dict.fromkeys(files)]
    return tuple(storage_script(origin) for state in states for origin in state.origins if origin.local_storage)


def storage_script(origin: OriginStorage) -> str:
    """Return a script that a document of the origin runs before its own; what scripts have stored since, it leaves."""
    own = msgspec.json.encode(origin.origin).decode()
    pairs = msgspec.json.encode([(item.name, item.value) for item in origin.local_storage]).decode()
    return (
        f"if (location.origin === {own}) for (const [name, value] of {pairs}) "
        "if (localStorage.getItem(name) === null) localStorage.setItem(name, value);"
    )


def mode_of(url: str, mode: BrowserMode, sites: CrawlSites | None) -> BrowserMode:
    """Return when a page is shown in a browser: as its site says, or as the crawl does."""
    rule = sites.find(url) if sites else None
    return rule.browser if rule and rule.browser else mode
