"""Show one page in a browser until it is done, and return what came of it.

    renderer = PageRenderer(pool, resources, PageLimits(), clock=clock)
    page = await renderer.render(fetched, keep=keep)
    page.html, page.links, page.records

The document is the answer that the crawler has already; all else that the page asks for is fetched by the crawler's
rules (`page_requests.py`) and given to `keep` before the page sees it. A browser that dies is replaced, and the page
shown again; a page that kills its own is given up, and what was found of it is kept.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Coroutine
from datetime import UTC, datetime

import msgspec

from webmill.crawl.browser.behaviours import Behaviours
from webmill.crawl.browser.cdp import BrowserGone, CdpError
from webmill.crawl.browser.messages import ProcessMetrics
from webmill.crawl.browser.options import PageLimits
from webmill.crawl.browser.page_records import PageCounts, PageInfo, PageView, page_records
from webmill.crawl.browser.page_requests import KeepCaptures, PageRequests
from webmill.crawl.browser.page_visit import PageSnapshot, PageVisit
from webmill.crawl.browser.pool import BrowserPool, SharedBrowser
from webmill.crawl.browser.resource_requests import PoliteResources
from webmill.crawl.browser.tab import Tab, TabSetup, open_tab
from webmill.crawl.fetch import FetchedResponse
from webmill.errors import Unavailable
from webmill.formats.warc.capture import PageRecord
from webmill.infra.clock import SteadyClock
from webmill.model import Headers

log = logging.getLogger(__name__)

BROWSER_DEATHS = 5  # for one page: then it is not the page's turn
PAGE_CRASHES = 2  # of its own process
WATCH_INTERVAL, METRICS_INTERVAL = 0.25, 4.0  # seconds
HUNG_AFTER = 10.0  # seconds without an answer of the page's main thread
HTML = "text/html; charset=utf-8"


class RenderFailed(Exception):
    """No browser could show the page, which is not the page's fault."""


class PageCrashed(Exception):
    """The process of the page died: it took too much memory, or somebody killed it."""


class RenderedPage(msgspec.Struct, frozen=True, kw_only=True):
    """What a page was when its scripts were done. `html` is empty where nothing could be read of it, or where it is
    that of another page; `links` are those that are not in it: windows and pages that scripts have opened."""

    html: bytes = b""
    links: tuple[str, ...] = ()
    records: tuple[PageRecord, ...] = ()
    cut: tuple[str, ...] = ()
    error: str = ""

    def as_answer(self, fetched: FetchedResponse) -> FetchedResponse:
        """Return the answer with the document as the scripts left it."""
        if not self.html:
            return fetched
        fields = fetched.head.headers.without("Content-Type").with_added(("Content-Type", HTML))
        head = msgspec.structs.replace(fetched.head, headers=Headers(fields.pairs))
        return msgspec.structs.replace(fetched, head=head, payload=self.html)


class PageRenderer:
    """Shows pages, any number at a time: as many as the pool has tabs, the others wait."""

    def __init__(
        self,
        pool: BrowserPool,
        resources: PoliteResources,
        budget: PageLimits,
        *,
        behaviours: Behaviours,
        scripts: tuple[str, ...] = (),
        clock: SteadyClock,
    ) -> None:
        self.pool, self._resources, self._budget = pool, resources, budget
        self._behaviours, self._scripts, self._clock = behaviours, scripts, clock

    async def render(self, fetched: FetchedResponse, *, keep: KeepCaptures) -> RenderedPage:
        """Return the page of an answer. RenderFailed: no browser starts, or none stays alive."""
        deaths = crashes = 0
        while True:
            try:
                page = await self._show(fetched, keep)
            except PageCrashed as error:
                crashes += 1
                if crashes >= PAGE_CRASHES:
                    return self._crashed(fetched, str(error))
            except (BrowserGone, CdpError, TimeoutError, Unavailable) as error:
                deaths += 1
                log.warning("a browser failed", extra={"url": fetched.exchange.url, "why": repr(error)})
                if deaths >= BROWSER_DEATHS:
                    raise RenderFailed(f"{deaths} browsers failed: {error!r}") from error
            else:
                return page

    async def close(self) -> None:
        await self.pool.close()

    async def _show(self, fetched: FetchedResponse, keep: KeepCaptures) -> RenderedPage:
        async with self.pool.lease() as browser:
            requests = PageRequests(
                browser.connection, self._resources, self._budget, document=fetched, keep=keep, clock=self._clock
            )
            setup = TabSetup(user_agent=self._user_agent(browser), scripts=self._scripts)
            try:
                async with open_tab(browser.connection, browser.tabs, setup, on_request=requests.on_request) as tab:
                    requests.main_frame = tab.frame
                    began = time.monotonic()
                    visit = PageVisit(tab, requests, self._behaviours.of(fetched.exchange.url))
                    await PageWatch(tab, requests, self._budget, browser).run(visit.show(fetched.exchange.url))
                    snapshot = await visit.finish()
                    await self._fetch_more(requests, [*snapshot.more, *tab.notes.hidden])
                    return self._describe(tab, requests, snapshot, browser, seconds=time.monotonic() - began)
            finally:
                await requests.close()

    def _user_agent(self, browser: SharedBrowser) -> str:
        """Return what pages read in `navigator`: a browser that they know, and who drives it."""
        return f"{browser.user_agent.replace('HeadlessChrome', 'Chrome')} {self._resources.user_agent}"

    async def _fetch_more(self, requests: PageRequests, urls: list[str]) -> None:
        try:
            async with asyncio.timeout(self._budget.longest):
                await requests.fetch_more(urls)
        except TimeoutError:
            requests.cut.add("time")

    def _describe(
        self, tab: Tab, requests: PageRequests, snapshot: PageSnapshot, browser: SharedBrowser, *, seconds: float
    ) -> RenderedPage:
        url, moved = requests.page, requests.navigations
        info = _info(
            requests,
            title=snapshot.title,
            lang=snapshot.lang,
            popups=tuple(tab.notes.popups),
            downloads=tuple(tab.notes.downloads),
            websockets=tuple(tab.notes.sockets),
            final_url=snapshot.url if moved and snapshot.url != url else "",
            error="" if snapshot.html else "its document cannot be read",
            browser=browser.process.version.product,
            seconds=round(seconds, 3),
        )
        html = "" if moved else snapshot.html  # of another page, which is visited by itself
        view = PageView(html=html, text=snapshot.text, view=snapshot.view, thumbnail=snapshot.thumbnail)
        return RenderedPage(
            html=html.encode("utf-8", "replace"),
            links=tuple(dict.fromkeys((*tab.notes.popups, *moved))),
            records=page_records(info, view, date=datetime.now(UTC)),
            cut=info.cut,
            error=info.error,
        )

    def _crashed(self, fetched: FetchedResponse, why: str) -> RenderedPage:
        info = PageInfo(
            pageid=str(uuid.uuid4()),
            url=fetched.exchange.url,
            urls={},
            ts=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            counts=PageCounts(),
            cut=("memory",),
            error=why,
        )
        return RenderedPage(
            records=page_records(info, PageView(), date=datetime.now(UTC)), cut=info.cut, error=info.error
        )


def _info(requests: PageRequests, **values: object) -> PageInfo:
    counts = PageCounts(requests=requests.requests, failed=requests.failed, bytes=requests.bytes)
    return PageInfo(
        pageid=str(uuid.uuid4()),
        url=requests.page,
        urls=requests.urls,
        ts=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        counts=counts,
        cut=tuple(sorted(requests.cut)),
        **values,  # type: ignore[arg-type]
    )


class PageWatch:
    """Ends the work on a page that passes its budget, whose process dies, or whose browser does."""

    def __init__(self, tab: Tab, requests: PageRequests, budget: PageLimits, browser: SharedBrowser) -> None:
        self._tab, self._requests, self._budget, self._browser = tab, requests, budget, browser
        self._spent = 0.0
        self._metrics: asyncio.Task[float] | None = None
        self._measured = time.monotonic()

    async def run(self, work: Coroutine[object, object, None]) -> None:
        """Do the work; within the budget. PageCrashed, BrowserGone, CdpError."""
        task = asyncio.create_task(work)
        began = now = time.monotonic()
        try:
            while not task.done():
                ends: set[asyncio.Future[None] | asyncio.Future[str]] = {task, self._browser.connection.closed}
                await asyncio.wait(ends, timeout=WATCH_INTERVAL, return_when="FIRST_COMPLETED")
                before, now = now, time.monotonic()
                self._spent += 0.0 if self._requests.is_awaited else now - before
                self._raise_if_gone()
                over = "time" if now - began > self._budget.longest else self._over_budget(now)
                if over and not task.done():
                    await self._stop_page(over)
                    return
            await task
        except CdpError:
            self._raise_if_gone()
            raise
        finally:
            task.cancel()
            if self._metrics:
                self._metrics.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _raise_if_gone(self) -> None:
        if self._browser.connection.closed.done():
            raise BrowserGone(self._browser.connection.closed.result())
        if self._tab.has_crashed:
            raise PageCrashed("the process of the page died")

    def _over_budget(self, now: float) -> str:
        """Return what the page has had enough of; "": nothing."""
        if self._spent > self._budget.seconds:
            return "time"
        if self._metrics is None and now - self._measured > METRICS_INTERVAL:
            self._metrics, self._measured = asyncio.create_task(self._cpu()), now
        if self._metrics and self._metrics.done():
            cpu, self._metrics = self._metrics.result(), None
            return "cpu" if cpu > self._budget.cpu else ""
        return ""

    async def _cpu(self) -> float:
        """Return the seconds that the main thread of the page has worked; without an end where it does not answer."""
        try:
            found = await self._browser.connection.call(
                "Performance.getMetrics", returns=ProcessMetrics, session=self._tab.session, timeout=HUNG_AFTER
            )
        except TimeoutError:
            return float("inf")
        except (BrowserGone, CdpError):
            return 0.0
        return next((one.value for one in found.metrics if one.name == "TaskDuration"), 0.0)

    async def _stop_page(self, over: str) -> None:
        """Let no script of the page run any more, so that what it shows can be read."""
        self._requests.cut.add(over)
        self._tab.send("Runtime.terminateExecution")
        self._tab.send("Emulation.setScriptExecutionDisabled", {"value": True})
        self._tab.send("Page.stopLoading")
        await asyncio.sleep(0)
