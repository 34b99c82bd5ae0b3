"""One batch of a shard's work, and the phases that it goes through.

    StartedBatch ─▶ ReservedBatch ─▶ DurableBatch ─▶ ArchivedBatch ─▶ CommittedBatch ─▶ ClaimedBatch

Each phase is durable before the next begins, and a batch that failed in one goes on from there: what a full disk has
taken already it is not given again.

The links of a large sitemap go into the frontier over many batches: every request waits for a batch, and one of 50,000
links takes a second. So a result with many is held back, and its links go ahead of it, in slices; with the last of them
the page is settled. After a kill before that it is fetched again, and gives the same links; and so it is after a stop,
unless the rest of its links is short.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from webmill.crawl.cookies.store import SiteChanges
from webmill.crawl.frontier import base as frontier
from webmill.crawl.visit.outcome import VisitResult
from webmill.crawl.visit.site_files import SiteFiles
from webmill.formats.warc.record_headers import OriginalCapture
from webmill.infra.host_schedule.fixed_delays import Reservation, ReservationUpdate

LINKS_PER_BATCH, LINKS_AT_THE_END = 2_000, 20_000  # of results that have more

PayloadRecord = tuple[str, OriginalCapture]  # a payload's digest, and the record that has it


class ClaimLimit(msgspec.Struct, frozen=True):
    """How many turns to claim, each with how many URLs. When no more pages may be fetched: only page resources, or
    only what was visited before."""

    turns: int = 0
    urls: int = 1
    resources_only: bool = False
    visited_only: bool = False

    @property
    def may_have_pages(self) -> bool:
        return not (self.resources_only or self.visited_only)


class StartedBatch(msgspec.Struct):
    """Nothing is done yet."""


class WrittenRecords(msgspec.Struct):
    """What was written to the archive since its last sync; lost when that sync fails."""

    results: list[VisitResult] = []  # with the places of their records
    payloads: list[PayloadRecord] = []
    revisits: int = 0


class ReservedBatch(msgspec.Struct):
    """Hosts are reserved; records are being written."""

    refused: dict[int, float]  # reservations that were refused: when to try again
    written: WrittenRecords


class DurableBatch(msgspec.Struct):
    """The records are durable."""

    refused: dict[int, float]
    written: WrittenRecords


class ArchivedBatch(msgspec.Struct):
    """The payloads are known to later batches, and the pages are counted against their domains."""

    refused: dict[int, float]
    written: WrittenRecords


class CommittedBatch(msgspec.Struct):
    """The frontier has settled the URLs; commands from the inbox are being applied."""

    refused: dict[int, float]
    written: WrittenRecords
    committed: frontier.CommitResult
    lost: frozenset[int]  # turns whose lease was over
    applied: int = 0  # commands


class ClaimedBatch(msgspec.Struct):
    """The next turns are claimed: the batch is done."""

    refused: dict[int, float]
    written: WrittenRecords
    committed: frontier.CommitResult
    lost: frozenset[int]
    turns: list[frontier.DomainTurn]


Phase = StartedBatch | ReservedBatch | DurableBatch | ArchivedBatch | CommittedBatch | ClaimedBatch


class Batch(msgspec.Struct, kw_only=True):
    """What came of URLs since the last batch, what is to be reserved and claimed, and how far that has come."""

    results: list[VisitResult] = []
    updates: list[dict[str, ReservationUpdate]] = []  # of earlier reservations
    reservations: dict[int, Reservation] = {}
    cookies: SiteChanges = {}
    site_files: dict[str, SiteFiles] = {}  # that say something of the use of pages
    active_turns: list[int] = []  # tokens, whose leases are extended
    claim: ClaimLimit = ClaimLimit()
    is_last: bool = False
    phase: Phase = msgspec.field(default_factory=StartedBatch)


class BatchReply(msgspec.Struct, kw_only=True):
    """What a shard learns from a batch that is done."""

    turns: list[frontier.DomainTurn] = []
    refused: dict[int, float] = {}  # reservations: when to try again
    lost: frozenset[int] = frozenset()  # turns whose lease was over
    pages: int = 0  # newly settled
    added: int = 0  # links that were new
    excluded: int = 0  # links of excluded domains
    parked: int = 0  # links of patterns that give nothing new
    revisits: int = 0  # records that only say "unchanged"
    over_budget: list[VisitResult] = []  # URLs beyond what their domain may give
    stats: frontier.FrontierStats | None = None  # now and then
    next_due: float | None = None  # when the next domain is due; None: nothing waits
    resource_due: float | None = None  # when the next page resource is due
    revisit_due: float | None = None  # when the next page is to be visited again, by a later run
    revisits_left: int = 0  # pages that this run is still to visit again
    inbox_is_empty: bool = True
    command_error: str = ""  # why the last command that failed did
    is_paused: bool = False  # nothing is claimed until a person lets it go on
    held: str = ""  # why nothing is claimed for now


def take_results(waiting: Iterable[VisitResult], *, most: int) -> tuple[list[VisitResult], list[VisitResult]]:
    """Return what the next batch takes, and what waits on: results with more than `most` links, and what follows them
    in their turn, since the results of a turn keep their order."""
    taken: list[VisitResult] = []
    held: list[VisitResult] = []
    held_turns: set[int] = set()
    room = most
    for result in waiting:
        if result.token in held_turns:
            held.append(result)
        elif len(result.links) <= most:
            taken.append(result)
        else:
            ahead, rest = result.links[:room], result.links[room:]
            if ahead:
                taken.append(VisitResult(token=result.token, outcome=None, links=ahead, was_handed_out=False))
            held.append(msgspec.structs.replace(result, links=rest))
            held_turns.add(result.token)
            room -= len(ahead)
    return taken, held
