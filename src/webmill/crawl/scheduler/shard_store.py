"""All of a shard that waits for the disk, in one thread: archive, frontier, mail. Answers come in, turns go out.

The order makes a crawl safe to kill at any moment: records are durable before the frontier says that their URLs are
visited; links for other shards are in their boxes before the page that had them is settled; a booked time is durable
before the request is sent. What was done and not settled is done again.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

import msgspec

from webmill.crawl.archive import CaptureWriter
from webmill.crawl.frontier.base import (
    PAGE_RESOURCE,
    ClaimedUrl,
    ClaimRequest,
    CommitResult,
    DomainTurn,
    Frontier,
    FrontierStats,
    FrontierUpdate,
    LastVisit,
    NotTried,
    Outcome,
    RobotsEntry,
    TurnOutcomes,
    VisitDone,
    domain_of,
)
from webmill.crawl.options import Manners
from webmill.crawl.politeness.host_schedule import Booking, GateBook, Kept
from webmill.crawl.scheduler.archived_payloads import LEAST, Payload, Payloads
from webmill.crawl.scheduler.commands import BackUp, Compact, Exclude, Include, Order
from webmill.crawl.scheduler.domain_budget import Quota
from webmill.crawl.scheduler.inbox import Mail
from webmill.errors import Conflict, Unavailable, WebmillError
from webmill.formats.http.head import end_of_head
from webmill.formats.warc import digest
from webmill.formats.warc.capture import Capture, WrittenCapture
from webmill.formats.warc.record_headers import OriginalCapture
from webmill.infra.clock import SteadyClock
from webmill.model import Link

log = logging.getLogger(__name__)

LEASE = 6 * 3600.0  # a frontier has one owner at a time, who ends the leases of the one before: it need not be short
EXTEND_EVERY = 60.0
COUNT_EVERY = 0.5


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """One request that was answered, to be archived."""

    capture: Capture
    sent: float


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one URL of a turn. `next` ends the turn."""

    token: int
    outcome: Outcome | None
    answers: Sequence[Answered] = ()  # of robots.txt files, and its own
    links: Sequence[Link] = ()
    robots: RobotsEntry | None = None
    next: float | None = None
    was_in_hand: bool = True  # it was handed out to be asked
    is_revisit: bool = False  # of a page that was there


class Batch(msgspec.Struct, kw_only=True):
    """What is to be done, and what of it is done already when the disk refuses the rest and it is tried again."""

    results: list[Result] = []
    kept: list[dict[str, Kept]] = []  # what became of earlier bookings
    bookings: dict[int, Booking] = {}
    tokens: list[int] = []  # turns in hand, to extend
    turns: int = 0  # how many to claim
    urls: int = 1
    requisites: bool = False  # claim nothing else
    is_last: bool = False
    waits: dict[int, float] | None = None  # set when the bookings are made
    settled: list[Result] = []  # results that are archived, with the places of their records
    payloads: list[Payload] = []
    revisits: int = 0
    is_durable: bool = False
    is_counted: bool = False
    committed: CommitResult | None = None
    obeyed: int = 0  # orders
    claimed: list[DomainTurn] | None = None


class Reply(msgspec.Struct, kw_only=True):
    turns: list[DomainTurn] = []
    waits: dict[int, float] = {}  # bookings that were refused: when to try again
    lost: frozenset[int] = frozenset()
    pages: int = 0  # newly settled
    added: int = 0
    excluded: int = 0  # links of domains that are
    revisits: int = 0
    over: list[Result] = []  # URLs beyond what their domain may give
    stats: FrontierStats | None = None  # now and then
    wake: float | None = None  # when the next domain may be asked; None: nothing waits
    errand: float | None = None  # likewise, for requisites
    mail_is_empty: bool = True
    complaint: str = ""  # why the last order that failed did


class Desk:
    def __init__(
        self,
        *,
        frontier: Frontier,
        gates: GateBook,
        writer: CaptureWriter,
        payloads: Payloads,
        quota: Quota,
        mail: Mail,
        clock: SteadyClock,
        manners: Manners,
        shard: int,
        shards: int,
        revisits: bool,
        requisites: bool = False,
    ) -> None:
        self.frontier, self.gates, self.writer, self.mail = frontier, gates, writer, mail
        self.payloads, self.quota = payloads, quota
        self.clock, self.manners, self.shard, self.shards = clock, manners, shard, shards
        self.claims_revisits, self.has_requisites = revisits, requisites
        self._extended = clock()
        self._counted = 0.0
        self._complaint = ""

    def work_off(self, batch: Batch) -> Reply:
        reply = Reply()
        reply.waits = self._open_gates(batch)
        self._archive(batch)
        reply.revisits = batch.revisits
        self._commit(batch, reply)
        self._obey(batch)
        reply.complaint = self._complaint
        self.mail.settle()
        self._extend(batch.tokens, reply)
        if batch.claimed is None:
            batch.claimed = self._claim(batch) if batch.turns else []
        reply.turns = self._within_quota(batch.claimed, reply)
        if batch.is_last or self.clock() - self._counted > COUNT_EVERY:
            reply.stats, self._counted = self.frontier.stats(), self.clock()
        reply.wake = self.frontier.next_turn(revisits=self.claims_revisits)
        reply.errand = self.frontier.next_turn(resources_only=True) if self.has_requisites else None
        reply.mail_is_empty = self.mail.is_empty()
        return reply

    def _archive(self, batch: Batch) -> None:
        """Durably. What a full disk took already it is not given again; all that a failed sync has lost, it is."""
        waiting = [
            (result, [_digested(answer.capture) for answer in result.answers])
            for result in batch.results[len(batch.settled) :]
        ]
        known = dict(batch.payloads)
        known |= self.payloads.find({capture.digest for _, captures in waiting for capture in captures})
        for result, captures in waiting:
            batch.settled.append(self._archived(result, captures, known, batch))
        if batch.results and not batch.is_durable:
            try:
                self.writer.sync()
            except WebmillError:
                batch.settled, batch.payloads, batch.revisits = [], [], 0
                raise
            batch.is_durable = True
        if batch.results and not batch.is_counted:
            self.payloads.add(batch.payloads)
            self._count_pages(batch.results)
            batch.is_counted = True

    def _archived(
        self, result: Result, captures: list[Capture], known: dict[str, OriginalCapture], batch: Batch
    ) -> Result:
        """With the place of its record in the visit. What it has is known to those behind it."""
        written, original = None, None
        for whole in captures:
            capture = _deduplicated(whole, known)
            written = self.writer.append(capture)
            batch.revisits += capture.kind != "response"
            own = OriginalCapture(record_id=written.record_id, uri=capture.exchange.url, date=capture.exchange.date)
            original = capture.original or own
            if _can_be_referred_to(capture):
                batch.payloads.append((written.capture.digest, own))
                known[written.capture.digest] = own
            if not result.outcome or capture.exchange.url != result.outcome.url:  # a robots.txt, asked for first
                written = original = None
        return msgspec.structs.replace(result, outcome=_placed(result.outcome, written, original))

    def _count_pages(self, results: list[Result]) -> None:
        pages = Counter(
            domain_of(result.outcome.url)
            for result in results
            if isinstance(result.outcome, VisitDone) and result.outcome.is_page and not result.is_revisit
        )
        if pages:
            self.quota.count(pages)

    def _sorted_out(self, links: Iterable[Link]) -> list[Link]:
        """Those of this shard; the others are sent."""
        if self.shards == 1:
            return list(links)
        by_shard: defaultdict[int, dict[str, Link]] = defaultdict(dict)
        for link in links:
            by_shard[shard_of(link.url, self.shards)].setdefault(link.url, link)
        own = by_shard.pop(self.shard, {})
        for shard, theirs in by_shard.items():
            self.mail.send(shard, list(theirs.values()))
        return list(own.values())

    def _commit(self, batch: Batch, reply: Reply) -> None:
        results = batch.settled
        if batch.committed is None:  # once, also when what comes after it must be tried again
            links = self._sorted_out(link for result in batch.results for link in result.links)
            links += self.mail.receive()
            step = FrontierUpdate(
                links=links,
                settled=[_settled(result) for result in results],
                robots=[result.robots for result in results if result.robots],
                notes={"clock": msgspec.json.encode(self.clock.anchor()).decode()},
            )
            batch.committed = self.frontier.commit(step, now=self.clock()) if links or results else CommitResult()
        committed = batch.committed
        reply.lost, reply.added, reply.excluded = committed.lost, committed.added, committed.excluded
        reply.pages = sum(
            isinstance(result.outcome, VisitDone) and result.outcome.is_page
            for result in results
            if result.token not in committed.lost
        )

    def _obey(self, batch: Batch) -> None:
        """One that fails is dropped with its reason: it would fail again, and all else behind it."""
        for order in self.mail.orders()[batch.obeyed :]:
            try:
                obey(order, self.frontier)
            except Conflict:
                raise
            except Unavailable as error:
                if not isinstance(order, BackUp):  # nothing wrong with the order
                    raise
                self._complain(order, error)
            except Exception as error:  # noqa: BLE001 - it is logged, told and never tried again
                self._complain(order, error)
            batch.obeyed += 1

    def _complain(self, order: Order, error: Exception) -> None:
        log.exception("an order failed", extra={"order": str(order)})
        self._complaint = f"{type(order).__name__}: {error}"[:500]

    def _open_gates(self, batch: Batch) -> dict[int, float]:
        """First come, first served: those who must wait, and until when."""
        if batch.waits is None:
            if batch.kept:
                self.gates.correct(batch.kept, clock=self.clock)
                batch.kept = []
            longest = self.manners.longest
            batch.waits = self.gates.book(batch.bookings, now=self.clock(), longest=longest) if batch.bookings else {}
        return batch.waits

    def _extend(self, tokens: list[int], reply: Reply) -> None:
        now = self.clock()
        if tokens and now - self._extended > EXTEND_EVERY:
            reply.lost |= self.frontier.extend(tokens, now=now, lease=LEASE)
            self._extended = now

    def _claim(self, batch: Batch) -> list[DomainTurn]:
        hold = self.manners.delay + self.manners.window if self.manners.delay else 0.0
        return self.frontier.claim(
            ClaimRequest(
                turns=batch.turns,
                urls_per_turn=batch.urls,
                now=self.clock(),
                lease=LEASE,
                hold=hold,
                revisits=self.claims_revisits,
                resources_only=batch.requisites,
            )
        )

    def _within_quota(self, turns: list[DomainTurn], reply: Reply) -> list[DomainTurn]:
        """The turns without what their domains may not give; that is settled when they have given all they may."""
        allowed = self.quota.left(turn.domain for turn in turns)
        if allowed is None:
            return turns
        kept = []
        for turn in turns:
            left = allowed[turn.domain]
            beyond = [item for item in turn.items if item.priority != PAGE_RESOURCE and not was_there(item)][left:]
            if not beyond:
                kept.append(turn)
                continue
            over = (NotTried(item.url) if left else self._over(item) for item in beyond)
            results = [Result(token=turn.token, outcome=outcome, was_in_hand=False) for outcome in over]
            if rest := tuple(item for item in turn.items if item not in beyond):
                kept.append(msgspec.structs.replace(turn, items=rest))
            else:
                results[-1] = msgspec.structs.replace(results[-1], next=self.clock())
            reply.over += results
        return kept

    def _over(self, item: ClaimedUrl) -> VisitDone:
        visit = LastVisit(url=item.url, time=self.clock(), error="max_pages_per_domain", depth=item.depth)
        return VisitDone(visit, is_page=False)


def was_there(item: ClaimedUrl) -> bool:
    """It is a page that its domain has given already."""
    return item.last is not None and item.last.status > 0


def obey(order: Order, frontier: Frontier) -> None:
    match order:
        case Exclude(domains):
            frontier.exclude(domains)
        case Include(domains):
            frontier.include(domains)
        case Compact():
            frontier.compact()
        case BackUp(folder):
            copy = Path(folder)
            if copy.parent.is_dir() and not copy.exists():  # still wanted, and not done before a kill
                frontier.back_up(copy)


def shard_of(url: str, shards: int) -> int:
    """The same on every machine and for every version: which process has a domain must never change."""
    return int.from_bytes(blake2b(domain_of(url).encode(), digest_size=8).digest()) % shards


def _digested(capture: Capture) -> Capture:
    """With the digest of its payload, where an earlier record may have that payload."""
    if capture.kind != "response" or capture.subset != "warc" or capture.exchange.truncated:
        return capture
    response = capture.exchange.response
    payload = memoryview(response)[end_of_head(response) or len(response) :]
    return msgspec.structs.replace(capture, digest=digest.compute(payload)) if len(payload) >= LEAST else capture


def _deduplicated(capture: Capture, known: Mapping[str, OriginalCapture]) -> Capture:
    original = known.get(capture.digest)
    return msgspec.structs.replace(capture, kind="identical", original=original) if original else capture


def _can_be_referred_to(capture: Capture) -> bool:
    """By the revisit record of a page that is the same: what is whole, is a page, and is in the index."""
    exchange = capture.exchange
    whole = capture.kind == "response" and capture.subset == "warc" and not exchange.truncated
    return whole and len(exchange.response) > LEAST


def _placed(
    outcome: Outcome | None, written: WrittenCapture | None, original: OriginalCapture | None
) -> Outcome | None:
    """`original` is what a later revisit of this URL will refer to, unless the visit says that it is an older one."""
    if not isinstance(outcome, VisitDone) or written is None or original is None:
        return outcome
    lies = written.capture
    visit = msgspec.structs.replace(outcome.visit, filename=lies.filename, offset=lies.offset, length=lies.length)
    if visit.record_id:
        return msgspec.structs.replace(outcome, visit=visit)
    visit = msgspec.structs.replace(
        visit,
        record_id=original.record_id or written.record_id,
        record_url=original.uri or "" if original.uri != outcome.visit.url else "",
        record_time=original.date.timestamp() if original.date else 0.0,
        digest=lies.digest or outcome.visit.digest,
    )
    return msgspec.structs.replace(outcome, visit=visit)


def _settled(result: Result) -> TurnOutcomes:
    return TurnOutcomes(result.token, [result.outcome] if result.outcome else [], next=result.next)
