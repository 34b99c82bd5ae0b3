"""Which pages of a crawl are shown in a browser, and what becomes of what that fetches."""

from __future__ import annotations

from collections.abc import Callable

from webmill.crawl.browser.behaviours import Behaviours, load_behaviours
from webmill.crawl.browser.need import needs_browser
from webmill.crawl.browser.options import BrowserOptions, mode_of
from webmill.crawl.browser.pool import BrowserPool
from webmill.crawl.browser.renderer import PageRenderer, RenderedPage, RenderFailed
from webmill.crawl.browser.resource_requests import FoundRobots, PoliteResources
from webmill.crawl.fetch import FetchedResponse
from webmill.crawl.frontier.base import PAGE_RESOURCE, SITEMAPS, ClaimedUrl, DomainTurn
from webmill.crawl.sites import CrawlSites
from webmill.crawl.visit.outcome import VisitResult
from webmill.formats.site.sitemap import looks_like_sitemap
from webmill.formats.warc.capture import Capture
from webmill.infra.clock import SteadyClock

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})

KeepResult = Callable[[VisitResult], None]


class BrowserVisits:
    """Shows pages of one process. `keep` gets, at once, what a page has fetched: it is archived with or before the page
    itself, whose own result says when it is done."""

    def __init__(
        self,
        options: BrowserOptions,
        resources: PoliteResources,
        *,
        sites: CrawlSites | None,
        keep: KeepResult = lambda _: None,
        clock: SteadyClock,
    ) -> None:
        resources.is_private = bool(options.scripts)
        self._mode, self._sites, self._resources, self.keep = options.mode, sites, resources, keep
        behaviours = load_behaviours(options.behaviours) if options.behaviours else Behaviours()
        pool = BrowserPool(options.program, options.limits, tabs=options.tabs)
        self._renderer = PageRenderer(
            pool, resources, options.budget, behaviours=behaviours, scripts=options.scripts, clock=clock
        )

    async def show(
        self, turn: DomainTurn, item: ClaimedUrl, fetched: FetchedResponse
    ) -> RenderedPage | RenderFailed | None:
        """Return what a page became by its scripts; None where it needs no browser, or (`auto`) where none could show
        it for the second time: better the page as it came than none."""
        if not self._wants(item, fetched):
            return None

        def keep(captures: tuple[Capture, ...], found: FoundRobots | None) -> None:
            robots = found.entry if found else None
            self.keep(
                VisitResult(token=turn.token, outcome=None, captures=captures, robots=robots, was_handed_out=False)
            )

        self._resources.begin_page(item.url)
        try:
            return await self._renderer.render(fetched, keep=keep)
        except RenderFailed as error:
            is_optional = mode_of(item.url, self._mode, self._sites) == "auto" and item.attempts > 1
            return None if is_optional else error

    async def close(self) -> None:
        await self._renderer.close()

    def _wants(self, item: ClaimedUrl, fetched: FetchedResponse) -> bool:
        mode = mode_of(item.url, self._mode, self._sites)
        is_page = fetched.head.status == 200 and item.priority != PAGE_RESOURCE and item.priority not in SITEMAPS
        if mode == "never" or not is_page or not _is_html(fetched):
            return False
        return mode == "always" or needs_browser(fetched.payload)


def _is_html(fetched: FetchedResponse) -> bool:
    named = (fetched.head.headers.get("Content-Type") or "").partition(";")[0].strip().lower()
    return named in HTML_TYPES and not looks_like_sitemap(fetched.payload)
