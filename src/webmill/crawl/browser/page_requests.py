"""The requests of one page: each is answered by the crawler's own fetcher, and archived before it is answered."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial

from webmill.crawl.browser.cdp import BrowserGone, CdpConnection, CdpError
from webmill.crawl.browser.fulfilment import fulfilment, mime_of, relation, sent_fields
from webmill.crawl.browser.messages import BrowserCookies, PausedRequest
from webmill.crawl.browser.options import PageLimits
from webmill.crawl.browser.page_records import MOST_URLS, LoadedUrl
from webmill.crawl.browser.resource_requests import (
    FoundRobots,
    PoliteResources,
    ResourceAnswer,
    ResourceRefusal,
    ResourceRequest,
)
from webmill.crawl.fetch import FetchedResponse
from webmill.crawl.politeness.session import Fields
from webmill.formats.warc.capture import Capture
from webmill.infra.clock import SteadyClock

MOST_BODY = 32 << 20  # bytes that a browser is given; the archive has more
MOST_POSTED = 4 << 20
MOST_ALIKE = 8  # requests of one path: those after them may be of a page that asks for ever, and nobody waits
STREAM_TIME = 3.0  # seconds of an answer that never ends
_WITHOUT_COOKIES = frozenset({"Image", "Font", "Stylesheet", "Media"})  # those of the jar are enough

KeepCaptures = Callable[[tuple[Capture, ...], FoundRobots | None], None]


class PageRequests:
    """Answers the paused requests of one tab. `document` is the answer that the crawler has already."""

    def __init__(
        self,
        connection: CdpConnection,
        resources: PoliteResources,
        budget: PageLimits,
        *,
        document: FetchedResponse,
        keep: KeepCaptures,
        clock: SteadyClock,
    ) -> None:
        self._connection, self._resources, self._budget = connection, resources, budget
        self._document, self._keep, self._clock = document, keep, clock
        self._until = clock() + budget.longest
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_first = True
        self.urls: dict[str, LoadedUrl] = {}
        self.cut: set[str] = set()
        self.requests = self.failed = self.bytes = 0
        self.navigations: list[str] = []  # of the page itself, after the first
        self.main_frame = ""
        self.quiet_since = time.monotonic()
        self._awaited = 0  # requests under way for which a page is not done yet
        self._asked: Counter[str] = Counter()

    @property
    def is_awaited(self) -> bool:
        """Tell whether a request is under way that is not just the next of a page which asks for ever."""
        return self._awaited > 0

    def is_quiet(self, seconds: float) -> bool:
        return not self._awaited and time.monotonic() - self.quiet_since >= seconds

    @property
    def page(self) -> str:
        return self._document.exchange.url

    def on_request(self, session: str, paused: PausedRequest) -> None:
        key = paused.request.url.partition("?")[0]
        self._asked[key] += 1
        self._begin(self._settle(session, paused), is_awaited=self._asked[key] <= MOST_ALIKE)

    async def fetch_more(self, urls: list[str]) -> None:
        """Fetch what the page would load elsewhere: other sizes of its images, icons, media that nobody has played."""
        wanted = [
            url for url in dict.fromkeys(urls) if url not in self.urls and url.startswith(("http://", "https://"))
        ]
        await asyncio.gather(*(self._fetch_extra(url) for url in wanted))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Coroutine[object, object, None], *, is_awaited: bool) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        self._awaited += is_awaited
        task.add_done_callback(partial(self._end, is_awaited=is_awaited))

    def _end(self, task: asyncio.Task[None], *, is_awaited: bool) -> None:
        self._tasks.discard(task)
        if is_awaited:
            self._awaited -= 1
            self.quiet_since = time.monotonic()
        if not task.cancelled() and (error := task.exception()):
            self.cut.add(f"internal: {error!r}"[:200])

    async def _settle(self, session: str, paused: PausedRequest) -> None:
        with suppress(BrowserGone, CdpError, TimeoutError):
            given = await self._answer(session, paused)
            method = "Fetch.fulfillRequest" if "responseCode" in given else "Fetch.failRequest"
            await self._connection.call(method, given, session=session)

    async def _answer(self, session: str, paused: PausedRequest) -> dict[str, object]:
        request, kind = paused.request, paused.resource_type
        is_page = kind == "Document" and paused.frame_id == self.main_frame
        if is_page and self._is_first:
            self._is_first = False
            self._note(request.url, kind, self._document)
            return fulfilment(paused.request_id, self._document)
        if is_page and request.url not in self.navigations:
            self.navigations.append(request.url)
        if not request.url.startswith(("http://", "https://")):
            return _refusal(paused, "scheme")
        wanted = ResourceRequest(
            url=request.url,
            kind=kind,
            method=request.method,
            headers=sent_fields(request, kind, page=self.page),
            body=request.body if request.method != "GET" else b"",
            cookies=await self._cookies(session, paused),
            seconds=STREAM_TIME if _is_stream(paused) else None,
        )
        answer = await self._fetch(wanted)
        if isinstance(answer, ResourceRefusal):
            return _refusal(paused, answer.reason)
        if len(answer.fetched.payload) > MOST_BODY:
            return _refusal(paused, "too_large")
        return fulfilment(paused.request_id, answer.fetched, range_field=request.header("Range"))

    async def _fetch(self, wanted: ResourceRequest) -> ResourceAnswer | ResourceRefusal:
        """Fetch within the budget, and hand over what is to be archived before anybody is given it."""
        if refused := self._refuse(wanted):
            answer: ResourceAnswer | ResourceRefusal = refused
        else:
            self.requests += 1
            answer = await self._resources.fetch(
                wanted, until=self._until, keep_robots=lambda found: self._keep(found.captures, found)
            )
        if isinstance(answer, ResourceRefusal):
            self.failed += 1
            self._list(wanted.url, LoadedUrl(type=wanted.kind.lower(), error=answer.reason))
            return answer
        fetched = answer.fetched
        if not answer.is_known:
            self.bytes += len(fetched.exchange.response)
            self._keep((self._capture(wanted, fetched),), None)
        self._note(wanted.url, wanted.kind, fetched)
        return answer

    def _refuse(self, wanted: ResourceRequest) -> ResourceRefusal | None:
        budget = self._budget
        if self.requests >= budget.requests:
            self.cut.add("requests")
        elif self.bytes >= budget.bytes:
            self.cut.add("bytes")
        elif len(wanted.body) > MOST_POSTED:
            return ResourceRefusal("too_large")
        else:
            return None
        return ResourceRefusal("budget")

    async def _fetch_extra(self, url: str) -> None:
        headers = (("Referer", self.page), ("Accept", "*/*"))
        await self._fetch(ResourceRequest(url=url, kind="Image", headers=headers))

    async def _cookies(self, session: str, paused: PausedRequest) -> Fields:
        """Return the cookies that scripts may have set, as the browser would send them."""
        if paused.resource_type in _WITHOUT_COOKIES:
            return ()
        given = {"urls": [paused.request.url]}
        try:
            found = await self._connection.call("Network.getCookies", given, returns=BrowserCookies, session=session)
        except (CdpError, TimeoutError):  # a worker has no such command
            return ()
        is_own = relation(paused.request.url, self.page) != "cross-site"
        return tuple((one.name, one.value) for one in found.cookies if is_own or one.same_site == "None")

    def _capture(self, wanted: ResourceRequest, fetched: FetchedResponse) -> Capture:
        is_found = fetched.head.status == 200
        return Capture(
            exchange=fetched.exchange,
            payload=fetched.payload,
            headers=fetched.head.headers,
            subset="warc" if is_found or wanted.method != "GET" else "crawldiagnostics",
            extra=(("via", self.page), ("resourceType", wanted.kind.lower())),
        )

    def _note(self, url: str, kind: str, fetched: FetchedResponse) -> None:
        self._list(url, LoadedUrl(status=fetched.head.status, mime=mime_of(fetched), type=kind.lower()))

    def _list(self, url: str, loaded: LoadedUrl) -> None:
        if len(self.urls) < MOST_URLS:
            self.urls.setdefault(url, loaded)


def _is_stream(paused: PausedRequest) -> bool:
    """Tell whether the answer is one that never ends."""
    accepted = paused.request.header("Accept")
    return paused.resource_type == "EventSource" or "text/event-stream" in accepted


def _refusal(paused: PausedRequest, reason: str) -> dict[str, object]:
    why = "BlockedByClient" if reason in ("budget", "robots", "excluded", "too_large") else "Failed"
    return {"requestId": paused.request_id, "errorReason": why}
