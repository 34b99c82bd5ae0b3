"""What is done with a page in a tab: wait, agree, scroll, click, wait again; then read and picture it."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from pathlib import Path

import msgspec

from webmill.crawl.browser.behaviours import SiteBehaviour
from webmill.crawl.browser.cdp import CdpError
from webmill.crawl.browser.messages import Screenshot
from webmill.crawl.browser.page_requests import PageRequests
from webmill.crawl.browser.tab import Tab

QUIET = 0.5  # seconds without a request: then a page is done with what it began
SHORTLY = 0.15  # the same after a step
POLL_INTERVAL = 0.04
MOST_WAITING = 10.0  # seconds for a page to be quiet
MOST_CLICKS = 10
READ_TIME = 10.0
THUMBNAIL_SCALE = 0.25
_IDLE = "new Promise((done) => requestIdleCallback(() => done(1), {timeout: 1000}))"
_TOP = "window.scrollTo({top: 0, behavior: 'instant'})"


def _script(name: str) -> str:
    return (Path(__file__).parent / "scripts" / name).read_text(encoding="utf-8")


SNAPSHOT, SCROLL, CLICK = _script("snapshot.js"), _script("scroll.js"), _script("click.js")


class PageSnapshot(msgspec.Struct):
    """What was read of a page."""

    url: str = ""
    title: str = ""
    lang: str = ""
    text: str = ""
    html: str = ""
    more: list[str] = []  # what it would load elsewhere
    height: int = 0
    view: bytes = b""
    thumbnail: bytes = b""


class PageVisit:
    def __init__(self, tab: Tab, requests: PageRequests, behaviour: SiteBehaviour) -> None:
        self._tab, self._requests, self._behaviour = tab, requests, behaviour

    async def show(self, url: str) -> None:
        """Open the page and do with it what a visitor would, until it asks for nothing more."""
        loader = await self._tab.navigate(url)
        await self._tab.reached(loader)
        await self._settle()
        if await self._click(self._behaviour.first):
            await self._quiet(SHORTLY)
        await self._scroll()
        for _ in range(MOST_CLICKS):
            before = self._requests.requests
            if not await self._click(self._behaviour.more):
                break
            await self._quiet(SHORTLY)
            if self._requests.requests == before:  # it opens and closes something
                break
            await self._scroll()
        await self._tab.evaluate(_TOP)
        await self._settle()

    async def finish(self) -> PageSnapshot:
        """Return what the page shows now. What cannot be read is left empty."""
        snapshot = PageSnapshot()
        try:
            written = await self._tab.evaluate(SNAPSHOT, timeout=READ_TIME)
            if isinstance(written, str):
                snapshot = msgspec.json.decode(written, type=PageSnapshot)
            snapshot.view = await self._picture({"format": "png", "optimizeForSpeed": True})
            snapshot.thumbnail = await self._picture(
                {
                    "format": "jpeg",
                    "quality": 70,
                    "clip": {"x": 0, "y": 0, "width": 1280, "height": 1024, "scale": THUMBNAIL_SCALE},
                }
            )
        except (CdpError, TimeoutError, msgspec.MsgspecError):
            self._requests.cut.add("picture" if snapshot.html else "snapshot")
        return snapshot

    async def _picture(self, how: dict[str, object]) -> bytes:
        taken = await self._tab.call("Page.captureScreenshot", how, returns=Screenshot, timeout=READ_TIME)
        assert isinstance(taken, Screenshot)
        return b64decode(taken.data)

    async def _settle(self) -> None:
        """Wait until nothing is asked for, and the page has had the time to ask for more."""
        await self._quiet(QUIET - SHORTLY)
        try:
            await self._tab.evaluate(_IDLE, timeout=3.0, awaits=True)
        except (CdpError, TimeoutError):  # it has left for another document, or is busy
            return
        await self._quiet(SHORTLY)

    async def _quiet(self, seconds: float) -> None:
        await asyncio.sleep(seconds)  # what was just done shows first
        waited = 0.0
        while not self._requests.is_quiet(seconds) and waited < MOST_WAITING:
            await asyncio.sleep(POLL_INTERVAL)
            if not self._requests.is_awaited:
                waited += POLL_INTERVAL

    async def _scroll(self) -> None:
        for _ in range(self._behaviour.scrolls):
            if not await self._run(SCROLL):
                return
            await self._quiet(SHORTLY)

    async def _click(self, rules: tuple[dict[str, str], ...]) -> bool:
        if not rules:
            return False
        return bool(await self._run(f"({CLICK})({msgspec.json.encode(rules).decode()})"))

    async def _run(self, script: str) -> object:
        try:
            return await self._tab.evaluate(script)
        except CdpError:  # its document is being replaced
            return None
