"""A frontier that lives as long as its process: for tests, small crawls, and as the model of all others."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from webmill.crawl.frontier import backup
from webmill.crawl.frontier.base import (
    ClaimedUrl,
    ClaimRequest,
    CommitResult,
    DomainTurn,
    FrontierStats,
    FrontierUpdate,
    LastVisit,
    Outcome,
    RetryLater,
    RevisitRule,
    RobotsEntry,
    TurnOutcomes,
    VisitDone,
    domain_of,
)
from webmill.crawl.frontier.hops import pack_hops, unpack_hops
from webmill.crawl.frontier.memory_domain import KnownUrl, MemoryDomain, as_kept, give_back
from webmill.crawl.frontier.new_urls import checked_hops, encode_urls
from webmill.crawl.frontier.state import ReadyDomain, checked_rank, choose_ready, is_pinned
from webmill.model import Link


class MemoryBackup(msgspec.Struct, kw_only=True):
    """The whole frontier, as it is backed up."""

    domains: dict[str, MemoryDomain]
    visited: dict[str, LastVisit]
    robots: dict[str, RobotsEntry]
    notes: dict[str, str]
    counts: dict[str, int]


BACKEND, FILE = "memory", "frontier.msgpack"
_everything = msgspec.msgpack.Decoder(MemoryBackup)


class MemoryFrontier:
    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._domains: dict[str, MemoryDomain] = {}
        self._turns: dict[int, MemoryDomain] = {}
        self._visited: dict[str, LastVisit] = {}
        self._robots: dict[str, RobotsEntry] = {}
        self._notes: dict[str, str] = {}
        self._counts: Counter[str] = Counter()

    def claim(self, request: ClaimRequest) -> list[DomainTurn]:
        now = request.now
        with self._lock:
            self._end_leases(now)
            due = {domain.number: domain for domain in self._domains.values()}
            times = {
                number: one.due_time(revisits=request.revisits, resources_only=request.resources_only)
                for number, one in due.items()
            }
            ready = [
                ReadyDomain(time, number, 0 if request.resources_only else due[number].rank)
                for number, time in times.items()
                if time is not None and time <= now
            ]
            chosen = [due[number] for number in choose_ready(ready, request, last=self._counts["tokens"])]
            return [turn for one in chosen if (turn := self._start_turn(one, request))]

    def _start_turn(self, domain: MemoryDomain, request: ClaimRequest) -> DomainTurn | None:
        ranked = [(known.rank(request), known) for known in domain.urls.values()]
        first = request.revisits_first
        found = [(first and one.state != "visited", rank, one.link.url) for rank, one in ranked if rank is not None]
        if not found:  # what it came up for was visited meanwhile, without a claim
            domain.due = domain.revisit_due = domain.resource_due = None
            domain.schedule(request.now)
            return None
        self._counts["tokens"] += 1
        domain.token = self._counts["tokens"]
        self._turns[domain.token] = domain
        items = []
        for *_, url in sorted(found)[: request.urls_per_turn]:
            known = domain.urls[url]
            known.state = "in hand"
            link = known.link
            reached_by = unpack_hops(link.priority, pack_hops(link))
            items.append(ClaimedUrl(url, link.depth, link.priority, known.attempts, known.last, *reached_by))
        domain.until, domain.next = request.now + request.lease, request.now + request.hold
        domain.schedule(request.now)
        return DomainTurn(domain.name, domain.token, domain.until, tuple(items), domain.rank)

    def _end_leases(self, now: float, *, since: float | None = None) -> None:
        for domain in [domain for domain in self._turns.values() if domain.until <= now]:
            self._end(domain)
            domain.schedule(domain.until if since is None else since)
            self._counts["expired"] += 1

    def _end(self, domain: MemoryDomain) -> None:
        for known in domain.in_hand():
            give_back(known, not_before=0.0, attempts=known.attempts)
        del self._turns[domain.token]
        domain.token = 0

    def commit(self, step: FrontierUpdate, *, now: float) -> CommitResult:
        for link in step.links:
            checked_hops(link)
        urls = [*(done.url for done in step.visited), *(link.url for link in step.links)]
        names = {domain_of(url.decode()) for url in encode_urls(urls)}
        with self._lock:
            alive = {token for token, domain in self._turns.items() if domain.until > now}
            for settled in step.settled:
                if settled.token in alive and settled.token in self._turns:
                    self._settle(settled, now=now)
            counts = Counter(self._import(done) for done in step.visited)
            counts.update(self._add(link, now=now) for link in step.links)
            for name in names:
                self._domains[name].schedule(now)
            self._robots |= {robots.origin: robots for robots in step.robots}
            self._notes |= step.notes
            for name, rank in step.ranks.items():
                if (domain := self._domains.get(name)) and not is_pinned(domain.rank):
                    domain.rank = checked_rank(rank)
        lost = frozenset(settled.token for settled in step.settled) - alive
        return CommitResult(
            added=counts["added"],
            known=counts["known"] + counts["news"],
            excluded=counts["excluded"],
            lost=lost,
            imported=counts["imported"],
            brought_forward=counts["news"],
        )

    def _import(self, done: VisitDone) -> str:
        domain, visit = self._domain(domain_of(done.url)), done.visit
        if done.url in domain.urls:
            return "known"
        known = KnownUrl(link=as_kept(Link(visit.url, visit.depth), pack_hops(visit)), place=0)
        domain.urls[done.url] = known
        self._apply(known, done)
        return "imported"

    def _add(self, link: Link, *, now: float) -> str:
        domain = self._domain(domain_of(link.url))
        if known := domain.urls.get(link.url):
            is_news = known.state == "visited" and known.last is not None and known.last.time < link.modified
            return "news" if is_news and self._make_due(known, now=now) else "known"
        if domain.is_excluded:
            return "excluded"
        self._counts["links"] += 1
        domain.urls[link.url] = KnownUrl(link=as_kept(link, pack_hops(link)), place=self._counts["links"])
        return "added"

    def _domain(self, name: str) -> MemoryDomain:
        return self._domains.setdefault(name, MemoryDomain(name=name, number=len(self._domains)))

    def _settle(self, settled: TurnOutcomes, *, now: float) -> None:
        domain = self._turns[settled.token]
        for outcome in settled.outcomes:
            known = domain.urls.get(outcome.url)
            if known and known.state == "in hand":
                self._apply(known, outcome)
        if settled.next is not None:
            domain.next = settled.next
        if settled.next is not None or not domain.in_hand():
            self._end(domain)
        domain.schedule(now)

    def _apply(self, known: KnownUrl, outcome: Outcome) -> None:
        if isinstance(outcome, VisitDone):
            if known.last is None:
                known.place = len(self._visited)
            known.state, known.last = "visited", outcome.visit
            known.revisit_due, known.attempts = outcome.revisit_due, 1
            self._visited[outcome.url] = outcome.visit
            self._counts["pages"] += outcome.is_page
        else:
            attempts = known.attempts + isinstance(outcome, RetryLater)
            give_back(known, not_before=outcome.not_before, attempts=attempts)

    def extend(self, tokens: Iterable[int], *, now: float, lease: float) -> frozenset[int]:
        wanted = set(tokens)
        with self._lock:
            alive = {token for token in wanted & self._turns.keys() if self._turns[token].until > now}
            for token in alive:
                self._turns[token].until = now + lease
        return frozenset(wanted - alive)

    def next_turn(self, *, revisits: bool = False, resources_only: bool = False) -> float | None:
        times = [domain.due_time(revisits=revisits, resources_only=resources_only) for domain in self._domains.values()]
        times += [max(domain.until, domain.next) for domain in self._turns.values() if not domain.is_excluded]
        return min((time for time in times if time is not None), default=None)

    def bring_forward(self, rule: RevisitRule, *, now: float) -> int:
        with self._lock:
            known = [one for domain in self._domains.values() for one in domain.urls.values()]
            due = [one for one in known if one.state == "visited" and one.is_due(rule, now=now)]
            return sum(self._make_due(one, now=now) for one in due)

    def retry(self, urls: Sequence[str]) -> int:
        with self._lock:
            found = [self._domain(domain_of(url)).urls.get(url) for url in dict.fromkeys(urls)]
            visited = [known for known in found if known and known.state == "visited"]
            for known in visited:
                self._retry(known)
        return len(visited)

    def _retry(self, known: KnownUrl) -> None:
        if known.last and known.last.has_page:
            self._make_due(known, now=0.0)
            return
        del self._visited[known.link.url]
        known.state, known.not_before, known.attempts = "waiting", 0.0, 1
        known.last = known.revisit_due = None
        self._domain(domain_of(known.link.url)).schedule(0.0)

    def _make_due(self, known: KnownUrl, *, now: float) -> bool:
        """Let a visited URL be visited again now; return whether its domain lets it."""
        known.revisit_due, known.attempts = min(known.revisit_due or now, now), 1
        domain = self._domain(domain_of(known.link.url))
        domain.schedule(now)
        return not domain.is_excluded

    def record(self, visits: Sequence[VisitDone], *, now: float) -> None:
        with self._lock:
            for done in visits:
                known, last = self._domain(domain_of(done.url)).urls.get(done.url), self._visited.get(done.url)
                if known and last and known.state == "visited" and last.time < done.visit.time:
                    self._apply(known, done)
            self.commit(FrontierUpdate(visited=visits), now=now)

    def visit(self, url: str) -> LastVisit | None:
        return self._visited.get(url)

    def visits(self, *, since: float = 0.0, until: float | None = None) -> Iterator[LastVisit]:
        for visit in sorted(self._visited.values(), key=lambda visit: visit.time):
            if visit.time >= since and (until is None or visit.time < until):
                yield visit

    def waiting(self) -> Iterator[Link]:
        for domain in self._domains.values():
            yield from (known.link for known in domain.urls.values() if known.last is None)

    def robots(self, origin: str) -> RobotsEntry | None:
        return self._robots.get(origin)

    def exclude(self, domains: Iterable[str]) -> int:
        with self._lock:
            return sum(self._set_excluded(self._domain(name), excluded=True) for name in domains)

    def include(self, domains: Iterable[str]) -> int:
        with self._lock:
            known = [self._domains[name] for name in domains if name in self._domains]
            return sum(self._set_excluded(domain, excluded=False) for domain in known)

    def prioritise(self, domains: Iterable[str], rank: int) -> int:
        with self._lock:
            found = [self._domain(name) for name in dict.fromkeys(domains)]
            changed = [domain for domain in found if domain.rank != checked_rank(rank)]
            for domain in changed:
                domain.rank = rank
        return len(changed)

    def _set_excluded(self, domain: MemoryDomain, *, excluded: bool) -> bool:
        if domain.is_excluded == excluded:
            return False
        domain.is_excluded = excluded
        domain.schedule(0.0)
        return True

    def excluded(self) -> Iterator[str]:
        yield from sorted(domain.name for domain in self._domains.values() if domain.is_excluded)

    def notes(self) -> dict[str, str]:
        return dict(self._notes)

    def stats(self) -> FrontierStats:
        urls = [known for domain in self._domains.values() for known in domain.urls.values()]
        states = Counter(known.state for known in urls)
        return FrontierStats(
            waiting=states["waiting"],
            in_hand=states["in hand"],
            visited=states["visited"],
            pages=self._counts["pages"],
            revisits=sum(1 for known in urls if known.state == "visited" and known.revisit_due is not None),
            domains=sum(1 for domain in self._domains.values() if domain.urls),
            domains_waiting=sum(1 for domain in self._domains.values() if domain.due is not None),
            domains_in_hand=len(self._turns),
            expired=self._counts["expired"],
        )

    def compact(self) -> None:
        pass

    def back_up(self, folder: Path) -> None:
        with self._lock, backup.create_folder(folder) as draft:
            everything = MemoryBackup(
                domains=self._domains,
                visited=self._visited,
                robots=self._robots,
                notes=self._notes,
                counts=dict(self._counts),
            )
            (draft / FILE).write_bytes(msgspec.msgpack.encode(everything))
            backup.write_manifest(draft, backend=BACKEND, version=1, stats=self.stats())

    def _fill(self, everything: MemoryBackup) -> None:
        self._domains, self._visited = everything.domains, everything.visited
        self._robots, self._notes = everything.robots, everything.notes
        self._counts = Counter(everything.counts)
        self._turns = {domain.token: domain for domain in self._domains.values() if domain.token}
        self._end_leases(math.inf, since=0.0)  # as of one that was opened again

    def close(self) -> None:
        pass


def restore(folder: Path) -> MemoryFrontier:
    """Return the frontier that was backed up there."""
    backup.read_manifest(folder, backend=BACKEND, version=1)
    frontier = MemoryFrontier()
    frontier._fill(_everything.decode((folder / FILE).read_bytes()))
    return frontier
