"""Answer the requests of a page as a crawler may: robots.txt, the times of hosts, vetted addresses, cookies, limits.

    resources = PoliteResources(requester, robots, may_fetch=scope.decide_resource, clock=clock)
    answer = await resources.fetch(ResourceRequest(url="https://example.org/a.js", kind="Script"), until=clock() + 60)

What pages share (scripts, styles, images, fonts) is fetched once and kept for the next page, within bounds.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from webmill.crawl.fetch import FetchedResponse, FetchFailure
from webmill.crawl.frontier.base import RobotsEntry
from webmill.crawl.page.url_joining import normalise
from webmill.crawl.politeness.requester import HostBusy, Requester, RequestMessage, RequestPacing
from webmill.crawl.politeness.retries import retry_after
from webmill.crawl.politeness.robots import RobotsVerdict, robots_path
from webmill.crawl.politeness.robots_fetcher import RobotsCheck, RobotsFetcher
from webmill.crawl.politeness.session import Fields
from webmill.errors import BadInput
from webmill.formats.url.normalise import host_of, origin_of
from webmill.formats.warc.capture import Capture
from webmill.infra.clock import SteadyClock

MOST_HOSTS = 10_000
LEFT_ALONE = 60.0  # seconds for a host that is busy, and does not say for how long
SHARED = frozenset({"Script", "Stylesheet", "Image", "Font", "Media", "Manifest"})
CACHE_BYTES = 96 << 20  # of one process
CACHE_LIFE = 6 * 3600.0  # seconds
_UNSHARED = ("no-store", "private")


class ResourceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a page. `kind` is what the browser wants it for: Script, Image, XHR …"""

    url: str
    kind: str
    method: str = "GET"
    headers: Fields = ()
    body: bytes = b""
    cookies: Fields = ()
    seconds: float | None = None


class ResourceRefusal(msgspec.Struct, frozen=True):
    """Why there is no answer."""

    reason: str


class ResourceAnswer(msgspec.Struct, frozen=True):
    """An answer. `is_known`: an earlier page has had it, and it is in the archive."""

    fetched: FetchedResponse
    is_known: bool = False


class FoundRobots(msgspec.Struct, frozen=True):
    """A robots.txt that was fetched on the way: to be archived, and to be kept."""

    captures: tuple[Capture, ...]
    entry: RobotsEntry | None


KeepRobots = Callable[[FoundRobots], None]


class PoliteResources:
    """Fetches for all pages of one process. `may_fetch` returns why a URL is not fetched, or None. `is_private`: pages
    have the user's storage."""

    def __init__(
        self,
        requester: Requester,
        robots: RobotsFetcher,
        *,
        may_fetch: Callable[[str], str | None],
        clock: SteadyClock,
    ) -> None:
        self.is_private = False
        self._requester, self._robots, self._may_fetch, self._clock = requester, robots, may_fetch, clock
        self._cache = ResourceCache(clock=clock)
        self._under_way: dict[str, asyncio.Event] = {}
        self._pages: OrderedDict[str, float] = OrderedDict()  # when the last page of a host was asked for

    @property
    def user_agent(self) -> str:
        return self._requester.politeness.user_agent

    def begin_page(self, url: str) -> None:
        """Note that a page was fetched now: its host is asked for what it needs no sooner than the delay allows."""
        self._pages[host_of(url)] = self._clock()
        if len(self._pages) > MOST_HOSTS:
            self._pages.popitem(last=False)

    async def fetch(
        self, request: ResourceRequest, *, until: float, keep_robots: KeepRobots
    ) -> ResourceAnswer | ResourceRefusal:
        """Return the answer to a request. `until` is when it is too late to send it."""
        try:
            url = normalise(request.url)
        except BadInput as error:
            return ResourceRefusal(error.reason)
        if reason := self._may_fetch(url):
            return ResourceRefusal(reason)
        if request.kind not in SHARED or request.method != "GET":
            return await self._fetch(url, request, until, keep_robots)
        while event := self._under_way.get(url):  # two tabs want the same script
            await event.wait()
        if found := self._cache.find(url):
            return ResourceAnswer(found, is_known=True)
        event = self._under_way[url] = asyncio.Event()
        try:
            answer = await self._fetch(url, request, until, keep_robots)
        finally:
            del self._under_way[url]
            event.set()
        if isinstance(answer, ResourceAnswer):
            self._cache.add(url, answer.fetched)
        return answer

    async def _fetch(
        self, url: str, request: ResourceRequest, until: float, keep_robots: KeepRobots
    ) -> ResourceAnswer | ResourceRefusal:
        verdict = await self._check_robots(url, until, keep_robots)
        if isinstance(verdict, ResourceRefusal):
            return verdict
        message = RequestMessage(request.method, request.body, request.cookies, request.seconds, self.is_private)
        pacing = RequestPacing(is_resource=True, crawl_delay=verdict.crawl_delay or 0.0)
        after_page = self._pages.get(host_of(url), 0.0) + self._requester.delay(url, pacing)
        if not await self._sleep_until(after_page, until):
            return ResourceRefusal("host_busy")
        while True:
            result = await self._requester.request(url, headers=request.headers, pacing=pacing, message=message)
            if not isinstance(result, HostBusy):
                break
            if not await self._sleep_until(result.until, until):
                return ResourceRefusal("host_busy")
        self._robots.mark_used(origin_of(url))
        if isinstance(result.answer, FetchFailure):
            return ResourceRefusal(result.answer.reason)
        self._heed(url, result.answer)
        return ResourceAnswer(result.answer)

    def _heed(self, url: str, fetched: FetchedResponse) -> None:
        """Leave a host alone that asks for it."""
        if fetched.head.status in (429, 503):
            longest = self._requester.politeness.max_retry_after
            wait = retry_after(fetched.head.headers.get("Retry-After"), now=self._clock(), longest=longest)
            self._requester.hold_host(url, self._clock() + (LEFT_ALONE if wait is None else wait))

    async def _check_robots(self, url: str, until: float, keep_robots: KeepRobots) -> RobotsVerdict | ResourceRefusal:
        if not self._requester.politeness.obey_robots:
            return RobotsVerdict()
        while True:
            check = await self._robots.check(origin_of(url), pacing=RequestPacing(is_resource=True))
            keep_found(check, keep_robots)
            if check.verdict is None:
                if not await self._sleep_until(check.free or 0.0, until):
                    return ResourceRefusal("host_busy")
                continue
            if not check.verdict.allows(robots_path(url)):
                is_down = check.verdict.state == "unreachable"
                return ResourceRefusal("robots_unreachable" if is_down else "robots")
            if check.fetched and check.free and not await self._sleep_until(check.free, until):
                return ResourceRefusal("host_busy")
            return check.verdict

    async def _sleep_until(self, time: float, until: float) -> bool:
        """Wait until a time; False when that is too late."""
        if max(time, self._clock()) > until:
            return False
        while (left := time - self._clock()) > 0:
            await asyncio.sleep(left)
        return True


def keep_found(check: RobotsCheck, keep: KeepRobots) -> None:
    if check.captures or check.fetched:
        keep(FoundRobots(check.captures, check.fetched))


class ResourceCache:
    """The answers that pages share, by URL; those that were not used for longest go first."""

    def __init__(self, *, clock: SteadyClock, most: int = CACHE_BYTES) -> None:
        self._clock, self._most, self._bytes = clock, most, 0
        self._answers: OrderedDict[str, tuple[float, FetchedResponse]] = OrderedDict()

    def find(self, url: str) -> FetchedResponse | None:
        found = self._answers.get(url)
        if found is None or self._clock() - found[0] > CACHE_LIFE:
            self.remove(url)
            return None
        self._answers.move_to_end(url)
        return found[1]

    def add(self, url: str, fetched: FetchedResponse) -> None:
        """Keep an answer, if it is one for everybody."""
        self.remove(url)
        if not _is_for_all(fetched) or _size(fetched) > self._most // 2:
            return
        self._answers[url] = (self._clock(), fetched)
        self._bytes += _size(fetched)
        while self._bytes > self._most:
            self.remove(next(iter(self._answers)))

    def remove(self, url: str) -> None:
        if found := self._answers.pop(url, None):
            self._bytes -= _size(found[1])


def _is_for_all(fetched: FetchedResponse) -> bool:
    headers = fetched.head.headers
    control = (headers.get("Cache-Control") or "").lower()
    varies = (headers.get("Vary") or "").lower()
    is_whole = fetched.head.status in (200, 301, 308, 404) and fetched.exchange.truncated is None
    return (
        is_whole
        and "set-cookie" not in headers
        and not any(word in control for word in _UNSHARED)
        and "cookie" not in varies
        and "*" not in varies
    )


def _size(fetched: FetchedResponse) -> int:
    return len(fetched.exchange.response) + len(fetched.payload) + 1024
