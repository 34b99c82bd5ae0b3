"""The browsers of one process: started when first needed, shared by a few tabs, replaced after some pages.

    pool = BrowserPool(program, BrowserLimits(), tabs=2)
    async with pool.lease() as browser:
        async with open_tab(browser.connection, browser.tabs, setup, on_request=…) as tab: ...
    await pool.close()

A browser that died is replaced by the next lease. One that has shown its pages is killed when its last tab is closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from webmill.crawl.browser.process import BrowserLimits, BrowserProcess
from webmill.crawl.browser.tab import BrowserTabs

log = logging.getLogger(__name__)


class SharedBrowser:
    """A browser and how many use it."""

    def __init__(self, process: BrowserProcess) -> None:
        self.process, self.connection = process, process.connection
        self.tabs = BrowserTabs(process.connection)
        self.users = self.pages = 0

    @property
    def user_agent(self) -> str:
        return self.process.version.user_agent


class BrowserPool:
    def __init__(self, program: Path, limits: BrowserLimits, *, tabs: int) -> None:
        self._program, self._limits = program, limits
        self._slots, self._starting = asyncio.Semaphore(tabs), asyncio.Lock()
        self._current: SharedBrowser | None = None
        self._open: set[SharedBrowser] = set()

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[SharedBrowser]:
        """Give a browser for one page. Unavailable: none starts."""
        async with self._slots:
            browser = await self._take()
            try:
                yield browser
            finally:
                browser.users -= 1
                await asyncio.shield(self._settle(browser))

    async def close(self) -> None:
        for browser in list(self._open):
            await self._end(browser)

    async def _take(self) -> SharedBrowser:
        async with self._starting:
            current = self._current
            if current is None or not current.process.is_alive or current.pages >= self._limits.pages:
                current = self._current = await self._start()
            current.users += 1
            current.pages += 1
            return current

    async def _start(self) -> SharedBrowser:
        browser = SharedBrowser(await BrowserProcess.start(self._program, self._limits))
        self._open.add(browser)
        await browser.tabs.begin()
        log.info("a browser starts", extra={"pid": browser.process.pid, "version": browser.process.version.product})
        return browser

    async def _settle(self, browser: SharedBrowser) -> None:
        is_dead = not browser.process.is_alive
        if is_dead or (browser.pages >= self._limits.pages and not browser.users):
            await self._end(browser)

    async def _end(self, browser: SharedBrowser) -> None:
        if browser in self._open:
            self._open.discard(browser)
            if self._current is browser:
                self._current = None
            await browser.process.kill()
