"""What one transaction does to domains of a local frontier and to the URLs they have: collected, then saved at once.

It knows nothing of files: lines are a position and an end for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from webmill.crawl.frontier.base import PAGE_RESOURCE, LastVisit, Outcome, RetryLater, TurnOutcomes, VisitDone
from webmill.crawl.frontier.hops import pack_hops
from webmill.crawl.frontier.sqlite_state import DomainRow, SqliteState, UrlRow
from webmill.model import Link

PRIORITY = Link("").priority  # of revisits to what was first visited elsewhere

Retry = tuple[int, int, int, float, int, int, str, int]


class FrontierChange:
    def __init__(self, state: SqliteState, *, now: float) -> None:
        self._state, self._now = state, now
        self.counts: Counter[str] = Counter()
        self._domains: dict[int, DomainRow] = {}
        self._whole: set[int] = set()  # domains of which more than the lanes has changed
        self._since: dict[int, float] = {}  # where not now: when a lease was over
        self._turns: dict[int, tuple[int, float, list[UrlRow]]] = {}
        self._ended: list[int] = []
        self._retries: list[Retry] = []
        self._visits: list[tuple[UrlRow, int, LastVisit, float | None]] = []
        self._postponed: list[tuple[float, int, int]] = []

    def domains(self, names: Iterable[str]) -> dict[str, DomainRow]:
        """Made where they did not exist."""
        names = list(dict.fromkeys(names))
        found = self._state.named(names)
        found |= self._state.make(name for name in names if name not in found)
        return {name: self._domains.setdefault(found[name].id, found[name]) for name in names}

    def append(self, domain: DomainRow, priority: int, *, size: int, count: int) -> int:
        """Lines come to a lane; their position."""
        if not domain.lanes:
            self.counts["domains"] += 1
        read, end = domain.lanes.get(priority, (0, 0))
        domain.lanes[priority] = (read, end + size)
        self.counts["waiting"] += count
        return end

    def import_visit(self, domain: DomainRow, done: VisitDone) -> None:
        """A URL that was never here comes as visited."""
        if not domain.lanes:
            self.counts["domains"] += 1
            domain.lanes[PRIORITY] = (0, 0)  # from now on it has a URL
        visit = done.visit
        held = UrlRow(visit.url, visit.depth, PRIORITY, 1, 0, 0, pack_hops(visit))
        self._visits.append((held, domain.id, visit, done.revisit_due))
        if done.revisit_due is not None:
            domain.revisits += 1
            self._whole.add(domain.id)
        self.counts["visited"] += 1
        self.counts["revisits"] += done.revisit_due is not None
        self.counts["pages"] += done.is_page

    def settle(self, settled: Sequence[TurnOutcomes]) -> set[int]:
        """The tokens that are lost."""
        self._turns = self._state.turns({entry.token for entry in settled})
        alive = {token: turn for token, turn in self._turns.items() if turn[1] > self._now}
        lost = {entry.token for entry in settled} - alive.keys()
        for id_, row in self._state.numbered(domain for domain, _, _ in alive.values()).items():
            self._domains.setdefault(id_, row)
        self._turns = alive
        for entry in settled:
            if entry.token in alive and entry.token not in self._ended:
                self._settle_one(entry)
        return lost

    def _settle_one(self, entry: TurnOutcomes) -> None:
        id_, until, items = self._turns[entry.token]
        domain, held = self._domains[id_], {item.url: item for item in items}
        for outcome in entry.outcomes:
            if item := held.pop(outcome.url, None):
                self._apply(domain, item, outcome)
        self._turns[entry.token] = (id_, until, list(held.values()))
        if entry.next is not None:
            domain.next = entry.next
        if entry.next is not None or not held:
            self._end(entry.token)

    def _apply(self, domain: DomainRow, item: UrlRow, outcome: Outcome) -> None:
        if not isinstance(outcome, VisitDone):
            attempts = item.attempts + isinstance(outcome, RetryLater)
            self._give_back(domain, item, not_before=outcome.not_before, attempts=attempts)
            return
        self._visits.append((item, domain.id, outcome.visit, outcome.revisit_due))
        if change := (outcome.revisit_due is not None) - bool(item.visit):
            domain.revisits += change
            self._whole.add(domain.id)
        self.counts["in_hand"] -= 1
        self.counts["visited"] += 1
        self.counts["revisits"] += outcome.revisit_due is not None
        self.counts["pages"] += outcome.is_page

    def _give_back(self, domain: DomainRow, item: UrlRow, *, not_before: float, attempts: int) -> None:
        self.counts["in_hand"] -= 1
        if item.visit:
            self._postponed.append((not_before, attempts, item.visit))
            self.counts["visited"] += 1
            self.counts["revisits"] += 1
        else:
            place = (domain.id, item.priority, item.place)
            self._retries.append((*place, not_before, attempts, item.depth, item.url, item.hops))
            domain.retries += 1
            self._whole.add(domain.id)
            self.counts["waiting"] += 1

    def _end(self, token: int) -> None:
        """Of a turn; what is still in hand was not used."""
        id_, _, items = self._turns.pop(token)
        domain = self._domains[id_]
        for item in items:
            self._give_back(domain, item, not_before=0.0, attempts=item.attempts)
        domain.token = 0
        self._whole.add(id_)
        self._ended.append(token)
        self.counts["domains_in_hand"] -= 1

    def expire(self, *, since: float | None = None) -> None:
        """End the turns whose lease is over, as of then; with `since` all of them, as of that time."""
        self._turns = self._state.over(now=self._now)
        self._domains |= self._state.numbered(id_ for id_, _, _ in self._turns.values())
        for token, (id_, until, _) in list(self._turns.items()):
            self._since[id_] = until if since is None else since
            self._end(token)
            self.counts["expired"] += 1

    def start_turn(self, domain: DomainRow, items: Sequence[UrlRow], *, token: int, until: float, next_: float) -> None:
        self._domains[domain.id] = domain
        self._whole.add(domain.id)
        self._turns[token] = (domain.id, until, list(items))
        old = sum(1 for item in items if item.visit)
        self.counts["visited"] -= old
        self.counts["revisits"] -= old
        self.counts["waiting"] -= len(items) - old
        self.counts["in_hand"] += len(items)
        self.counts["domains_in_hand"] += 1
        domain.token, domain.next = token, next_

    def move_lanes(self, lanes: Mapping[str, dict[int, tuple[int, int]]]) -> None:
        """Of these domains, some of whose lines are gone."""
        for name, domain in self.domains(lanes).items():
            domain.lanes = lanes[name]
            self._whole.add(domain.id)
            self._since[domain.id] = domain.due or 0.0
            self.counts["domains_waiting"] -= domain.due is not None
            domain.due = domain.errand = None  # what it came up for may be gone

    def exclude(self, names: Iterable[str]) -> int:
        changed = [domain for domain in self.domains(names).values() if not domain.excluded]
        for domain in changed:
            domain.excluded = 1
            self._whole.add(domain.id)
        return len(changed)

    def include(self, names: Iterable[str]) -> int:
        wanted = set(names)
        changed = [domain for name, domain in self._state.named(wanted).items() if domain.excluded and name in wanted]
        for domain in changed:
            domain.excluded = 0
            self._domains[domain.id] = domain
            self._whole.add(domain.id)
        return len(changed)

    def save(self) -> None:
        self._state.put_retries(self._retries)
        self._state.put_visits(self._visits)
        self._state.postpone_visits(self._postponed)
        self._state.drop_turns(self._ended)
        self._state.put_turns((token, *turn) for token, turn in self._turns.items())
        for domain in self._domains.values():
            self._schedule(domain, since=self._since.get(domain.id, self._now))
        whole = [row for row in self._domains.values() if row.new or row.id in self._whole]
        self._state.save(whole)
        self._state.save_lanes(row for row in self._domains.values() if not row.new and row.id not in self._whole)
        self._state.tally(self.counts)

    def _schedule(self, domain: DomainRow, *, since: float) -> None:
        """When it comes up: not before its time, nor before it has something. What was earlier already, stays."""
        before = (domain.due, domain.again, domain.errand)
        if domain.token or domain.excluded:
            domain.due = domain.again = domain.errand = None
        else:
            start = max(domain.next, since)
            if domain.has_lines:
                domain.due = earlier_of(domain.due, start)
            elif domain.retries:
                domain.due = earlier_of(domain.due, max(start, self._state.earliest_retry(domain.id)))
            if domain.revisits and (domain.due is None or domain.due > start):
                domain.again = earlier_of(domain.again, max(start, self._state.earliest_again(domain.id)))
            if domain.due is not None and domain.again is not None and domain.due <= domain.again:
                domain.again = None
            domain.errand = self._errand(domain, start) if PAGE_RESOURCE in domain.lanes else None
        if before != (domain.due, domain.again, domain.errand):
            self._whole.add(domain.id)
            self.counts["domains_waiting"] += (domain.due is not None) - (before[0] is not None)

    def _errand(self, domain: DomainRow, start: float) -> float | None:
        """When it would come up if it had nothing but requisites."""
        read, end = domain.lanes[PAGE_RESOURCE]
        first = start if read < end else self._state.earliest_errand(domain.id) if domain.retries else None
        return None if first is None else earlier_of(domain.errand, max(start, first))


def earlier_of(one: float | None, other: float) -> float:
    return other if one is None else min(one, other)
