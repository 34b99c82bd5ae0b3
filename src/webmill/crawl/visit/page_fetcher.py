"""Fetch one page now, by all the rules of a crawl and without a frontier: for what reads known pages again and again.

    async with open_page_fetcher(schedule, store, politeness=…, limits=…, network=…, clock=clock) as fetcher:
        answer = await fetcher.get(url, headers=(("If-None-Match", etag),), until=clock() + 300)

robots.txt first, one request to a host at a time, each at a time that is reserved with everybody else on this machine;
redirects are followed, hop by hop by the same rules, and what may pass is tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from random import Random
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from webmill.crawl.fetch import FetchedResponse, FetchFailure
from webmill.crawl.frontier.base import RobotsEntry
from webmill.crawl.options import ROBOTS_NAME, CrawlLimits, NetworkAccess, Politeness
from webmill.crawl.page.url_joining import REDIRECTS, redirect_target
from webmill.crawl.politeness.requester import (
    HostBusy,
    Requester,
    RequestPacing,
    RequestResult,
    open_fetcher,
)
from webmill.crawl.politeness.retries import DAY, Retry, RetryPolicy, decide_answer, decide_failure, retry_after
from webmill.crawl.politeness.robots import INCOMPLETE_FLAWS, RobotsPolicy, RobotsVerdict, robots_path
from webmill.crawl.politeness.robots_fetcher import RobotsCache, RobotsFetcher, RobotsStore
from webmill.crawl.politeness.session import Fields
from webmill.forgotten import ForgottenFiles
from webmill.formats.url.normalise import origin_of
from webmill.infra.clock import SteadyClock
from webmill.infra.host_schedule.fixed_delays import HostSchedule, Reservation, ReservationUpdate

log = logging.getLogger(__name__)

GONE = frozenset({404, 410})
GOOD = frozenset({200, 304})
TO_SEND = 20.0  # seconds more than a response may take, for which a reserved host is nobody else's
ROBOTS_RETRY = 600.0  # seconds after which an unreachable robots.txt is fetched again, at the latest


class WritableRobotsStore(RobotsStore, Protocol):
    """Where robots.txt files are kept for the next time, and for other processes."""

    def keep_robots(self, entry: RobotsEntry) -> None: ...


class PageRefusal(Struct, frozen=True):
    """Why there is no page. `wait` is what the server asked for."""

    message: str
    is_retryable: bool = False
    is_gone: bool = False
    wait: float = 0.0


@asynccontextmanager
async def open_page_fetcher(
    schedule: HostSchedule,
    store: WritableRobotsStore,
    *,
    politeness: Politeness,
    limits: CrawlLimits,
    network: NetworkAccess,
    connections: int = 64,
    clock: SteadyClock,
    forgotten: ForgottenFiles | None = None,
) -> AsyncIterator[PageFetcher]:
    """Open a fetcher, and close it when all its reservations are written. Schedule and store are the caller's."""
    # No process owns a host, as one of a crawl does: until a response is there nobody else on this machine may ask.
    politeness = replace(politeness, window=limits.deadline + TO_SEND)
    fetcher = open_fetcher(politeness, limits, network, connections=connections)
    with ThreadPoolExecutor(1, thread_name_prefix="webmill-schedule") as thread:
        reservations = BackgroundReservations(schedule, thread, clock=clock)
        requester = Requester(fetcher, politeness, reservations, clock=clock, forgotten=forgotten)
        try:
            yield PageFetcher(requester, store, limits, clock=clock)
        finally:
            await fetcher.close()


class BackgroundReservations:
    """Reserves hosts in a thread, one after the other: an update is written before whatever is reserved after it."""

    def __init__(self, schedule: HostSchedule, thread: ThreadPoolExecutor, *, clock: SteadyClock) -> None:
        self._schedule, self._thread, self._clock = schedule, thread, clock

    async def reserve(self, reservation: Reservation) -> float | None:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._reserve, reservation)

    def _reserve(self, reservation: Reservation) -> float | None:
        return self._schedule.reserve({0: reservation}, now=self._clock(), longest=DAY).get(0)

    def update(self, keys: dict[str, ReservationUpdate]) -> None:
        self._thread.submit(self._schedule.update, [keys], clock=self._clock).add_done_callback(_log_failure)


def _log_failure(done: Future[None]) -> None:
    if error := done.exception():  # its hosts stay reserved for the whole window
        log.warning("a reservation was not updated", extra={"why": str(error)})


class PageFetcher:
    """Fetches pages politely. Any number of tasks of one event loop may use it."""

    def __init__(
        self, requester: Requester, store: WritableRobotsStore, limits: CrawlLimits, *, clock: SteadyClock
    ) -> None:
        self._requester, self._store, self._limits, self._clock = requester, store, limits, clock
        self._politeness = requester.politeness
        delay = self._politeness.max_crawl_delay
        policy = RobotsPolicy(agent=ROBOTS_NAME, max_delay=delay, longest_retry=ROBOTS_RETRY)
        self._robots = RobotsFetcher(requester, RobotsCache(store, policy, clock=clock), policy, clock=clock)
        self._retries = RetryPolicy(attempts=limits.attempts, first_wait=limits.retry_wait)
        self._random = Random().random  # noqa: S311 - it spreads waits

    async def get(self, url: str, *, headers: Fields = (), until: float) -> FetchedResponse | PageRefusal:
        """Return a whole response of status 200 or 304. `until` is when it is too late to send a request.

        Raises what the host schedule raises.
        """
        attempt = 1
        while True:
            found = await self._follow_redirects(url, headers, until)
            if isinstance(found, FetchedResponse) or not found.is_retryable or attempt >= self._limits.attempts:
                return found
            wait = max(found.wait, self._retries.wait(attempt, random=self._random()))
            if wait > self._politeness.max_retry_after or self._clock() + wait > until:
                return found
            await asyncio.sleep(wait)
            attempt += 1

    async def _follow_redirects(self, url: str, headers: Fields, until: float) -> FetchedResponse | PageRefusal:
        for _ in range(self._limits.redirects + 1):
            found = await self._request(url, headers, until)
            if isinstance(found, PageRefusal) or found.head.status not in REDIRECTS:
                return found if isinstance(found, PageRefusal) else self._check_answer(found)
            target = redirect_target(url, found.head)
            if not target:
                return PageRefusal("a redirect to nowhere")
            url = target
        return PageRefusal(f"more than {self._limits.redirects} redirects")

    async def _request(self, url: str, headers: Fields, until: float) -> FetchedResponse | PageRefusal:
        verdict = await self._check_robots(url, until)
        if isinstance(verdict, PageRefusal):
            return verdict
        pacing = RequestPacing(crawl_delay=verdict.crawl_delay or 0.0)
        result: RequestResult | HostBusy = HostBusy(0.0)
        while isinstance(result, HostBusy):
            if (late := await self._sleep_until(result.until, until)) is not None:
                return late
            result = await self._requester.request(url, headers=headers, pacing=pacing)
        self._robots.mark_used(origin_of(url))
        return self._refuse_failure(result.answer) if isinstance(result.answer, FetchFailure) else result.answer

    async def _check_robots(self, url: str, until: float) -> RobotsVerdict | PageRefusal:
        if not self._politeness.obey_robots:
            return RobotsVerdict()
        while (robots := await self._robots.check(origin_of(url), pacing=RequestPacing())).verdict is None:
            if (late := await self._sleep_until(robots.free or 0.0, until)) is not None:
                return late
        if robots.fetched:
            await asyncio.to_thread(self._store.keep_robots, robots.fetched)
            if robots.free is not None:  # it may ask for a longer delay than it was requested with
                self._requester.hold_host(url, robots.free)
        if robots.verdict.state == "unreachable":
            why = f": {robots.failed.reason}" if robots.failed else ""
            return PageRefusal(f"its robots.txt cannot be fetched{why}", is_retryable=True, wait=ROBOTS_RETRY)
        return robots.verdict if robots.verdict.allows(robots_path(url)) else PageRefusal("forbidden by robots.txt")

    async def _sleep_until(self, time: float, until: float) -> PageRefusal | None:
        if max(time, self._clock()) > until:
            return PageRefusal("no time left for it", is_retryable=True)
        while (left := time - self._clock()) > 0:  # whoever comes a millisecond early waits a whole delay more
            await asyncio.sleep(left)
        return None

    def _refuse_failure(self, failed: FetchFailure) -> PageRefusal:
        decision = decide_failure(failed.reason, 1, random=0.5)
        return PageRefusal(f"{failed.reason}: {failed.message}"[:500], is_retryable=isinstance(decision, Retry))

    def _check_answer(self, answer: FetchedResponse) -> FetchedResponse | PageRefusal:
        """Half a page would be taken for one from which the rest was removed."""
        status, cut = answer.head.status, answer.exchange.truncated
        decision = decide_answer(status, 1, random=0.5, truncated=cut)
        may_pass = isinstance(decision, Retry)
        if status not in GOOD:
            wait = self._hold_host(answer) if status in (429, 503) else 0.0
            return PageRefusal(f"status {status}", is_retryable=may_pass, is_gone=status in GONE, wait=wait)
        if cut is not None:
            return PageRefusal(f"the response was cut ({cut})", is_retryable=may_pass)
        if flaws := sorted(INCOMPLETE_FLAWS.intersection(answer.flaws)):
            return PageRefusal(f"the response is damaged ({', '.join(flaws)})")
        return answer

    def _hold_host(self, answer: FetchedResponse) -> float:
        """Return how long the server wants to be left alone. It is, by everybody, as long as we are willing to wait."""
        wait = retry_after(answer.head.headers.get("Retry-After"), now=self._clock()) or 0.0
        if held := min(wait, self._politeness.max_retry_after):
            self._requester.hold_host(answer.exchange.url, self._clock() + held)
        return wait
