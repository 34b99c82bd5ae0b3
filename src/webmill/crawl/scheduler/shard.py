"""One process of a crawl: its domains, its sockets, its files. Answers are gathered and worked off in batches."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import msgspec

from webmill.crawl.frontier.base import ClaimedUrl, DomainTurn, NotTried, VisitDone
from webmill.crawl.options import Options
from webmill.crawl.politeness.host_schedule import Booking, Kept
from webmill.crawl.progress import Postponed, Snapshot
from webmill.crawl.scheduler.shard_store import Batch, Desk, Reply, Result
from webmill.crawl.visit.url_visit import Visitor
from webmill.errors import Unavailable

log = logging.getLogger(__name__)

GATHER = 0.02  # seconds in which answers come together before they are written
LOOK = 0.25  # between looks for mail and for words of the parent when there is nothing else to do
URLS = 16  # of one turn, when no delay lies between them
TELL = 0.1  # between two snapshots
GRACE = 10.0  # for requests that are under way when we stop
PAUSE = 5.0  # when the disk is full, before the next try


class Room(msgspec.Struct, frozen=True):
    """So many turns, each with so many URLs; of requisites alone when no page may be asked for."""

    turns: int = 0
    urls: int = 1
    requisites: bool = False


class Shard:
    """`tell` is called with a snapshot after every batch. `grant` and `stop` may be called at any time."""

    visitor: Visitor  # set before `run`: it books times with us

    def __init__(self, desk: Desk, options: Options, *, tell: Callable[[Snapshot], None]) -> None:
        self._desk, self._options, self._clock, self._tell = desk, options, desk.clock, tell
        self._batch = Batch()
        self._booked: dict[int, asyncio.Future[float | None]] = {}
        self._turns: dict[int, asyncio.Task[None]] = {}
        self._numbers = count()  # of bookings
        self._items: Counter[int] = Counter()  # in hand, by turn, that may be pages
        self._claiming = 0  # URLs that may come into our hands at this moment, likewise
        self._something = asyncio.Event()
        self._stopping, self._grace = False, GRACE
        self._postponed = Postponed()
        self.probe = 0
        self._told: tuple[object, ...] = ()
        self._told_at = 0.0
        self._wake: float | None = 0.0
        stats = desk.frontier.stats()
        self.snapshot = Snapshot(shard=desk.shard, pages=stats.pages, granted=stats.pages)

    # --- what the parent says ---

    def grant(self, pages: int) -> None:
        """In all, those before included."""
        self.snapshot.granted = pages
        self._something.set()

    def revoke(self) -> None:
        """Give back what is not needed for URLs in hand, nor for those that are being claimed."""
        needed = self._items.total() + self._claiming
        self.snapshot.granted = min(self.snapshot.granted, self.snapshot.pages + needed)
        self.snapshot.revoked += 1
        self._something.set()

    def stop(self, *, grace: float = GRACE) -> None:
        self._stopping, self._grace = True, grace
        self._something.set()

    # --- the loop ---

    async def run(self) -> None:
        """Until it is stopped. What is asked then may end; what is not asked yet, or takes long, goes back."""
        with ThreadPoolExecutor(1, thread_name_prefix="desk") as desk:
            try:
                while not self._stopping:
                    await self._cycle(desk)
                    await self._wait()
            finally:
                await self._put_down()
                await self._cycle(desk)
                self._tell(self.snapshot)

    async def _cycle(self, desk: ThreadPoolExecutor) -> None:
        probe = self.probe  # answered with what is found after it
        batch, self._batch = self._batch, Batch()
        batch.tokens, batch.is_last = list(self._turns), self._stopping
        room = Room() if self._stopping else self._room()
        batch.turns, batch.urls, batch.requisites = room.turns, room.urls, room.requisites
        self._claiming = 0 if room.requisites else room.turns * room.urls
        reply = await self._worked_off(batch, desk)
        self._answer(batch, reply)
        self._count(batch, reply)
        self._batch.results += reply.over
        if refused := sum(isinstance(one.outcome, VisitDone) for one in reply.over):
            self.visitor.refused["max_pages_per_domain"] += refused
        for turn in reply.turns:
            self._begin(turn, may_have_pages=not batch.requisites)
        self._claiming = 0
        self._wake = reply.errand if batch.requisites else reply.wake
        self._look_ahead(reply)
        self.snapshot.complaint = reply.complaint
        self.snapshot.probe = probe
        self._tell_now_and_then()

    def _look_ahead(self, reply: Reply) -> None:
        seen, now = self.snapshot, self._clock()
        is_busy = bool(self._turns or self._batch.results or not reply.mail_is_empty)
        seen.is_hungry = reply.wake is not None and reply.wake <= now
        seen.queue_age = max(0.0, now - reply.wake) if reply.wake is not None else 0.0
        seen.is_idle = not is_busy and self._is_far(reply.wake, now)
        seen.is_spent = not is_busy and self._is_far(reply.errand, now)
        seen.wake, seen.errand = reply.errand if seen.is_hungry else reply.wake, reply.errand
        seen.is_resting = not is_busy and (seen.wake is None or seen.wake > now)
        seen.awaited = self._postponed.find(seen.wake) if seen.is_resting else ""

    def _is_far(self, time: float | None, now: float) -> bool:
        """Never, or not within this run."""
        longest = self._options.longest_rest
        return time is None or (longest is not None and time - now > longest)

    def _tell_now_and_then(self) -> None:
        """At once when the parent may be waiting for it."""
        seen, now = self.snapshot, self._clock()
        state = (seen.is_idle, seen.is_spent, seen.is_hungry, seen.revoked, seen.probe, seen.pages >= seen.granted)
        if state != self._told or now - self._told_at > TELL:
            self._told, self._told_at = state, now
            self._tell(seen)

    async def _worked_off(self, batch: Batch, desk: ThreadPoolExecutor) -> Reply:
        """A disk that is full, or fails, stops everything until it takes what we have: nothing is given up."""
        while True:
            try:
                reply = await asyncio.get_running_loop().run_in_executor(desk, self._desk.work_off, batch)
            except Unavailable as error:
                self.snapshot.trouble = str(error)
                log.warning("cannot write", extra={"why": str(error), "waiting": len(batch.results)})
                self._tell(self.snapshot)
                if self._stopping:
                    raise
                await asyncio.sleep(PAUSE)
                batch.turns = 0
            else:
                self.snapshot.trouble = ""
                return reply

    async def _wait(self) -> None:
        """Until there is something to write or to claim."""
        if not (self._batch.results or self._batch.bookings):
            self._something.clear()
            try:
                async with asyncio.timeout(self._patience()):
                    await self._something.wait()
            except TimeoutError:
                return
        await asyncio.sleep(GATHER)

    def _patience(self) -> float:
        if self._wake is None or not self._room().turns:
            return LOOK
        return min(max(self._wake - self._clock(), GATHER), LOOK)

    def _room(self) -> Room:
        """What to claim, so that no budget can be passed."""
        free = self._options.settings.concurrency - len(self._turns)
        pages = self.snapshot.granted - self.snapshot.pages - self._items.total()
        urls = 1 if self._options.manners.delay else URLS
        if free <= 0:
            return Room()
        if pages <= 0:
            return Room(free, urls, requisites=True) if self._options.rules.requisites else Room()
        if pages < free * urls:
            urls = max(1, pages // free)
        return Room(min(free, pages // urls), urls)

    # --- turns ---

    def _begin(self, turn: DomainTurn, *, may_have_pages: bool) -> None:
        if may_have_pages:
            self._items[turn.token] = len(turn.items)
        task = asyncio.create_task(self._take(turn))
        self._turns[turn.token] = task
        task.add_done_callback(lambda _: self._turns.pop(turn.token))

    async def _take(self, turn: DomainTurn) -> None:
        last = turn.items[-1]
        for item in turn.items:
            result = await self._visited(turn, item)
            if item is last and result.next is None:
                result = msgspec.structs.replace(result, next=self._clock())
            self._postponed.note(turn.domain, *_times_of(result))
            self._batch.results.append(result)
            self._something.set()
            if result.next is not None or self._stopping:
                return

    async def _visited(self, turn: DomainTurn, item: ClaimedUrl) -> Result:
        try:
            return await self.visitor.visit(turn, item)
        except Unavailable as error:  # the frontier could not be asked: the desk says so
            log.warning("a visit waits", extra={"url": item.url, "why": str(error)})
            return Result(token=turn.token, outcome=NotTried(item.url), next=self._clock())
        except Exception as error:
            log.exception("a visit failed", extra={"url": item.url})
            return self.visitor.broken(turn, item, error)

    async def book(self, booking: Booking) -> float | None:
        """None: these times are ours, durably. Else when to try again."""
        if self._stopping:
            return self._clock()
        number = next(self._numbers)
        self._booked[number] = asyncio.get_running_loop().create_future()
        self._batch.bookings[number] = booking
        self._something.set()
        return await self._booked[number]

    def correct(self, gates: dict[str, Kept]) -> None:
        """Soon: what became of a booking."""
        self._batch.kept.append(gates)

    def _answer(self, batch: Batch, reply: Reply) -> None:
        for number in batch.bookings:
            future = self._booked.pop(number)
            if not future.done():
                future.set_result(reply.waits.get(number))
        for token in reply.lost & self._turns.keys():
            self._turns[token].cancel()

    async def _put_down(self) -> None:
        tasks = list(self._turns.items())
        for future in self._booked.values():
            if not future.done():
                future.set_result(self._clock())  # not now
        if tasks:
            await asyncio.wait([task for _, task in tasks], timeout=self._grace)
        for _, task in tasks:
            task.cancel()
        await asyncio.gather(*(task for _, task in tasks), return_exceptions=True)
        free = self._clock() + self._options.manners.delay
        settled = {result.token for result in self._batch.results if result.next is not None}
        self._batch.results += [
            Result(token=token, outcome=None, next=free) for token, _ in tasks if token not in settled
        ]
        self._batch.bookings.clear()
        self._booked.clear()

    # --- numbers ---

    def _count(self, batch: Batch, reply: Reply) -> None:
        snapshot = self.snapshot
        for result in batch.results:
            if not result.was_in_hand:
                continue
            if result.next is not None or result.token in reply.lost:
                self._items.pop(result.token, None)
            elif self._items[result.token]:
                self._items[result.token] -= 1
        snapshot.pages += reply.pages
        snapshot.links += reply.added
        if reply.excluded:
            self.visitor.refused["excluded_domain"] += reply.excluded
        snapshot.revisits += reply.revisits
        snapshot.work += len(batch.results) + len(reply.turns) + reply.added
        if reply.stats:
            stats = reply.stats
            snapshot.waiting, snapshot.visited, snapshot.expired = stats.waiting, stats.visited, stats.expired
            snapshot.domains, snapshot.domains_waiting = stats.domains, stats.domains_waiting
            self.visitor.fill(snapshot)
        snapshot.turns, snapshot.in_hand = len(self._turns), self._items.total()


def _times_of(result: Result) -> Iterator[float]:
    """When its domain, and when its URL, may be asked again."""
    if result.next is not None:
        yield result.next
    if result.outcome is not None and not isinstance(result.outcome, VisitDone):
        yield result.outcome.not_before
