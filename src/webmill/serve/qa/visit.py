"""Shows one page in the browser, every request of it answered by `answers`, and tells what came of it."""

from __future__ import annotations

import asyncio
import time
from base64 import b64decode
from contextlib import suppress

import msgspec

from webmill.crawl.browser.cdp import BrowserGone, CdpError
from webmill.crawl.browser.fulfilment import DESTINATIONS, fulfilled
from webmill.crawl.browser.messages import PausedRequest, Screenshot
from webmill.crawl.browser.pool import SharedBrowser
from webmill.crawl.browser.tab import Tab, TabSetup, open_tab
from webmill.serve.qa.answers import Answerer, AskedRequest

QUIET = 0.5  # seconds without a request
POLL_INTERVAL = 0.05
LONGEST = 30.0  # seconds for one view of a page
LOAD_TIME = 10.0  # of those for its document: one that leaves at once is looked at where it has gone
WIDTH, HEIGHT, SCALE = 1280, 1024, 0.25
# Runs before the scripts of a page, and remembers those that fail.
NOTE_ERRORS = """(() => {
  const errors = [];
  const note = (text) => { if (errors.length < 100) errors.push(String(text).slice(0, 300)); };
  addEventListener('error', (event) => { if (event.message) note(event.message); });
  addEventListener('unhandledrejection', (event) => note(event.reason));
  Object.defineProperty(window, '__wmErrors', {get: () => errors});
})()"""
ERRORS = "window.__wmErrors ?? []"
TEXT = "document.documentElement ? (document.body || document.documentElement).innerText : ''"


class SeenPage(msgspec.Struct, kw_only=True):
    """A page as it was seen. `failure` says why it was not."""

    text: str = ""
    picture: bytes = b""
    asked: set[str] = msgspec.field(default_factory=set)
    missing: set[str] = msgspec.field(default_factory=set)
    leaks: set[str] = msgspec.field(default_factory=set)
    errors: list[str] = []
    failure: str = ""


class PageViewer:
    """Looks at pages, each in a tab of its own."""

    def __init__(self, browser: SharedBrowser, answers: Answerer) -> None:
        self._browser, self._answers = browser, answers
        self._tasks: set[asyncio.Task[None]] = set()
        self._quiet_since = time.monotonic()
        self.view = SeenPage()

    async def look_at(self, url: str) -> SeenPage:
        """Return the view. BrowserGone: the browser died."""
        setup = TabSetup(width=WIDTH, height=HEIGHT, scripts=(NOTE_ERRORS,))
        try:
            async with (
                asyncio.timeout(LONGEST),
                open_tab(self._browser.connection, self._browser.tabs, setup, on_request=self._on_request) as tab,
            ):
                await self._show(tab, url)
        except TimeoutError:
            self.view.failure = "it took too long"
        except CdpError as error:
            self.view.failure = f"the browser could not show it: {error}"[:300]
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        return self.view

    async def _show(self, tab: Tab, url: str) -> None:
        loader = await tab.navigate(url)
        with suppress(TimeoutError):
            async with asyncio.timeout(LOAD_TIME):
                await tab.reached(loader)
        deadline = time.monotonic() + LONGEST / 3
        while time.monotonic() < deadline and (self._tasks or time.monotonic() - self._quiet_since < QUIET):
            await asyncio.sleep(POLL_INTERVAL)
        self.view.text = str(await tab.evaluate(TEXT))
        errors = await tab.evaluate(ERRORS)
        self.view.errors = [str(error) for error in errors] if isinstance(errors, list) else []
        area = {"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT, "scale": SCALE}
        taken = await tab.call("Page.captureScreenshot", {"format": "png", "clip": area}, returns=Screenshot)
        assert isinstance(taken, Screenshot)
        self.view.picture = b64decode(taken.data)

    def _on_request(self, session: str, paused: PausedRequest) -> None:
        task = asyncio.create_task(self._settle(session, paused))
        self._tasks.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._quiet_since = time.monotonic()

    async def _settle(self, session: str, paused: PausedRequest) -> None:
        with suppress(BrowserGone, CdpError, TimeoutError):
            given = await self._answer(paused)
            method = "Fetch.fulfillRequest" if "responseCode" in given else "Fetch.failRequest"
            await self._browser.connection.call(method, given, session=session)

    async def _answer(self, paused: PausedRequest) -> dict[str, object]:
        request = paused.request
        if not request.url.startswith(("http://", "https://")):
            return {"requestId": paused.request_id, "errorReason": "AddressUnreachable"}
        self.view.asked.add(request.url)
        is_worker = paused.resource_type == "Other"  # the browser has no word for the script of a worker
        destination = "worker" if is_worker else DESTINATIONS.get(paused.resource_type, "empty")
        is_cors = paused.resource_type in ("XHR", "Fetch", "Font") or bool(request.header("origin"))
        answer = await self._answers(
            AskedRequest(
                url=request.url.partition("#")[0],
                method=request.method,
                headers=tuple(request.headers.items()),
                body=request.body if request.method != "GET" else b"",
                destination=destination,
                mode="navigate" if destination == "iframe" else "cors" if is_cors else "no-cors",
            )
        )
        if answer.missing:
            self.view.missing.add(answer.missing)
        if answer.leak:
            self.view.leaks.add(answer.leak)
            return {"requestId": paused.request_id, "errorReason": "AddressUnreachable"}
        return fulfilled(paused.request_id, status=answer.status, fields=answer.headers, body=answer.body)
