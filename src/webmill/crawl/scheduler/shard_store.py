"""Everything of a shard that waits for the disk, in one thread: archive, frontier, inbox, host schedule.

The order of the phases (`batch.py`) makes a crawl safe to kill at any moment: a reserved time is durable before the
request is sent; records are durable before the frontier says that their URLs are visited; links for other shards are in
their inboxes before the page that had them is settled. What was done and not settled is done again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import msgspec

from webmill.crawl.cookies.store import CookieStore
from webmill.crawl.frontier.base import (
    PAGE_RESOURCE,
    PINNED_RANK,
    ClaimedUrl,
    ClaimRequest,
    CommitResult,
    DomainTurn,
    Frontier,
    FrontierUpdate,
    LastVisit,
    NotTried,
    Outcome,
    TurnOutcomes,
    VisitDone,
)
from webmill.crawl.options import Politeness
from webmill.crawl.page.url_joining import REDIRECTS
from webmill.crawl.scheduler.batch import (
    ArchivedBatch,
    Batch,
    BatchReply,
    ClaimedBatch,
    CommittedBatch,
    DurableBatch,
    Phase,
    ReservedBatch,
    StartedBatch,
    WrittenRecords,
)
from webmill.crawl.scheduler.budgets import DomainBudget
from webmill.crawl.scheduler.capture_archiver import CaptureArchiver
from webmill.crawl.scheduler.commands import (
    PAUSED,
    BackUpFrontier,
    PauseCrawl,
    ReleasePattern,
    ResumeCrawl,
    ShardCommand,
    apply_command,
)
from webmill.crawl.scheduler.domain_limits import DomainLimits
from webmill.crawl.scheduler.domain_scores import DomainScores, count_pages
from webmill.crawl.scheduler.inbox import ShardMessages, group_by_shard
from webmill.crawl.sites import CrawlSites
from webmill.crawl.visit.outcome import VisitResult
from webmill.crawl.visit.revisit_schedule import RevisitSchedule
from webmill.crawl.visit.site_files import SiteFileStore
from webmill.crawl.visit_log import VisitLog
from webmill.crawl.yields.judge import YieldJudge
from webmill.errors import Conflict, Unavailable, WebmillError
from webmill.infra.clock import SteadyClock
from webmill.infra.host_schedule.fixed_delays import HostSchedule
from webmill.model import Link

log = logging.getLogger(__name__)

LEASE = 6 * 3600.0  # a frontier has one owner at a time, who ends the leases of the one before: it need not be short
EXTEND_EVERY = 60.0
STATS_EVERY = 0.5
NEW_URLS_REST = 30.0  # for a domain that has only new URLs when no new page may be fetched
AGAIN = "again"  # the note of a frontier with URLs that are to be asked again
REST_OF_SEEN = 60.0  # for a page that this run has looked at, beyond the time for which it would wait


class ShardParts(msgspec.Struct, frozen=True, kw_only=True):
    """What a shard keeps its state in."""

    frontier: Frontier
    schedule: HostSchedule
    archiver: CaptureArchiver
    domain_budget: DomainBudget
    messages: ShardMessages
    clock: SteadyClock
    visit_log: VisitLog
    cookies: CookieStore | None = None
    site_files: SiteFileStore | None = None
    sites: CrawlSites = msgspec.field(default_factory=CrawlSites)
    judge: YieldJudge | None = None  # of patterns of URLs; None: none is parked
    scores: DomainScores | None = None  # in the order `best`
    hold: Callable[[], str] = lambda: ""  # why nothing is claimed for now


class ShardStore:
    """The state of shard `shard` of `shards`."""

    def __init__(
        self,
        parts: ShardParts,
        *,
        shard: int,
        shards: int,
        politeness: Politeness,
        revisits: RevisitSchedule,
        claims_resources: bool = False,
        longest_idle: float | None = None,
    ) -> None:
        """`longest_idle`: the seconds for which a run waits for the next due host before it ends."""
        self.frontier, self.clock = parts.frontier, parts.clock
        self._schedule, self._archiver, self._messages = parts.schedule, parts.archiver, parts.messages
        self._domain_limits = DomainLimits(parts.domain_budget, parts.sites)
        self.visit_log, self.cookies, self.site_files = parts.visit_log, parts.cookies, parts.site_files
        self.sites = parts.sites
        self.judge = parts.judge
        self._scores = parts.scores
        self._hold = parts.hold
        self.shard, self.shards, self._politeness = shard, shards, politeness
        self._revisits, self._claims_resources = revisits, claims_resources
        # A run that watches looks once at what is due when it starts: this many. Else pages that become due while it
        # runs would keep it from ever ending, or keep it from the others where it takes longer than their interval.
        self._began, self._rest_of_seen = self.clock(), REST_OF_SEEN + (longest_idle or 0.0)
        self.revisits_left = parts.frontier.bring_forward(revisits.rule, now=self._began) if revisits.watches else 0
        self._extended_at = self.clock()
        self._stats_at = 0.0
        self._command_error = ""
        notes = parts.frontier.notes()
        self.is_paused = bool(notes.get(PAUSED))
        self._again = notes.get(AGAIN, "")
        self._ask_again()

    @property
    def _claims_revisits(self) -> bool:
        return self._revisits.on and (self.revisits_left > 0 or not self._revisits.watches)

    def process_batch(self, batch: Batch) -> BatchReply:
        """Take the batch through the phases that it has not reached yet. When this raises `Unavailable`, call it again
        with the same batch."""
        while not isinstance(batch.phase, ClaimedBatch):
            batch.phase = self._advance(batch, batch.phase)
        return self._reply(batch, batch.phase)

    def _advance(self, batch: Batch, phase: Phase) -> Phase:
        match phase:
            case StartedBatch():
                return self._reserve(batch)
            case ReservedBatch():
                return self._archive(batch, phase)
            case DurableBatch():
                return self._count(batch, phase)
            case ArchivedBatch():
                return self._commit(batch, phase)
            case CommittedBatch():
                return self._claim(batch, phase)
        raise AssertionError(phase)

    # --- the phases ---

    def _reserve(self, batch: Batch) -> ReservedBatch:
        if batch.updates:
            self._schedule.update(batch.updates, clock=self.clock)
            batch.updates = []
        refused: dict[int, float] = {}
        if batch.reservations:
            longest = self._politeness.longest_reservation
            refused = self._schedule.reserve(batch.reservations, now=self.clock(), longest=longest)
        return ReservedBatch(refused, WrittenRecords())

    def _archive(self, batch: Batch, phase: ReservedBatch) -> DurableBatch:
        self._archiver.write(batch.results, phase.written)
        if batch.results:
            try:
                self._archiver.sync()
            except WebmillError:
                phase.written = WrittenRecords()  # what a failed sync has lost is written again
                raise
        return DurableBatch(phase.refused, phase.written)

    def _count(self, batch: Batch, phase: DurableBatch) -> ArchivedBatch:
        if self.cookies and batch.cookies:
            # Durable where a URL is asked again for its cookies: without them it would redirect to known ones only.
            self.cookies.write(batch.cookies, durably=any(result.again for result in batch.results))
        if self.site_files and batch.site_files:
            self.site_files.write(batch.site_files)
        if batch.results:
            self._archiver.remember_payloads(phase.written)
            self._domain_limits.spend(batch.results)
        return ArchivedBatch(phase.refused, phase.written)

    def _commit(self, batch: Batch, phase: ArchivedBatch) -> CommittedBatch:
        results = phase.written.results
        links = self._send_links(link for result in batch.results for link in result.links)
        links += self._messages.receive_links()
        again = "\n".join(url for result in results for url in result.again)
        parked: list[VisitDone] = []
        if self.judge:
            links, parked = self.judge.sort_links(links, now=self.clock())
        step = FrontierUpdate(
            links=links,
            visited=parked,
            settled=[
                TurnOutcomes(result.token, [result.outcome] if result.outcome else [], next=result.next)
                for result in results
                if result.outcome or result.next is not None
            ],
            robots=[result.robots for result in results if result.robots],
            notes={"clock": msgspec.json.encode(self.clock.anchor()).decode(), AGAIN: again},
            ranks=self._scores.ranks if self._scores else {},
        )
        committed = self.frontier.commit(step, now=self.clock()) if links or parked or results else CommitResult()
        if self.judge:
            self.judge.observe(results, find_via=self.visit_log.find_via, now=self.clock())
        if self._scores and (links or results):
            self._scores.note(links, count_pages(batch.results))
        self._again = again
        self._ask_again()
        self.visit_log.write(results, now=self.clock())
        repeated = sum(result.is_repeated and isinstance(result.outcome, VisitDone) for result in results)
        self.revisits_left = max(0, self.revisits_left + committed.brought_forward - repeated)
        return CommittedBatch(phase.refused, phase.written, committed, committed.lost)

    def _ask_again(self) -> None:
        """Let redirects be asked again that were visited without the cookies which they get now. Which, a note of the
        frontier says: a kill before this is made up for when the shard is opened."""
        urls = [url for url in self._again.split("\n") if url and is_redirect(self.frontier.visit(url))]
        if urls:
            self.frontier.retry(urls)
        self._again = ""

    def _send_links(self, links: Iterable[Link]) -> list[Link]:
        """Send links to the shards that own them, and return this shard's."""
        if self.shards == 1:
            return list(links)
        by_shard = group_by_shard(links, self.shards)
        own = by_shard.pop(self.shard, [])
        for shard, theirs in by_shard.items():
            self._messages.send(shard, theirs)
        return own

    def _claim(self, batch: Batch, phase: CommittedBatch) -> ClaimedBatch:
        self._apply_commands(phase)
        self._messages.acknowledge()
        self._extend_leases(batch.active_turns, phase)
        turns = self._claim_turns(batch) if batch.claim.turns and not (self.is_paused or self._hold()) else []
        return ClaimedBatch(phase.refused, phase.written, phase.committed, phase.lost, turns)

    def _apply_commands(self, phase: CommittedBatch) -> None:
        """Apply the commands that were received. One that fails is dropped with its reason: it would fail again, and
        hold up all that comes behind it."""
        for command in self._messages.received_commands()[phase.applied :]:
            try:
                if isinstance(command, ReleasePattern) and self.judge:
                    self.judge.release(command.pattern)
                apply_command(command, self.frontier)
                if isinstance(command, PauseCrawl | ResumeCrawl):
                    self.is_paused = isinstance(command, PauseCrawl)
            except Conflict:
                raise
            except Unavailable as error:
                if not isinstance(command, BackUpFrontier):  # nothing is wrong with the command
                    raise
                self._report_failed(command, error)
            except Exception as error:  # noqa: BLE001 - it is logged, reported and never tried again
                self._report_failed(command, error)
            phase.applied += 1

    def _report_failed(self, command: ShardCommand, error: Exception) -> None:
        log.exception("a command failed", extra={"command": str(command)})
        self._command_error = f"{type(command).__name__}: {error}"[:500]

    def _extend_leases(self, tokens: list[int], phase: CommittedBatch) -> None:
        now = self.clock()
        if tokens and now - self._extended_at > EXTEND_EVERY:
            phase.lost |= self.frontier.extend(tokens, now=now, lease=LEASE)
            self._extended_at = now

    def _claim_turns(self, batch: Batch) -> list[DomainTurn]:
        politeness = self._politeness
        return self.frontier.claim(
            ClaimRequest(
                turns=batch.claim.turns,
                urls_per_turn=batch.claim.urls,
                now=self.clock(),
                lease=LEASE,
                hold=politeness.delay + politeness.window if politeness.delay else 0.0,
                revisits=self._claims_revisits,
                revisits_first=batch.claim.visited_only,
                resources_only=batch.claim.resources_only,
                ranks_from=1 if self._scores else PINNED_RANK,
            )
        )

    # --- the reply ---

    def _reply(self, batch: Batch, phase: ClaimedBatch) -> BatchReply:
        now, put_back = self.clock(), list[VisitResult]()
        turns = phase.turns
        if self._revisits.watches:
            turns, put_back = split_seen(turns, since=self._began, not_before=now + self._rest_of_seen, now=now)
        if batch.claim.visited_only:
            turns, new = split_new_urls(turns, now=now)
            put_back += new
        turns, over_budget = self._domain_limits.apply(turns, now=now)
        if self.judge and (refuse := self.judge.refusals(turns, now=now)):
            turns, parked = split_turns(turns, lambda item: refuse.get(item.url), next_=now)
            put_back += parked
        stats = None
        if batch.is_last or self.clock() - self._stats_at > STATS_EVERY:
            stats, self._stats_at = self.frontier.stats(), self.clock()
        resource_due = self.frontier.next_turn(resources_only=True) if self._claims_resources else None
        return BatchReply(
            turns=turns,
            refused=phase.refused,
            lost=phase.lost,
            pages=sum(
                isinstance(result.outcome, VisitDone) and result.outcome.is_page
                for result in phase.written.results
                if result.token not in phase.committed.lost
            ),
            added=phase.committed.added,
            excluded=phase.committed.excluded,
            parked=phase.committed.imported,
            revisits=phase.written.revisits,
            over_budget=put_back + over_budget,
            stats=stats,
            next_due=self.frontier.next_turn(revisits=self._claims_revisits),
            resource_due=resource_due,
            revisit_due=self.frontier.next_turn(revisits=True) if stats and self._revisits.watches else None,
            revisits_left=self.revisits_left,
            inbox_is_empty=self._messages.is_empty(),
            command_error=self._command_error,
            is_paused=self.is_paused,
            held=self._hold(),
        )


def is_redirect(visit: LastVisit | None) -> bool:
    return visit is not None and visit.status in REDIRECTS


def split_new_urls(turns: list[DomainTurn], *, now: float) -> tuple[list[DomainTurn], list[VisitResult]]:
    """Return the turns with nothing but revisits and page resources, and the results that put new URLs back: no more
    pages may be fetched. A domain with nothing but new URLs has no revisit left, for those are first; it rests a while.
    """
    return split_turns(
        turns,
        lambda item: NotTried(item.url) if item.last is None and item.priority != PAGE_RESOURCE else None,
        next_=now + NEW_URLS_REST,
    )


def split_seen(
    turns: list[DomainTurn], *, since: float, not_before: float, now: float
) -> tuple[list[DomainTurn], list[VisitResult]]:
    """Return the turns without pages that were visited since the run began, and the results that put those back."""
    return split_turns(
        turns,
        lambda item: NotTried(item.url, not_before) if item.last and item.last.time >= since else None,
        next_=now,
    )


def split_turns(
    turns: list[DomainTurn], put_back: Callable[[ClaimedUrl], Outcome | None], *, next_: float
) -> tuple[list[DomainTurn], list[VisitResult]]:
    """Return the turns without the URLs that are put back, and the results of those. A turn that has no other URL ends;
    its domain is due again at `next_`.
    """
    kept: list[DomainTurn] = []
    results: list[VisitResult] = []
    for turn in turns:
        outcomes = {item.url: outcome for item in turn.items if (outcome := put_back(item))}
        rest = tuple(item for item in turn.items if item.url not in outcomes)
        settled = [VisitResult(token=turn.token, outcome=each, was_handed_out=False) for each in outcomes.values()]
        if rest:
            kept.append(msgspec.structs.replace(turn, items=rest) if outcomes else turn)
        else:
            settled[-1] = msgspec.structs.replace(settled[-1], next=next_)
        results += settled
    return kept, results
