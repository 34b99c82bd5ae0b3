"""What one transaction does to domains of a frontier and to the URLs they have: collected, then saved at once.

It knows nothing of files: lines are a position and an end for it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from webmill.crawl.frontier.base import PAGE_RESOURCE, LastVisit, Outcome, RetryLater, TurnOutcomes, VisitDone
from webmill.crawl.frontier.hops import pack_hops
from webmill.crawl.frontier.state import (
    DomainState,
    FrontierState,
    MadeVisit,
    PostponedRevisit,
    RetryEntry,
    StoredVisit,
    TurnRow,
    UrlRow,
    checked_rank,
    is_pinned,
)
from webmill.model import Link

PRIORITY = Link("").priority  # of revisits to what was first visited elsewhere


class FrontierChange:
    """One transaction. `counts` are changes of the frontier's counters, by their names."""

    def __init__(self, state: FrontierState, *, now: float) -> None:
        self._state, self._now = state, now
        self.counts: Counter[str] = Counter()
        self._domains: dict[int, DomainState] = {}
        self._changed: set[int] = set()  # domains of which more than the positions in queues has changed
        self._since: dict[int, float] = {}  # where not now: when a lease was over
        self._turns: dict[int, TurnRow] = {}
        self._ended: list[int] = []
        self._retries: list[RetryEntry] = []
        self._visits: list[MadeVisit] = []
        self._postponed: list[PostponedRevisit] = []
        self._advanced: list[StoredVisit] = []
        self._forgotten: list[StoredVisit] = []

    def domains(self, names: Iterable[str]) -> dict[str, DomainState]:
        """Return the domains of these names; those that did not exist are created."""
        names = list(dict.fromkeys(names))
        found = self._state.find_domains(names)
        found |= self._state.create_domains(name for name in names if name not in found)
        return {name: self._domains.setdefault(found[name].id, found[name]) for name in names}

    def append(self, domain: DomainState, priority: int, *, size: int, count: int) -> int:
        """Lengthen a queue by lines of `size` bytes; return their position."""
        if not domain.queues:
            self.counts["domains"] += 1
        read, end = domain.queues.get(priority, (0, 0))
        domain.queues[priority] = (read, end + size)
        self.counts["waiting"] += count
        return end

    def import_visit(self, domain: DomainState, done: VisitDone) -> None:
        """Add a URL that is not known here as visited."""
        if not domain.queues:
            self.counts["domains"] += 1
            domain.queues[PRIORITY] = (0, 0)  # from now on it has a URL
        visit = done.visit
        row = UrlRow(visit.url, visit.depth, PRIORITY, 1, 0, 0, pack_hops(visit))
        self._visits.append(MadeVisit(row, domain.id, visit, done.revisit_due))
        if done.revisit_due is not None:
            domain.revisits += 1
            self._changed.add(domain.id)
        self.counts["visited"] += 1
        self.counts["revisits"] += done.revisit_due is not None
        self.counts["pages"] += done.is_page

    def settle(self, settled: Sequence[TurnOutcomes]) -> set[int]:
        """Apply the outcomes of turns; return the tokens whose lease is over."""
        turns = self._state.find_turns({entry.token for entry in settled})
        alive = {token: turn for token, turn in turns.items() if turn.until > self._now}
        lost = {entry.token for entry in settled} - alive.keys()
        for id_, row in self._state.load_domains(turn.domain for turn in alive.values()).items():
            self._domains.setdefault(id_, row)
        self._turns = alive
        for entry in settled:
            if entry.token in alive and entry.token not in self._ended:
                self._settle_one(entry)
        return lost

    def _settle_one(self, entry: TurnOutcomes) -> None:
        turn = self._turns[entry.token]
        domain, in_hand = self._domains[turn.domain], {row.url: row for row in turn.urls}
        for outcome in entry.outcomes:
            if row := in_hand.pop(outcome.url, None):
                self._apply(domain, row, outcome)
        self._turns[entry.token] = TurnRow(turn.domain, turn.until, list(in_hand.values()))
        if entry.next is not None:
            domain.not_before = entry.next
        if entry.next is not None or not in_hand:
            self._end_turn(entry.token)

    def _apply(self, domain: DomainState, row: UrlRow, outcome: Outcome) -> None:
        if not isinstance(outcome, VisitDone):
            attempts = row.attempts + isinstance(outcome, RetryLater)
            self._give_back(domain, row, not_before=outcome.not_before, attempts=attempts)
            return
        self._visits.append(MadeVisit(row, domain.id, outcome.visit, outcome.revisit_due))
        if change := (outcome.revisit_due is not None) - bool(row.visit_id):
            domain.revisits += change
            self._changed.add(domain.id)
        self.counts["in_hand"] -= 1
        self.counts["visited"] += 1
        self.counts["revisits"] += outcome.revisit_due is not None
        self.counts["pages"] += outcome.is_page

    def advance(self, visits: Sequence[StoredVisit]) -> int:
        """Make the revisits of these due now, and return how many of them may be claimed."""
        domains = self.domains(visit.domain for visit in visits)
        early = [visit for visit in visits if visit.revisit_due is None or visit.revisit_due > self._now]
        for visit in early:
            domain = domains[visit.domain]
            domain.revisits += visit.revisit_due is None
            self.counts["revisits"] += visit.revisit_due is None
            self._changed.add(domain.id)
        self._advanced += early
        return sum(not domains[visit.domain].excluded for visit in visits)

    def renew(self, visit: StoredVisit, done: VisitDone) -> None:
        """Give a visited URL a newer visit. If its domain comes up too early now, `claim` notices (`reschedule`)."""
        domain = self.domains([visit.domain])[visit.domain]
        row = UrlRow(done.url, done.visit.depth, visit.priority, 1, 0, visit.id, pack_hops(done.visit))
        self._visits.append(MadeVisit(row, domain.id, done.visit, done.revisit_due))
        self._changed.add(domain.id)
        change = (done.revisit_due is not None) - (visit.revisit_due is not None)
        domain.revisits += change
        self.counts["revisits"] += change
        self.counts["pages"] += done.is_page

    def reschedule(self, domain: DomainState) -> None:
        """Find out anew when a domain comes up that has nothing to offer now."""
        self._domains[domain.id] = domain
        self._changed.add(domain.id)
        self.counts["domains_waiting"] -= domain.due is not None
        domain.due = domain.revisit_due = domain.resource_due = None

    def requeue(self, visit: StoredVisit, last: LastVisit) -> None:
        """Let a URL wait again that was visited to no avail. Its old place is not known: it is before all others."""
        domain = self.domains([visit.domain])[visit.domain]
        where = (domain.id, visit.priority, -visit.id)
        self._retries.append(RetryEntry(*where, 0.0, 1, last.depth, last.url, pack_hops(last)))
        self._forgotten.append(visit)
        domain.retries += 1
        domain.revisits -= visit.revisit_due is not None
        self._changed.add(domain.id)
        self.counts["revisits"] -= visit.revisit_due is not None
        self.counts["visited"] -= 1
        self.counts["waiting"] += 1

    def _give_back(self, domain: DomainState, row: UrlRow, *, not_before: float, attempts: int) -> None:
        self.counts["in_hand"] -= 1
        if row.visit_id:
            self._postponed.append(PostponedRevisit(not_before, attempts, row.visit_id))
            self.counts["visited"] += 1
            self.counts["revisits"] += 1
        else:
            where = (domain.id, row.priority, row.position)
            self._retries.append(RetryEntry(*where, not_before, attempts, row.depth, row.url, row.hops))
            domain.retries += 1
            self._changed.add(domain.id)
            self.counts["waiting"] += 1

    def _end_turn(self, token: int) -> None:
        """End a turn; what is still in hand was not tried."""
        turn = self._turns.pop(token)
        domain = self._domains[turn.domain]
        for row in turn.urls:
            self._give_back(domain, row, not_before=0.0, attempts=row.attempts)
        domain.token = 0
        self._changed.add(turn.domain)
        self._ended.append(token)
        self.counts["domains_in_hand"] -= 1

    def expire(self, *, since: float | None = None) -> None:
        """End the turns whose lease is over, as of then; with `since` all of them, as of that time."""
        self._turns = self._state.expired_turns(now=self._now)
        self._domains |= self._state.load_domains(turn.domain for turn in self._turns.values())
        for token, turn in list(self._turns.items()):
            self._since[turn.domain] = turn.until if since is None else since
            self._end_turn(token)
            self.counts["expired"] += 1

    def start_turn(self, domain: DomainState, turn: TurnRow, *, token: int, not_before: float) -> None:
        self._domains[domain.id] = domain
        self._changed.add(domain.id)
        self._turns[token] = turn
        revisits = sum(1 for row in turn.urls if row.visit_id)
        self.counts["visited"] -= revisits
        self.counts["revisits"] -= revisits
        self.counts["waiting"] -= len(turn.urls) - revisits
        self.counts["in_hand"] += len(turn.urls)
        self.counts["domains_in_hand"] += 1
        domain.token, domain.not_before = token, not_before

    def move_queues(self, queues: Mapping[str, dict[int, tuple[int, int]]]) -> None:
        """Give domains, some of whose lines are lost, new positions in their queues."""
        for name, domain in self.domains(queues).items():
            domain.queues = queues[name]
            self._changed.add(domain.id)
            self._since[domain.id] = domain.due or 0.0
            self.counts["domains_waiting"] -= domain.due is not None
            domain.due = domain.resource_due = None  # what it came up for may be gone

    def set_ranks(self, ranks: Mapping[str, int]) -> None:
        """Set the ranks that the crawl has found for domains that exist."""
        if not ranks:
            return
        met = {domain.name: domain for domain in self._domains.values() if domain.name in ranks}
        unmet = self._state.find_domains(name for name in ranks if name not in met)
        for name, domain in (met | unmet).items():
            if ranks[name] != domain.rank and not is_pinned(domain.rank):
                self._set_rank(domain, ranks[name])

    def prioritise(self, names: Iterable[str], rank: int) -> int:
        changed = [domain for domain in self.domains(names).values() if domain.rank != rank]
        self._since |= {domain.id: math.inf for domain in self._domains.values()}
        for domain in changed:
            self._set_rank(domain, rank)
        return len(changed)

    def _set_rank(self, domain: DomainState, rank: int) -> None:
        """Set the rank of a domain, which comes up when it did before."""
        domain.rank = checked_rank(rank)
        if domain.id not in self._domains:
            self._domains[domain.id], self._since[domain.id] = domain, math.inf
        self._changed.add(domain.id)

    def exclude(self, names: Iterable[str]) -> int:
        changed = [domain for domain in self.domains(names).values() if not domain.excluded]
        for domain in changed:
            domain.excluded = 1
            self._changed.add(domain.id)
        return len(changed)

    def include(self, names: Iterable[str]) -> int:
        wanted = set(names)
        changed = [
            domain for name, domain in self._state.find_domains(wanted).items() if domain.excluded and name in wanted
        ]
        for domain in changed:
            domain.excluded = 0
            self._domains[domain.id] = domain
            self._changed.add(domain.id)
        return len(changed)

    def save(self) -> None:
        self._state.add_retries(self._retries)
        self._state.save_visits(self._visits)
        self._state.postpone_revisits(self._postponed)
        self._state.advance_revisits(self._advanced, now=self._now)
        self._state.delete_visits(self._forgotten)
        self._state.delete_turns(self._ended)
        self._state.save_turns(self._turns.items())
        for domain in self._domains.values():
            self._schedule(domain, since=self._since.get(domain.id, self._now))
        changed = [row for row in self._domains.values() if row.is_new or row.id in self._changed]
        self._state.save_domains(changed)
        self._state.save_queues(row for row in self._domains.values() if not row.is_new and row.id not in self._changed)
        self._state.add_counts(self.counts)

    def _schedule(self, domain: DomainState, *, since: float) -> None:
        """Set when it comes up: not before its time, nor before it has something. What was earlier already, stays."""
        before = (domain.due, domain.revisit_due, domain.resource_due)
        if domain.token or domain.excluded:
            domain.due = domain.revisit_due = domain.resource_due = None
        else:
            start = max(domain.not_before, since)
            if domain.has_queued_urls:
                domain.due = earlier_of(domain.due, start)
            elif domain.retries:
                domain.due = earlier_of(domain.due, max(start, self._state.earliest_retry(domain.id)))
            if domain.revisits and (domain.due is None or domain.due > start):
                domain.revisit_due = earlier_of(domain.revisit_due, max(start, self._state.earliest_revisit(domain.id)))
            if domain.due is not None and domain.revisit_due is not None and domain.due <= domain.revisit_due:
                domain.revisit_due = None
            domain.resource_due = self._resource_due(domain, start) if PAGE_RESOURCE in domain.queues else None
        if before != (domain.due, domain.revisit_due, domain.resource_due):
            self._changed.add(domain.id)
            self.counts["domains_waiting"] += (domain.due is not None) - (before[0] is not None)

    def _resource_due(self, domain: DomainState, start: float) -> float | None:
        """Return when it would come up if it had nothing but page resources."""
        read, end = domain.queues[PAGE_RESOURCE]
        first = start if read < end else self._state.earliest_resource_retry(domain.id) if domain.retries else None
        return None if first is None else earlier_of(domain.resource_due, max(start, first))


def earlier_of(one: float | None, other: float) -> float:
    return other if one is None else min(one, other)
