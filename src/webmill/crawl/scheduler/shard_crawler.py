"""The loop of one shard: claim turns, visit their URLs, and store what came of them in batches."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec

from webmill.crawl.frontier.base import ClaimedUrl, DomainTurn, NotTried, VisitDone
from webmill.crawl.options import CrawlOptions
from webmill.crawl.politeness.requester import BatchedReservations, Requester
from webmill.crawl.progress import CrawlProgress, PostponedDomains
from webmill.crawl.scheduler.batch import (
    LINKS_AT_THE_END,
    LINKS_PER_BATCH,
    Batch,
    BatchReply,
    ClaimLimit,
    take_results,
)
from webmill.crawl.scheduler.budget_pace import BudgetPace
from webmill.crawl.scheduler.budgets import UNLIMITED, PageBudget
from webmill.crawl.scheduler.commands import error_of
from webmill.crawl.scheduler.shard_store import ShardStore
from webmill.crawl.visit.outcome import VisitResult
from webmill.crawl.visit.url_visitor import UrlVisitor
from webmill.crawl.yields.yield_store import PARKED
from webmill.errors import Unavailable

log = logging.getLogger(__name__)

GATHER_TIME = 0.02  # seconds in which results come together before they are stored
POLL_INTERVAL = 0.25  # between looks into the inbox when there is nothing else to do
WAITING_TURNS = 20  # that may wait for a name, for each that does not
URLS_PER_TURN = 16  # when no delay lies between them
REPORT_INTERVAL = 0.1
DISK_RETRY_INTERVAL = 5.0  # when the disk is full


class ShardCrawler:
    """Crawls the domains of one shard. `report` is called with the progress after batches, several times a second.

    `grant`, `revoke` and `stop` may be called at any time. `wakeup` ends the wait for the next batch.
    """

    def __init__(
        self,
        store: ShardStore,
        visitor: UrlVisitor,
        requester: Requester,
        reservations: BatchedReservations,
        options: CrawlOptions,
        *,
        wakeup: asyncio.Event,
        report: Callable[[CrawlProgress], None],
    ) -> None:
        self._store, self._visitor, self._requester = store, visitor, requester
        self._reservations, self._options = reservations, options
        self._clock, self._wakeup, self._report = store.clock, wakeup, report
        self._results: list[VisitResult] = []
        self._turns: dict[int, asyncio.Task[None]] = {}
        self._stopping, self._grace = False, 0.0
        self._postponed = PostponedDomains()
        self._revisits_left = store.revisits_left
        self._next_due: float | None = 0.0
        self._reported: tuple[object, ...] = ()
        self._reported_at = 0.0
        self.probe = 0
        is_paced = options.rules.order == "best" and options.limits.pages is not None
        self._pace = BudgetPace() if is_paced else None
        self.budget = PageBudget(store.frontier.stats().pages)
        if options.limits.pages is None:  # nobody grants what has no limit: new URLs do not wait for it
            self.budget.grant(UNLIMITED)
        self.progress = CrawlProgress(shard=store.shard)
        self.budget.report(self.progress)

    # --- what the coordinator says ---

    def grant(self, pages: int) -> None:
        """Allow this many pages in all, those before included."""
        self.budget.grant(pages)
        self._wakeup.set()

    def revoke(self) -> None:
        self.budget.revoke()
        self._wakeup.set()

    def stop(self, *, grace: float) -> None:
        """End the crawl. `grace`: seconds that are left to requests under way."""
        self._stopping, self._grace = True, grace
        self._reservations.refuse_new()
        self._wakeup.set()

    def add_result(self, result: VisitResult) -> None:
        """Archive what a visit that is not over yet has fetched, with the next batch."""
        self._results.append(result)
        self._wakeup.set()

    # --- the loop ---

    async def run(self) -> None:
        """Crawl until stopped. Requests that are under way then may end; URLs that were not requested yet, or take
        long, go back."""
        with ThreadPoolExecutor(1, thread_name_prefix="shard-store") as thread:
            try:
                while not self._stopping:
                    await self._run_batch(thread)
                    await self._wait()
            finally:
                await self._end_turns()
                await self._run_batch(thread)
                self._report(self.progress)

    async def _run_batch(self, thread: ThreadPoolExecutor) -> None:
        probe = self.probe  # answered with what is found after it
        batch = self._make_batch()
        reply = await self._store_batch(batch, thread)
        self._reservations.answer(batch.reservations, reply.refused)
        for token in reply.lost & self._turns.keys():
            self._turns[token].cancel()
        self._count(batch, reply)
        self._results += reply.over_budget
        if self._pace and batch.claim.may_have_pages:
            self._pace.spend(len(reply.turns))
        for turn in reply.turns:
            self._begin_turn(turn, may_have_pages=batch.claim.may_have_pages)
        self.budget.end_claim()
        self._next_due = reply.resource_due if batch.claim.resources_only else reply.next_due
        self._revisits_left = reply.revisits_left
        self._update_progress(reply, probe)
        self._report_if_news()

    def _make_batch(self) -> Batch:
        reservations, updates = self._reservations.take()
        claim = ClaimLimit() if self._stopping else self._limit_claim()
        self.budget.begin_claim(claim)
        most = LINKS_AT_THE_END if self._stopping else LINKS_PER_BATCH
        results, self._results = take_results(self._results, most=most)
        return Batch(
            results=results,
            updates=updates,
            reservations=reservations,
            cookies=self._visitor.take_cookies(),
            site_files=self._visitor.take_site_files(),
            active_turns=list(self._turns),
            claim=claim,
            is_last=self._stopping,
        )

    def _limit_claim(self) -> ClaimLimit:
        free_turns = self._free_turns()
        if self._pace:
            domains, now = self.progress.domains_waiting + len(self._turns), self._clock()
            free_turns = self._pace.limit(free_turns, domains=domains, turns=len(self._turns), now=now)
        return self.budget.limit_claim(
            free_turns=free_turns,
            urls_per_turn=1 if self._options.politeness.delay else URLS_PER_TURN,
            fetches_resources=self._options.rules.page_resources,
            revisits=bool(self._revisits_left) and self._options.revisits.watches,
        )

    def _free_turns(self) -> int:
        """Return how many turns to claim. Those that wait for a name do not count, so that names whose servers are
        silent keep no others from being fetched; but there is an end to that."""
        concurrency = self._options.settings.concurrency
        waiting = min(self._requester.waiting_for_names, WAITING_TURNS * concurrency)
        return concurrency - len(self._turns) + waiting

    async def _store_batch(self, batch: Batch, thread: ThreadPoolExecutor) -> BatchReply:
        """Store a batch. A disk that is full, or fails, stops everything until it takes what we have."""
        while True:
            try:
                reply = await asyncio.get_running_loop().run_in_executor(thread, self._store.process_batch, batch)
            except Unavailable as error:
                self.progress.write_error = str(error)
                log.warning("cannot write", extra={"why": str(error), "waiting": len(batch.results)})
                self._report(self.progress)
                if self._stopping:
                    raise
                await asyncio.sleep(DISK_RETRY_INTERVAL)
                batch.claim = ClaimLimit(resources_only=batch.claim.resources_only)
            else:
                self.progress.write_error = ""
                return reply

    async def _wait(self) -> None:
        """Wait until there is something to store or to claim."""
        if not (self._results or self._reservations.are_waiting):
            self._wakeup.clear()
            try:
                async with asyncio.timeout(self._longest_wait()):
                    await self._wakeup.wait()
            except TimeoutError:
                return
        await asyncio.sleep(GATHER_TIME)

    def _longest_wait(self) -> float:
        if self._next_due is None or not self._limit_claim().turns:
            return POLL_INTERVAL
        return min(max(self._next_due - self._clock(), GATHER_TIME), POLL_INTERVAL)

    # --- turns ---

    def _begin_turn(self, turn: DomainTurn, *, may_have_pages: bool) -> None:
        if may_have_pages:
            self.budget.begin_turn(turn.token, len(turn.items))
        task = asyncio.create_task(self._visit_turn(turn))
        self._turns[turn.token] = task
        self._requester.look_ahead(item.url for item in turn.items[1:])
        task.add_done_callback(lambda _: self._turns.pop(turn.token))

    async def _visit_turn(self, turn: DomainTurn) -> None:
        """Visit the URLs of a turn one after the other, until one ends it."""
        last = turn.items[-1]
        for item in turn.items:
            result = await self._visit(turn, item)
            if item.last is not None:
                result = msgspec.structs.replace(result, is_repeated=True)
            if result.next is None and (item is last or self.progress.is_paused or self.progress.held):
                result = msgspec.structs.replace(result, next=self._clock())
            self._postponed.add(turn.domain, *_due_times(result))
            self._results.append(result)
            self._wakeup.set()
            if result.next is not None or self._stopping:
                return

    async def _visit(self, turn: DomainTurn, item: ClaimedUrl) -> VisitResult:
        try:
            return await self._visitor.visit(turn, item)
        except Unavailable as error:  # the frontier could not be read: the store reports that
            log.warning("a visit waits", extra={"url": item.url, "why": str(error)})
            return VisitResult(token=turn.token, outcome=NotTried(item.url), next=self._clock())
        except Exception as error:
            log.exception("a visit failed", extra={"url": item.url})
            return self._visitor.handle_crash(turn, item, error)

    async def _end_turns(self) -> None:
        tasks = list(self._turns.items())
        self._reservations.refuse_waiting()
        if tasks:
            await asyncio.wait([task for _, task in tasks], timeout=self._grace)
        for _, task in tasks:
            task.cancel()
        await asyncio.gather(*(task for _, task in tasks), return_exceptions=True)
        free = self._clock() + self._options.politeness.delay
        settled = {result.token for result in self._results if result.next is not None}
        self._results += [
            VisitResult(token=token, outcome=None, next=free) for token, _ in tasks if token not in settled
        ]
        self._reservations.refuse_waiting()

    # --- progress ---

    def _count(self, batch: Batch, reply: BatchReply) -> None:
        budget, progress, refused = self.budget, self.progress, self._visitor.refused
        if self._pace:
            self._pace.observe(batch.results)
        for result in batch.results:
            if result.was_handed_out and (result.next is not None or result.token in reply.lost):
                budget.end_turn(result.token)
            elif result.was_handed_out:
                budget.end_url(result.token)
        budget.pages += reply.pages
        for one in reply.over_budget:
            if isinstance(one.outcome, VisitDone):
                refused[error_of(one.outcome.visit)] += 1
        if reply.parked:
            refused[PARKED] += reply.parked
        if reply.excluded:
            refused["excluded_domain"] += reply.excluded
        progress.links += reply.added
        progress.revisits += reply.revisits
        progress.work += len(batch.results) + len(reply.turns) + reply.added
        if stats := reply.stats:
            progress.waiting, progress.visited, progress.expired = stats.waiting, stats.visited, stats.expired
            progress.domains, progress.domains_waiting = stats.domains, stats.domains_waiting
            progress.revisit_due = reply.revisit_due
            self._visitor.adapt(domains_waiting=(stats.domains_waiting + stats.domains_in_hand) * self._store.shards)
            self._visitor.report(progress)

    def _update_progress(self, reply: BatchReply, probe: int) -> None:
        progress, now = self.progress, self._clock()
        self.budget.report(progress)
        progress.turns = len(self._turns)
        is_busy = bool(self._turns or self._results or not reply.inbox_is_empty)
        progress.has_due_work = reply.next_due is not None and reply.next_due <= now
        progress.queue_age = max(0.0, now - reply.next_due) if reply.next_due is not None else 0.0
        progress.is_paused, progress.held = reply.is_paused, reply.held
        is_free = not (is_busy or reply.is_paused or reply.held)  # what is paused does not end
        progress.is_idle = is_free and self._is_too_late(reply.next_due, now)
        progress.is_exhausted = is_free and self._is_too_late(reply.resource_due, now)
        progress.next_due = reply.resource_due if progress.has_due_work else reply.next_due
        progress.resource_due = reply.resource_due
        progress.revisits_left = reply.revisits_left
        progress.is_waiting = not is_busy and (progress.next_due is None or progress.next_due > now)
        progress.waiting_for = self._postponed.domain_due_at(progress.next_due) if progress.is_waiting else ""
        progress.command_error = reply.command_error
        progress.probe = probe

    def _is_too_late(self, due: float | None, now: float) -> bool:
        """Tell whether a time is never, or not within this run."""
        longest = self._options.longest_idle
        return due is None or (longest is not None and due - now > longest)

    def _report_if_news(self) -> None:
        """Report now and then; at once when the coordinator may be waiting for it."""
        seen, now = self.progress, self._clock()
        is_spent = seen.pages >= seen.granted
        state = (seen.is_idle, seen.is_exhausted, seen.has_due_work, seen.revoked, seen.probe, is_spent)
        if state != self._reported or now - self._reported_at > REPORT_INTERVAL:
            self._reported, self._reported_at = state, now
            self._report(seen)


def _due_times(result: VisitResult) -> Iterator[float]:
    """Yield when the result's domain, and when its URL, may be asked again."""
    if result.next is not None:
        yield result.next
    if result.outcome is not None and not isinstance(result.outcome, VisitDone):
        yield result.outcome.not_before
