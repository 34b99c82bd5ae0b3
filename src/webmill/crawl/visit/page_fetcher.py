"""One page now, by all the rules of a crawl and without a frontier: for what reads known pages again and again.

    async with opened(gates, store, manners=…, limits=…, reach=…, clock=clock) as fetcher:
        answer = await fetcher.get(url, headers=(("If-None-Match", etag),), until=clock() + 300)

robots.txt first, one request to a host at a time, each at a time that is booked with everybody else on this machine;
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
from webmill.crawl.options import AGENT, Limits, Manners, Reach
from webmill.crawl.politeness.host_schedule import Booking, GateBook, Kept
from webmill.crawl.politeness.retries import DAY, Patience, Retry, decide_answer, decide_failure, retry_after
from webmill.crawl.politeness.robots import HALF, Policy, Verdict
from webmill.crawl.politeness.robots_cache import RobotsKeeper, RobotsStore
from webmill.crawl.politeness.robots_fetcher import RobotsAsking
from webmill.crawl.visit.page_reader import REDIRECTS, redirected
from webmill.crawl.visit.requester import Asked, Asker, Busy, Pace, open_fetcher
from webmill.crawl.visit.url_visit import path_of
from webmill.formats.url.normalise import origin_of
from webmill.infra.clock import SteadyClock

log = logging.getLogger(__name__)

GONE = frozenset({404, 410})
GOOD = frozenset({200, 304})
TO_SEND = 20.0  # seconds more than an answer may take, for which a booked host is nobody else's
ROBOTS_AGAIN = 600.0  # seconds after which one that cannot be had is asked for again, at the latest

Fields = tuple[tuple[str, str], ...]


class RobotsFile(RobotsStore, Protocol):
    """Where robots.txt files are kept for the next time, and for other processes."""

    def keep_robots(self, entry: RobotsEntry) -> None: ...


class PageRefusal(Struct, frozen=True):
    """Why there is no page. `wait` is what the server asked for."""

    message: str
    is_retryable: bool = False
    is_gone: bool = False
    wait: float = 0.0


@asynccontextmanager
async def opened(
    gates: GateBook,
    store: RobotsFile,
    *,
    manners: Manners,
    limits: Limits,
    reach: Reach,
    connections: int = 64,
    clock: SteadyClock,
) -> AsyncIterator[DirectFetcher]:
    """A fetcher, closed when all that it has booked is written. The gates and the store are the caller's."""
    # No process owns a host, as one of a crawl does: until an answer is there nobody else on this machine may ask.
    manners = replace(manners, window=limits.deadline + TO_SEND)
    fetcher = open_fetcher(manners, limits, reach, connections=connections)
    with ThreadPoolExecutor(1, thread_name_prefix="webmill-gates") as thread:
        asker = Asker(fetcher, manners, GateBooker(gates, thread, clock=clock), clock=clock)
        try:
            yield DirectFetcher(asker, store, limits, clock=clock)
        finally:
            await fetcher.close()


class GateBooker:
    """Books in a thread, one after the other: a correction is written before whatever is booked after it."""

    def __init__(self, gates: GateBook, thread: ThreadPoolExecutor, *, clock: SteadyClock) -> None:
        self._gates, self._thread, self._clock = gates, thread, clock

    async def book(self, booking: Booking) -> float | None:
        """Raises what the file raises."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._book, booking)

    def _book(self, booking: Booking) -> float | None:
        return self._gates.book({0: booking}, now=self._clock(), longest=DAY).get(0)

    def correct(self, gates: dict[str, Kept]) -> None:
        self._thread.submit(self._gates.correct, [gates], clock=self._clock).add_done_callback(_tell_failure)


def _tell_failure(done: Future[None]) -> None:
    if error := done.exception():  # its hosts stay closed for the whole window
        log.warning("the time of a host was not corrected", extra={"why": str(error)})


class DirectFetcher:
    """Any number of tasks of one event loop may use it."""

    def __init__(self, asker: Asker, store: RobotsFile, limits: Limits, *, clock: SteadyClock) -> None:
        self._asker, self._store, self._limits, self._clock = asker, store, limits, clock
        self._manners = asker.manners
        policy = Policy(agent=AGENT, max_delay=self._manners.max_crawl_delay, longest_retry=ROBOTS_AGAIN)
        self._robots = RobotsAsking(asker, RobotsKeeper(store, policy, clock=clock), policy, clock=clock)
        self._patience = Patience(attempts=limits.attempts, first_wait=limits.retry_wait)
        self._random = Random().random  # noqa: S311 - it spreads waits

    async def get(self, url: str, *, headers: Fields = (), until: float) -> FetchedResponse | PageRefusal:
        """A whole answer of status 200 or 304. `until` is when it is too late to send a request.

        Raises what the gates raise.
        """
        attempt = 1
        while True:
            found = await self._followed(url, headers, until)
            if isinstance(found, FetchedResponse) or not found.is_retryable or attempt >= self._limits.attempts:
                return found
            wait = max(found.wait, self._patience.wait(attempt, random=self._random()))
            if wait > self._manners.max_retry_after or self._clock() + wait > until:
                return found
            await asyncio.sleep(wait)
            attempt += 1

    async def _followed(self, url: str, headers: Fields, until: float) -> FetchedResponse | PageRefusal:
        for _ in range(self._limits.redirects + 1):
            found = await self._once(url, headers, until)
            if isinstance(found, PageRefusal) or found.head.status not in REDIRECTS:
                return found if isinstance(found, PageRefusal) else self._judged(found)
            location = found.head.headers.get("Location")
            targets = redirected(url, location) if location else []
            if not targets:
                return PageRefusal("a redirect to nowhere")
            url = targets[0]
        return PageRefusal(f"more than {self._limits.redirects} redirects")

    async def _once(self, url: str, headers: Fields, until: float) -> FetchedResponse | PageRefusal:
        verdict = await self._verdict(url, until)
        if isinstance(verdict, PageRefusal):
            return verdict
        pace = Pace(crawl_delay=verdict.crawl_delay or 0.0)
        asked: Asked | Busy = Busy(0.0)
        while isinstance(asked, Busy):
            if (late := await self._sleep_until(asked.until, until)) is not None:
                return late
            asked = await self._asker.ask(url, headers=headers, pace=pace)
        self._robots.use(origin_of(url))
        return self._failed(asked.answer) if isinstance(asked.answer, FetchFailure) else asked.answer

    async def _verdict(self, url: str, until: float) -> Verdict | PageRefusal:
        if not self._manners.obey_robots:
            return Verdict()
        while (learned := await self._robots.learn(origin_of(url), pace=Pace())).verdict is None:
            if (late := await self._sleep_until(learned.until or 0.0, until)) is not None:
                return late
        if learned.entry:
            await asyncio.to_thread(self._store.keep_robots, learned.entry)
            if learned.until is not None:  # it may ask for a longer delay than it was asked with
                self._asker.hold(url, learned.until)
        if learned.verdict.state == "unreachable":
            why = f": {learned.failed.reason}" if learned.failed else ""
            return PageRefusal(f"its robots.txt cannot be had{why}", is_retryable=True, wait=ROBOTS_AGAIN)
        return learned.verdict if learned.verdict.allows(path_of(url)) else PageRefusal("forbidden by robots.txt")

    async def _sleep_until(self, time: float, until: float) -> PageRefusal | None:
        if max(time, self._clock()) > until:
            return PageRefusal("no time left for it", is_retryable=True)
        while (left := time - self._clock()) > 0:  # whoever comes a millisecond early waits a whole delay more
            await asyncio.sleep(left)
        return None

    def _failed(self, failed: FetchFailure) -> PageRefusal:
        choice = decide_failure(failed.reason, 1, random=0.5)
        return PageRefusal(f"{failed.reason}: {failed.message}"[:500], is_retryable=isinstance(choice, Retry))

    def _judged(self, answer: FetchedResponse) -> FetchedResponse | PageRefusal:
        """Half a page would be taken for one from which the rest was removed."""
        status, cut = answer.head.status, answer.exchange.truncated
        choice = decide_answer(status, 1, random=0.5, truncated=cut)
        may_pass = isinstance(choice, Retry)
        if status not in GOOD:
            wait = self._held(answer) if status in (429, 503) else 0.0
            return PageRefusal(f"status {status}", is_retryable=may_pass, is_gone=status in GONE, wait=wait)
        if cut is not None:
            return PageRefusal(f"the answer was cut ({cut})", is_retryable=may_pass)
        if flaws := sorted(HALF.intersection(answer.flaws)):
            return PageRefusal(f"the answer is damaged ({', '.join(flaws)})")
        return answer

    def _held(self, answer: FetchedResponse) -> float:
        """How long the server wants to be left alone; so it is, by everybody, as long as we are willing to wait."""
        wait = retry_after(answer.head.headers.get("Retry-After"), now=self._clock()) or 0.0
        if held := min(wait, self._manners.max_retry_after):
            self._asker.hold(answer.exchange.url, self._clock() + held)
        return wait
