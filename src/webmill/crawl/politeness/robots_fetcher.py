"""robots.txt before anything else of a host: known, or asked for now, with its redirects."""

from __future__ import annotations

import asyncio

import msgspec

from webmill.crawl.fetch import FetchedResponse, FetchFailure
from webmill.crawl.frontier.base import RobotsEntry
from webmill.crawl.politeness.robots import MAX_REDIRECTS, Policy, Verdict, left_alone_until, make_entry
from webmill.crawl.politeness.robots_cache import RobotsKeeper
from webmill.crawl.scheduler.shard_store import Answered
from webmill.crawl.visit.page_reader import REDIRECTS, redirected
from webmill.crawl.visit.requester import Asked, Asker, Busy, Pace
from webmill.formats.site.robots import MAX_BODY
from webmill.formats.url.normalise import origin_of
from webmill.formats.warc.capture import Capture
from webmill.infra.clock import SteadyClock

LONGEST_WAIT = 600.0  # for a redirect's host to be free


class Learned(msgspec.Struct, frozen=True, kw_only=True):
    """`entry` is there when it was asked for now. Without a verdict the host was not free: ask again at `until`."""

    verdict: Verdict | None = None
    left_alone_until: float = 0.0  # by a robots.txt that is unreachable: as its server has said
    entry: RobotsEntry | None = None
    answers: tuple[Answered, ...] = ()
    until: float | None = None  # when the host may be asked again
    failed: FetchFailure | None = None  # why there was no answer just now


class RobotsAsking:
    def __init__(self, asker: Asker, keeper: RobotsKeeper, policy: Policy, *, clock: SteadyClock) -> None:
        self._asker, self._keeper, self._policy, self._clock = asker, keeper, policy, clock
        self.asked = 0

    def use(self, origin: str) -> None:
        self._keeper.use(origin)

    async def learn(self, origin: str, *, pace: Pace) -> Learned:
        verdict = await self._keeper.find(origin)
        before = self._keeper.last(origin)
        if verdict and before:
            return Learned(verdict=verdict, left_alone_until=left_alone_until(before, policy=self._policy))
        first = await self._asker.ask(f"{origin}/robots.txt", pace=pace, at_least=MAX_BODY + 1)
        if isinstance(first, Busy):
            return Learned(until=first.until)
        self.asked += 1
        hops, busy = await self._followed(f"{origin}/robots.txt", first, pace=pace)
        answers = tuple(_answered(hop) for hop in hops if isinstance(hop.answer, FetchedResponse))
        if busy:  # what it says is not known: nothing may be asked
            return Learned(answers=answers, until=busy.until)
        entry = make_entry(origin, hops[-1].answer, now=self._clock(), before=before, policy=self._policy)
        verdict = self._keeper.keep(entry)
        delay = Pace(pace.is_requisite, verdict.crawl_delay or 0.0).delay(self._asker.manners)
        until = max(first.sent + delay, hops[-1].free)
        if alone := left_alone_until(entry, policy=self._policy):
            self._asker.hold(origin, alone)
        return Learned(
            verdict=verdict,
            left_alone_until=alone,
            entry=entry,
            answers=answers,
            until=max(until, alone) if delay or alone else None,
            failed=hops[-1].answer if isinstance(hops[-1].answer, FetchFailure) else None,
        )

    async def _followed(self, url: str, asked: Asked, *, pace: Pace) -> tuple[list[Asked], Busy | None]:
        hops = [asked]
        while len(hops) <= MAX_REDIRECTS and (url := _target(url, hops[-1])):
            if await self._keeper.excludes(url):
                break
            next_hop = await self._patiently(url, pace=pace)
            if isinstance(next_hop, Busy):
                return hops, next_hop
            hops.append(next_hop)
        return hops, None

    async def _patiently(self, url: str, *, pace: Pace) -> Asked | Busy:
        """The host that a redirect leads to has a delay of its own, which may be known."""
        known = await self._keeper.find(origin_of(url))
        pace = Pace(pace.is_requisite, (known and known.crawl_delay) or 0.0)
        deadline = self._clock() + LONGEST_WAIT
        while isinstance(asked := await self._asker.ask(url, pace=pace, at_least=MAX_BODY + 1), Busy):
            if asked.until > deadline:
                return asked
            await asyncio.sleep(max(0.0, asked.until - self._clock()))
        return asked


def _target(url: str, hop: Asked) -> str:
    """Where a redirect leads; empty when it is none, or leads nowhere."""
    if not isinstance(hop.answer, FetchedResponse) or hop.answer.head.status not in REDIRECTS:
        return ""
    location = hop.answer.head.headers.get("Location")
    return next(iter(redirected(url, location)), "") if location else ""


def _answered(hop: Asked) -> Answered:
    assert isinstance(hop.answer, FetchedResponse)
    capture = Capture(exchange=hop.answer.exchange, payload=hop.answer.payload, subset="robotstxt")
    return Answered(capture=capture, sent=hop.sent)
