"""Asking for one page: robots.txt first, at the time of its host, with redirects and a second try.

Built of the crawler's own parts (`Fetcher`, `Asker`, `RobotsAsking`), without a frontier.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import cast
from urllib.parse import urlsplit

from msgspec import Struct

from webmill.boards.cache import Cache
from webmill.boards.parsing import Source
from webmill.boards.types import Options
from webmill.crawl.fetch import Failed, Fetched, Fetcher
from webmill.crawl.frontier.base import Frontier
from webmill.crawl.retries import Patience, Retry, decide_answer, decide_failure, retry_after
from webmill.crawl.robots import Policy, Verdict
from webmill.errors import BadInput
from webmill.formats.urls import join
from webmill.infra.clock import SteadyClock
from webmill.pipeline.crawl.asking import Asked, Asker, Booker, Busy, Pace
from webmill.pipeline.crawl.options import AGENT
from webmill.pipeline.crawl.options import Manners as CrawlManners
from webmill.pipeline.crawl.page import REDIRECTS
from webmill.pipeline.crawl.robots import RobotsKeeper
from webmill.pipeline.crawl.robots_asking import RobotsAsking
from webmill.pipeline.crawl.visitor import path_of

HALF = frozenset({"truncated", "corrupt", "decode_limit", "bad_chunk"})  # flaws of a payload that is not whole
GONE = frozenset({404, 410})
UNCHANGED = 304
ROBOTS_AGAIN = 600.0  # seconds after which one that cannot be had is asked for again, at the latest


class Got(Struct, frozen=True):
    """`page` is None when it has not changed since the validators were given."""

    page: Source | None
    etag: str = ""
    modified: str = ""


class Refusal(Struct, frozen=True):
    """Why there is no page. `wait` is what the server asked for."""

    message: str
    is_retryable: bool = False
    is_gone: bool = False
    wait: float = 0.0


class _Moved(Struct, frozen=True):
    url: str


class Web:
    def __init__(self, fetcher: Fetcher, booker: Booker, cache: Cache, options: Options, *, clock: SteadyClock) -> None:
        self._options, self._cache, self._clock = options, cache, clock
        manners, limits = options.manners, options.limits
        told = CrawlManners(
            user_agent=manners.user_agent,
            delay=manners.domain_delay,  # what the asker keeps between requests to a registered domain
            address_delay=manners.address_delay,
            max_crawl_delay=manners.max_crawl_delay,
            window=limits.deadline + 20.0,  # until an answer is there nobody else on this machine may ask
        )
        policy = Policy(agent=AGENT, max_delay=manners.max_crawl_delay, longest_retry=ROBOTS_AGAIN)
        # Of a frontier it asks for nothing but robots.txt files, which the cache has.
        keeper = RobotsKeeper(cast("Frontier", cache), policy, clock=clock)
        self._asker = Asker(fetcher, told, booker, clock=clock)
        self._robots = RobotsAsking(self._asker, keeper, policy, clock=clock)
        self._patience = Patience(attempts=limits.attempts, first_wait=limits.retry_wait)
        self._random = Random().random  # noqa: S311 - it spreads waits

    async def get(self, url: str, *, etag: str = "", modified: str = "", until: float) -> Got | Refusal:
        """`until` is when it is too late to send a request. Raises what the gates raise."""
        attempt = 1
        while True:
            found = await self._followed(url, _conditions(etag, modified), until)
            if isinstance(found, Got) or not found.is_retryable or attempt >= self._options.limits.attempts:
                return found
            wait = max(found.wait, self._patience.wait(attempt, random=self._random()))
            if wait > self._options.manners.max_retry_after or self._clock() + wait > until:
                return found
            await asyncio.sleep(wait)
            attempt += 1

    async def _followed(self, url: str, headers: tuple[tuple[str, str], ...], until: float) -> Got | Refusal:
        for _ in range(self._options.limits.redirects + 1):
            found = await self._once(url, headers, until)
            if not isinstance(found, _Moved):
                return found
            url = found.url
        return Refusal(f"more than {self._options.limits.redirects} redirects")

    async def _once(self, url: str, headers: tuple[tuple[str, str], ...], until: float) -> Got | Refusal | _Moved:
        verdict = await self._verdict(url, until)
        if isinstance(verdict, Refusal):
            return verdict
        delay = max(self._options.manners.delay, verdict.crawl_delay or 0.0)
        asked = await self._patiently(url, headers, delay, until)
        if isinstance(asked, Refusal):
            return asked
        if isinstance(asked.answer, Failed):
            return self._failed(asked.answer)
        return self._answered(url, asked.answer)

    # --- robots.txt ---

    async def _verdict(self, url: str, until: float) -> Verdict | Refusal:
        if not self._options.manners.obey_robots:
            return Verdict()
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        while True:
            learned = await self._robots.learn(origin, pace=Pace(crawl_delay=self._options.manners.delay))
            if learned.verdict is not None:
                break
            if (late := await self._sleep_until(learned.until or 0.0, until)) is not None:
                return late
        if learned.entry:
            await asyncio.to_thread(self._cache.keep_robots, learned.entry)
            if learned.until is not None:  # it may ask for a longer delay than it was asked with
                self._asker.hold(url, learned.until)
        if learned.verdict.state == "unreachable":
            why = f": {learned.failed.reason}" if learned.failed else ""
            return Refusal(f"its robots.txt cannot be had{why}", is_retryable=True, wait=ROBOTS_AGAIN)
        if not learned.verdict.allows(path_of(url)):
            return Refusal("forbidden by robots.txt")
        return learned.verdict

    # --- the time of a host ---

    async def _patiently(
        self, url: str, headers: tuple[tuple[str, str], ...], delay: float, until: float
    ) -> Asked | Refusal:
        while self._clock() <= until:
            asked = await self._asker.ask(url, headers=headers, pace=Pace(crawl_delay=delay))
            if isinstance(asked, Asked):
                return asked
            assert isinstance(asked, Busy)
            if (late := await self._sleep_until(asked.until, until)) is not None:
                return late
        return _late()

    async def _sleep_until(self, time: float, until: float) -> Refusal | None:
        if time > until:
            return _late()
        while (left := time - self._clock()) > 0:  # whoever comes a millisecond early waits a whole delay more
            await asyncio.sleep(left)
        return None

    # --- answers ---

    def _failed(self, failed: Failed) -> Refusal:
        choice = decide_failure(failed.reason, 1, random=0.5)
        return Refusal(f"{failed.reason}: {failed.message}"[:500], is_retryable=isinstance(choice, Retry))

    def _answered(self, url: str, answer: Fetched) -> Got | Refusal | _Moved:
        status, headers = answer.head.status, answer.head.headers
        if status in REDIRECTS:
            return _target(url, headers.get("Location") or "")
        if status == UNCHANGED:
            return Got(None)
        if status != 200:
            return self._refused(url, answer)
        if (wrong := _flaw(answer)) is not None:
            return wrong
        page = Source(url, answer.payload, headers.get("Content-Type") or "")
        return Got(page, (headers.get("ETag") or "")[:500], (headers.get("Last-Modified") or "")[:100])

    def _refused(self, url: str, answer: Fetched) -> Refusal:
        status = answer.head.status
        wait = 0.0
        if status in (429, 503):
            wait = retry_after(answer.head.headers.get("Retry-After"), now=self._clock()) or 0.0
            held = min(wait, self._options.manners.max_retry_after)
            if held:
                self._asker.hold(url, self._clock() + held)
        is_retryable = isinstance(decide_answer(status, 1, random=0.5), Retry)
        return Refusal(f"status {status}", is_retryable=is_retryable, is_gone=status in GONE, wait=wait)


def _conditions(etag: str, modified: str) -> tuple[tuple[str, str], ...]:
    if etag:
        return (("If-None-Match", etag),)
    return (("If-Modified-Since", modified),) if modified else ()


def _late() -> Refusal:
    return Refusal("no time left for this board", is_retryable=True)


def _target(url: str, location: str) -> _Moved | Refusal:
    try:
        return _Moved(join(url, location)) if location else Refusal("a redirect to nowhere")
    except BadInput as error:
        return Refusal(f"a redirect to nowhere: {error.message}")


def _flaw(answer: Fetched) -> Refusal | None:
    """Half a listing would be taken for one from which the rest was removed."""
    cut = answer.exchange.truncated
    if cut is not None:
        return Refusal(f"the answer was cut ({cut})", is_retryable=cut != "length")
    if flaws := sorted(HALF.intersection(answer.flaws)):
        return Refusal(f"the answer is damaged ({', '.join(flaws)})")
    kind = (answer.head.headers.get("Content-Type") or "").partition(";")[0].strip().lower()
    if kind and "html" not in kind and "xml" not in kind and kind != "text/plain":
        return Refusal(f"not a page but {kind[:60]}")
    return None
