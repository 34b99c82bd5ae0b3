"""robots.txt before anything else of a host: known, in memory or from the store, or fetched now, with its redirects."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from typing import Protocol

import msgspec

from webmill.crawl.fetch import FetchedResponse, FetchFailure
from webmill.crawl.frontier.base import RobotsEntry, domain_of
from webmill.crawl.page.url_joining import redirect_target
from webmill.crawl.politeness.requester import HostBusy, Requester, RequestPacing, RequestResult
from webmill.crawl.politeness.robots import (
    MAX_REDIRECTS,
    ParsedFiles,
    RobotsPolicy,
    RobotsVerdict,
    decide,
    left_alone_until,
    make_entry,
)
from webmill.formats.site.robots import MAX_BODY
from webmill.formats.url.normalise import origin_of
from webmill.formats.warc.capture import Capture
from webmill.infra.clock import SteadyClock

LONGEST_WAIT = 600.0  # for the host that a redirect leads to
MOST_ENTRIES = 50_000  # about 1 KiB each without the rules
PARSED_BYTES = 16 << 20  # of files whose rules are kept in memory; parsed they take several times that


class RobotsCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an origin's robots.txt. Without a verdict its host was busy: check again at `free`."""

    verdict: RobotsVerdict | None = None
    not_before: float = 0.0  # when the server of an unreachable robots.txt wants to be asked again
    fetched: RobotsEntry | None = None  # what to keep, when the file was asked for just now
    captures: tuple[Capture, ...] = ()  # responses to be archived
    free: float | None = None  # when the host may be asked again
    failed: FetchFailure | None = None  # why there was no response just now


class RobotsFetcher:
    def __init__(self, requester: Requester, cache: RobotsCache, policy: RobotsPolicy, *, clock: SteadyClock) -> None:
        self._requester, self._cache, self._policy, self._clock = requester, cache, policy, clock
        self.requests = 0

    def mark_used(self, origin: str) -> None:
        self._cache.mark_used(origin)

    async def check(self, origin: str, *, pacing: RequestPacing) -> RobotsCheck:
        """Return the verdict of an origin, from the cache or from its server."""
        verdict = await self._cache.find(origin)
        known = self._cache.entry(origin)
        if verdict and known:
            return RobotsCheck(verdict=verdict, not_before=left_alone_until(known, policy=self._policy))
        url = f"{origin}/robots.txt"
        first = await self._requester.request(url, pacing=pacing, at_least=MAX_BODY + 1)
        if isinstance(first, HostBusy):
            return RobotsCheck(free=first.until)
        self.requests += 1
        results, busy = await self._follow_redirects(url, first, pacing=pacing)
        captures = tuple(robots_capture(one.answer) for one in results if isinstance(one.answer, FetchedResponse))
        if busy:  # what it says is not known: nothing may be requested
            return RobotsCheck(captures=captures, free=busy.until)
        return self._learn(origin, results, captures, known, pacing)

    def _learn(
        self,
        origin: str,
        results: list[RequestResult],
        captures: tuple[Capture, ...],
        known: RobotsEntry | None,
        pacing: RequestPacing,
    ) -> RobotsCheck:
        last = results[-1]
        entry = make_entry(origin, last.answer, now=self._clock(), before=known, policy=self._policy)
        verdict = self._cache.add(entry)
        pacing = RequestPacing(pacing.is_resource, verdict.crawl_delay or 0.0)
        delay = self._requester.delay(origin, pacing)
        free = max(results[0].sent + delay, last.free)
        not_before = left_alone_until(entry, policy=self._policy)
        if not_before:
            self._requester.hold_host(origin, not_before)
        failed = last.answer if isinstance(last.answer, FetchFailure) else None
        # An address that we may not ask is no answer of a server: the next run may be allowed to.
        is_refused = failed is not None and failed.reason.startswith(("blocked_", "forgotten"))
        return RobotsCheck(
            verdict=verdict,
            not_before=not_before,
            fetched=None if is_refused else entry,
            captures=captures,
            free=max(free, not_before) if delay or not_before else None,
            failed=failed,
        )

    async def _follow_redirects(
        self, url: str, first: RequestResult, *, pacing: RequestPacing
    ) -> tuple[list[RequestResult], HostBusy | None]:
        results = [first]
        while len(results) <= MAX_REDIRECTS and (url := _target(url, results[-1])):
            if await self._cache.is_excluded(url):
                break
            result = await self._request_patiently(url, pacing=pacing)
            if isinstance(result, HostBusy):
                return results, result
            results.append(result)
        return results, None

    async def _request_patiently(self, url: str, *, pacing: RequestPacing) -> RequestResult | HostBusy:
        """Wait for the host that a redirect leads to. It has a delay of its own, which may be known."""
        known = await self._cache.find(origin_of(url))
        pacing = RequestPacing(pacing.is_resource, (known and known.crawl_delay) or 0.0)
        deadline = self._clock() + LONGEST_WAIT
        while True:
            result = await self._requester.request(url, pacing=pacing, at_least=MAX_BODY + 1)
            if not isinstance(result, HostBusy) or result.until > deadline:
                return result
            await asyncio.sleep(max(0.0, result.until - self._clock()))


def _target(url: str, result: RequestResult) -> str:
    """Return where a redirect leads; "" when the response is none, or leads nowhere."""
    return (redirect_target(url, result.answer.head) or "") if isinstance(result.answer, FetchedResponse) else ""


def robots_capture(answer: FetchedResponse) -> Capture:
    return Capture(exchange=answer.exchange, payload=answer.payload, subset="robotstxt")


class RobotsStore(Protocol):
    """Where robots.txt files are kept across restarts: a frontier."""

    def robots(self, origin: str) -> RobotsEntry | None: ...

    def excluded(self) -> Iterator[str]:
        """Yield the domains that are never asked for anything."""
        ...


class RobotsCache:
    def __init__(self, store: RobotsStore, policy: RobotsPolicy, *, clock: SteadyClock) -> None:
        self._store, self._policy, self._clock = store, policy, clock
        self._files = ParsedFiles(most_bytes=PARSED_BYTES)
        self._entries: OrderedDict[str, RobotsEntry] = OrderedDict()
        self._unused: set[str] = set()  # origins that were asked for nothing since their file was fetched

    async def find(self, origin: str) -> RobotsVerdict | None:
        """Return the verdict of an origin, or None when its file must be fetched (again)."""
        if origin not in self._entries:
            entry = await asyncio.to_thread(self._store.robots, origin)
            if entry is None:
                return None
            self._remember(entry)
        entry = self._entries[origin]
        self._entries.move_to_end(origin)
        return self._verdict(entry) if self._clock() < self._valid_until(entry) else None

    def _valid_until(self, entry: RobotsEntry) -> float:
        """A file is valid for the page that it was fetched for, however long that must wait: up to a day."""
        return entry.fetched + self._policy.max_age if entry.origin in self._unused else entry.expires

    def mark_used(self, origin: str) -> None:
        """A page of the origin is requested now."""
        self._unused.discard(origin)

    async def is_excluded(self, url: str) -> bool:
        """Tell whether the URL's domain is never asked for anything, its robots.txt included."""
        domain = domain_of(url)
        return await asyncio.to_thread(lambda: domain in self._store.excluded())

    def entry(self, origin: str) -> RobotsEntry | None:
        """Return the file as it was last fetched, also when it has expired."""
        return self._entries.get(origin)

    def add(self, entry: RobotsEntry) -> RobotsVerdict:
        """Remember a file that was fetched now, and return its verdict."""
        self._remember(entry)
        verdict = self._verdict(entry)
        if verdict.state != "unreachable":
            self._unused.add(entry.origin)
        return verdict

    def _remember(self, entry: RobotsEntry) -> None:
        self._entries[entry.origin] = entry
        if len(self._entries) > MOST_ENTRIES:
            self._unused.discard(self._entries.popitem(last=False)[0])

    def _verdict(self, entry: RobotsEntry) -> RobotsVerdict:
        return decide(entry, now=self._clock(), policy=self._policy, files=self._files)
