"""Read what a host sent beside all other hosts: large answers in a thread, and for what they cost the host rests."""

from __future__ import annotations

import asyncio
from time import thread_time

from webmill.crawl.browser.renderer import RenderedPage
from webmill.crawl.fetch import FetchedResponse
from webmill.crawl.frontier.base import ClaimedUrl
from webmill.crawl.politeness.requester import Requester
from webmill.crawl.visit.page_reader import PageReader, PageReading

# A host whose answers are expensive, by mistake or on purpose, rests: it gets a twentieth of the time of one process.
CPU_PER_ANSWER, CPU_REST = 0.02, 20.0  # seconds without consequences; seconds of rest for each second beyond
LARGE, CPU_PER_BYTE = 16 << 20, 1e-8  # what is beyond is decoded, compressed and written while others wait; measured
READ_AT_ONCE = 512 << 10  # bytes


class AnswerReader:
    """Reads answers by a `PageReader`, large ones one at a time."""

    def __init__(self, reader: PageReader, requester: Requester) -> None:
        self._reader, self._requester = reader, requester
        self._large = asyncio.Semaphore(1)

    async def read(
        self, fetched: FetchedResponse, item: ClaimedUrl, rendered: RenderedPage | None = None
    ) -> tuple[PageReading, float]:
        """Return what was read, and for how many seconds the host must rest. `rendered`: what a browser made of it."""
        if len(fetched.payload) <= READ_AT_ONCE and not (rendered and len(rendered.html) > READ_AT_ONCE):
            page, cpu = self._read(fetched, item, rendered)
        else:
            with self._requester.hold_memory(len(fetched.exchange.response) + len(fetched.payload)):
                async with self._large:
                    page, cpu = await asyncio.to_thread(self._read, fetched, item, rendered)
        cpu += fetched.cpu + max(0, len(fetched.exchange.response) - LARGE) * CPU_PER_BYTE
        return page, cpu * CPU_REST if cpu > CPU_PER_ANSWER else 0.0

    def _read(
        self, fetched: FetchedResponse, item: ClaimedUrl, rendered: RenderedPage | None
    ) -> tuple[PageReading, float]:
        began = thread_time()
        page = self._reader.read_rendered(fetched, item, rendered) if rendered else self._reader.read(fetched, item)
        return page, thread_time() - began
