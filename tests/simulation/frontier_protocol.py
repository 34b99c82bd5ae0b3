"""The embedded frontier under a crawler that is killed, paused and cut off power: files of lines, and SQLite.

The site is fixed, so the outcome is: every page that a link leads to is visited. Checked by the reader of
`tests/contracts/frontier_checker.py`, which shares no code with the product, after each kill, each power cut and at the
end: every URL that was accepted is waiting, in hand or visited, exactly one of them, and known; nothing else is. What
was settled as visited stays so. A page is fetched once, unless a kill, a lost lease or a retry lies between. A domain
is not offered before its time.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from tests.contracts.frontier_checker import Found
from tests.simulation import product
from tests.simulation.faults import FaultInjector, FaultRates, Service, pause
from tests.simulation.world import World
from webmill.crawl.frontier import url_queue_files
from webmill.crawl.frontier.base import (
    ClaimRequest,
    DomainTurn,
    FrontierUpdate,
    LastVisit,
    NotTried,
    Outcome,
    RetryLater,
    TurnOutcomes,
    VisitDone,
)
from webmill.crawl.frontier.file_frontier import FrontierLimits
from webmill.crawl.frontier.local import LocalFrontier
from webmill.errors import Unavailable
from webmill.infra.clock import Anchor, SteadyClock
from webmill.model import Link

# Everything happens often: checkpoints, merges, full files, files that are closed and opened again.
LIMITS = FrontierLimits(table=7, journal=2000, file=400, open_files=3, waiting=300, fan=2, hashes_per_word=64)
HOLD = 30.0


class Site:
    """Pages, and the links between them."""

    def __init__(self, world: World) -> None:
        rng = world.rng
        domains = [f"d{number}.com" for number in range(rng.randint(2, 4))]
        pages = [f"https://{rng.choice(domains)}/{'p' * rng.randint(0, 60)}{n}" for n in range(rng.randint(8, 30))]
        self.seeds = pages[:2]
        self.links = {page: [rng.choice(pages) for _ in range(rng.randint(0, 5))] for page in pages}

    def reached(self) -> set[str]:
        found: set[str] = set()
        new = list(self.seeds)
        while new:
            page = new.pop()
            if page not in found:
                found.add(page)
                new += self.links[page]
        return found


class FrontierModel:
    def __init__(self, world: World) -> None:
        self.world, rng = world, world.rng
        self.site = Site(world)
        self.machine = world.machine("machine")
        self.lease = rng.choice((20.0, 100.0))
        self.accepted: set[str] = set()
        self.offered: set[str] = set()  # in an update that may have been made
        self.visited: set[str] = set()
        self.fetches: Counter[str] = Counter()
        self.excuses: Counter[str] = Counter()  # for one more fetch
        self.in_hand: dict[int, DomainTurn] = {}
        self.not_before: dict[str, float] = {}
        self.is_over = False
        self.crawler = Service(world, self.machine, "crawler", self._crawl)
        mean = rng.choice((60.0, 200.0))
        rates = FaultRates(
            kills=rng.choice((0.0, mean, 4 * mean)),
            cuts=rng.choice((0.0, mean)),
            stalls=rng.choice((0.0, 2 * mean)),
            jumps=rng.choice((0.0, 4 * mean)),
            longest_stall=2 * self.lease,
            may_jump_forward=False,
        )
        self.faults = FaultInjector(world, [self.crawler], rates)
        self.faults.on_power_cut = lambda _: self.judge()
        url_queue_files._syncfs = rng.choice((product.syncfs, None))  # type: ignore[assignment]

    def folder(self) -> Path:
        return self.machine.disk.root / "frontier"

    # --- the crawler ---

    def _crawl(self) -> None:
        for turn in self.in_hand.values():
            self.excuses.update(item.url for item in turn.items)
        self.in_hand.clear()
        self.judge()
        with LocalFrontier(self.folder(), limits=LIMITS) as frontier:
            stored = frontier.notes().get("clock")
            clock = SteadyClock(msgspec.json.decode(stored, type=Anchor) if stored else None)
            self._commit(frontier, clock, self.site.seeds, [])
            while frontier.next_turn() is not None:
                self._visit_some(frontier, clock)
        self.is_over = True

    def _visit_some(self, frontier: LocalFrontier, clock: SteadyClock) -> None:
        rng, now = self.world.rng, clock()
        request = ClaimRequest(
            turns=rng.randint(1, 3), urls_per_turn=rng.randint(1, 4), now=now, lease=self.lease, hold=HOLD
        )
        turns = frontier.claim(request)
        for turn in turns:
            self._claimed(turn, now)
        if self.world.chance(0.1):
            frontier.compact()
        if not turns and not self.in_hand:
            pause(self.world, HOLD / 4)
            return
        pause(self.world, HOLD / 8)
        self._visit_turns(frontier, clock, turns)

    def _visit_turns(self, frontier: LocalFrontier, clock: SteadyClock, turns: list[DomainTurn]) -> None:
        """Fetch the URLs of turns, and settle most of them; some stay in hand, until their lease is over."""
        rng, settled, links = self.world.rng, list[TurnOutcomes](), list[str]()
        for turn in [*turns, *self._left_in_hand(turns)]:
            if self.world.chance(0.15):
                continue
            outcomes = [self._fetch(item.url, links, clock) for item in turn.items]
            is_whole = self.world.chance(0.8)
            kept = outcomes if is_whole else outcomes[:1]
            after = clock() + rng.choice((0.0, HOLD)) if is_whole or self.world.chance(0.5) else None
            settled.append(TurnOutcomes(turn.token, kept, next=after))
        if self.world.chance(0.2):
            for token in frontier.extend([turn.token for turn in turns], now=clock(), lease=self.lease):
                self._lost(token)
        self._commit(frontier, clock, links, settled)

    def _left_in_hand(self, turns: list[DomainTurn]) -> list[DomainTurn]:
        """Return turns of before, whose outcomes may come too late."""
        new = {turn.token for turn in turns}
        return [turn for token, turn in self.in_hand.items() if token not in new]

    def _claimed(self, turn: DomainTurn, now: float) -> None:
        world, domain = self.world, turn.domain
        world.note("crawler", f"claimed {len(turn.items)} of {domain}")
        early = self.not_before.get(domain, 0.0) - now
        world.check(early <= 0.001, f"{domain} was offered {early:.1f} s before its time")
        self.not_before[domain] = now + HOLD
        for other in [token for token, held in self.in_hand.items() if held.domain == domain]:
            world.check(self.in_hand[other].until <= now, f"{domain} has two turns")
            self._lost(other)
        self.in_hand[turn.token] = turn
        for item in turn.items:
            world.check(item.url in self.offered, f"{item.url} was never added")
            world.check(item.url not in self.visited, f"{item.url} was visited")

    def _fetch(self, url: str, links: list[str], clock: SteadyClock) -> Outcome:
        pause(self.world, 1.0)
        self.fetches[url] += 1
        self.world.counts["fetches"] += 1
        allowed = 1 + self.excuses[url]
        self.world.check(self.fetches[url] <= allowed, f"{url} was fetched {self.fetches[url]} times, not {allowed}")
        kind = self.world.rng.randrange(10)
        if kind == 0:
            return RetryLater(url, clock() + 10.0, "timeout: it failed")
        if kind == 1:
            return NotTried(url, clock() + 5.0)
        links += self.site.links[url]
        return VisitDone(LastVisit(url=url, time=clock(), status=200))

    def _commit(
        self, frontier: LocalFrontier, clock: SteadyClock, links: list[str], settled: list[TurnOutcomes]
    ) -> None:
        self.offered.update(links)
        for one in settled:
            turn = self.in_hand[one.token]
            if one.next is not None:
                self.not_before[turn.domain] = min(one.next, self.not_before[turn.domain])
        update = FrontierUpdate(
            links=[Link(url) for url in links],
            settled=settled,
            notes={"clock": msgspec.json.encode(clock.anchor()).decode()},
        )
        try:
            result = frontier.commit(update, now=clock())
        except Unavailable as error:
            self.world.fail(f"commit: {error}")
            return
        self.accepted.update(links)
        for one in settled:
            self._settled(one, is_lost=one.token in result.lost)

    def _settled(self, one: TurnOutcomes, *, is_lost: bool) -> None:
        turn = self.in_hand.pop(one.token)
        done = {outcome.url for outcome in one.outcomes if isinstance(outcome, VisitDone)}
        if is_lost:
            self.world.counts["leases lost"] += 1
            done = set()
        self.visited |= done
        self.excuses.update(item.url for item in turn.items if item.url not in done)
        rest = tuple(item for item in turn.items if item.url not in {outcome.url for outcome in one.outcomes})
        if rest and one.next is None and not is_lost:  # the turn goes on
            self.in_hand[one.token] = msgspec.structs.replace(turn, items=rest)

    def _lost(self, token: int) -> None:
        if turn := self.in_hand.get(token):
            self.excuses.update(item.url for item in turn.items)

    # --- judgement ---

    def judge(self) -> None:
        if not (self.folder() / "state.sqlite").exists():
            self.world.check(not self.accepted, "the frontier is gone")
            return
        try:
            found = Found(self.folder())
            everywhere = found.check()
        except Exception as error:
            if not self.accepted:
                return
            self.world.fail(f"the files are not whole: {type(error).__name__}: {str(error)[:200]}", cause=error)
            return
        missing = self.accepted - everywhere
        self.world.check(not missing, f"{len(missing)} accepted URLs are lost: {sorted(missing)[:1]}")
        self.world.check(everywhere <= self.offered, "there are URLs that nobody added")
        forgotten = self.visited - found.visited.keys()
        self.world.check(not forgotten, f"{len(forgotten)} visits are lost")

    def finish(self) -> None:
        world = self.world
        world.run(lambda: self.is_over, seconds=4000.0)
        self.faults.stop()
        if not world.run(lambda: self.is_over, seconds=86400.0):
            world.fail("the crawl did not end")
            return
        self.judge()
        visited = set(Found(self.folder()).visited)
        world.check(visited == self.site.reached(), f"{len(self.site.reached() - visited)} pages were not visited")


def simulate(world: World) -> None:
    FrontierModel(world).finish()
