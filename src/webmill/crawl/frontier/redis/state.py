"""The state of a frontier in Redis.

docs/reference/frontier-redis.md explains the keys. There is one owner, so that a change is made of a few batched
questions, a decision here (`FrontierChange`), and one script that applies it (`changes`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from webmill.crawl.frontier.base import MOST_RANK, PAGE_RESOURCE, ClaimRequest, FrontierStats, LastVisit, RevisitRule
from webmill.crawl.frontier.redis.changes import ChangeSender, OnApplied
from webmill.crawl.frontier.redis.rows import (
    RetryRow,
    decode_domain,
    encode_domain,
    escape_pattern,
    member_name,
    schedule_member,
)
from webmill.crawl.frontier.redis.server import Command, RedisServer, as_text
from webmill.crawl.frontier.redis.visits import DueRevisit, RedisVisits, keep_earliest
from webmill.crawl.frontier.state import (
    DomainState,
    MadeVisit,
    PostponedRevisit,
    ReadyDomain,
    RetryEntry,
    StoredVisit,
    TurnRow,
    UrlRow,
    choose_ready,
    earliest,
    encode_json,
    stats_from,
)

AT_ONCE = 1000
RETRIES = 10_000  # of a domain among which its next ones are chosen: those that may be asked for longest

VERSION = 4  # of the keys; 1 had no hops, 2 no times of page resources, 3 no ranks

_rows = msgspec.json.Decoder(list[Any])
_turn = msgspec.json.Decoder(tuple[str, list[UrlRow]])
_retry = msgspec.json.Decoder(RetryRow)


class RedisState:
    """A `FrontierState` in Redis. Reading is immediate; changes are collected, and applied by one script."""

    def __init__(self, server: RedisServer, prefix: str, *, epoch: int, number: int) -> None:
        self._server, self._prefix = server, prefix
        self.changes = ChangeSender(server, self.key("meta"), epoch=epoch, number=number)
        counts = self.counts()
        self._last_domain = counts.get("ids", 0)
        self.visits = RedisVisits(server, key=self.key, put=self.put, last=counts.get("visits", 0))
        self._forget()

    def close(self) -> None:
        self._server.close()

    def key(self, *parts: object) -> str:
        return self._prefix + ":".join(map(str, parts))

    # Transactions

    def _forget(self) -> None:
        """Drop all that belongs to a transaction."""
        self._commands: list[Command] = []
        self._known: dict[int, DomainState] = {}
        self._before: dict[int, DomainState] = {}  # as they were when the transaction met them
        self._until: dict[int, float] = {}  # by token
        self._first_retry: dict[int, float] = {}
        self._first_resource_retry: dict[int, float] = {}
        self._due_retries: dict[int, dict[tuple[int, int], tuple[bytes, UrlRow]]] = {}
        self._due_revisits: dict[int, list[DueRevisit]] = {}
        self._is_claim = False
        self._on_applied: OnApplied | None = None
        self.visits.begin()

    @contextmanager
    def write(self) -> Iterator[None]:
        """Run one transaction: it counts as a whole when the block ends, or not at all."""
        self.changes.settle_doubt()
        self._forget()
        try:
            yield
            self.flush()
        finally:
            self._forget()

    def flush(self) -> None:
        """Apply what the transaction has collected."""
        self.visits.end()
        if self._commands:
            self.changes.make(self._commands, then=self._on_applied, is_claim=self._is_claim)
        self._forget()

    def put(self, *command: bytes | str) -> None:
        self._commands.append(command)

    def on_applied(self, act: OnApplied) -> None:
        """Call `act` once the transaction counts, even if that is known only later."""
        self._on_applied = act

    # Domains

    def find_domains(self, names: Iterable[str]) -> dict[str, DomainState]:
        return {name: self._remember(name, row) for name, row in self._read_rows(names) if row}

    def _read_rows(self, names: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
        names = list(names)
        for at in range(0, len(names), AT_ONCE):
            some = names[at : at + AT_ONCE]
            answer = self._server.run("domains", args=[self._prefix, msgspec.json.encode(some)])
            yield from zip(some, _rows.decode(answer), strict=True)

    def _remember(self, name: str, row: Sequence[Any]) -> DomainState:
        domain = decode_domain(name, row)
        until, retry, revisit, resource_retry = row[-4:]
        self._known[domain.id] = domain
        self._before[domain.id] = msgspec.structs.replace(domain)
        if until:
            self._until[domain.token] = float(until)
        if retry:
            keep_earliest(self._first_retry, domain.id, float(retry))
        if revisit:
            keep_earliest(self.visits.earliest_revisit, domain.id, float(revisit))
        if resource_retry:
            keep_earliest(self._first_resource_retry, domain.id, float(resource_retry))
        return domain

    def load_domains(self, ids: Iterable[int]) -> dict[int, DomainState]:
        """Return those that this transaction has met."""
        return {id_: self._known[id_] for id_ in ids}

    def create_domains(self, names: Iterable[str]) -> dict[str, DomainState]:
        made = {}
        for name in names:
            self._last_domain += 1
            made[name] = DomainState(self._last_domain, name, is_new=True)
            self._known[self._last_domain] = made[name]
        if made:
            self.put("HSET", self.key("tally"), "ids", str(self._last_domain))
        return made

    def save_domains(self, domains: Iterable[DomainState]) -> None:
        for row in domains:
            self.put("HSET", self.key("domain", row.name), *encode_domain(row))
            self._schedule(row)

    def _schedule(self, row: DomainState) -> None:
        """Update the sorted sets that say whose turn it is."""
        before, member = self._before.get(row.id) or DomainState(row.id, row.name), schedule_member(row)
        self._set_time("ready", member, before.due, row.due)
        self._set_time("ready:revisits", member, before.revisit_due, row.revisit_due)
        self._set_time("ready:errands", member, before.resource_due, row.resource_due)
        self._set_ranked(member, before, row)
        if row.token and not row.excluded:
            self.put("ZADD", self.key("in_hand"), repr(max(self._until[row.token], row.not_before)), member)
        elif before.token:
            self.put("ZREM", self.key("in_hand"), member)
        if before.excluded != row.excluded:
            where = self.key("excluded")
            self.put(*(("ZADD", where, "0", row.name) if row.excluded else ("ZREM", where, row.name)))

    def _set_ranked(self, member: str, before: DomainState, row: DomainState) -> None:
        """Update the sorted sets of each rank; domains without a rank are in none."""
        moved = before.rank != row.rank
        if before.rank and moved:
            self._set_time(f"ready:rank:{before.rank}", member, before.due, None)
            self._set_time(f"ready:revisits:rank:{before.rank}", member, before.revisit_due, None)
        if row.rank:
            self._set_time(f"ready:rank:{row.rank}", member, None if moved else before.due, row.due)
            due = None if moved else before.revisit_due
            self._set_time(f"ready:revisits:rank:{row.rank}", member, due, row.revisit_due)

    def _set_time(self, schedule: str, member: str, before: float | None, now: float | None) -> None:
        if before == now:
            return
        if now is None:
            self.put("ZREM", self.key(schedule), member)
        else:
            self.put("ZADD", self.key(schedule), repr(now), member)

    def save_queues(self, domains: Iterable[DomainState]) -> None:
        for row in domains:
            self.put("HSET", self.key("domain", row.name), "lanes", encode_json(row.queues))

    def due_domains(self, request: ClaimRequest, *, last: int) -> list[DomainState]:
        now, revisits = request.now, request.revisits
        if request.resources_only:
            order = sorted(self._read_due(["ready:errands"], request), key=lambda row: (row.resource_due, row.id))
            self._read_retries([row for row in order if row.retries], now=now, among="errands")
            return order
        schedules = ["ready", "ready:revisits"] if revisits else ["ready"]
        ranks = range(request.ranks_from, MOST_RANK + 1)
        ranked = [f"{schedule}:rank:{rank}" for schedule in schedules for rank in ranks]
        found = {row.id: row for row in self._read_due([*schedules, *ranked], request)}
        ready = [
            ReadyDomain(earliest(row.due, row.revisit_due if revisits else None), row.id, row.rank)
            for row in found.values()
        ]
        order = [found[id_] for id_ in choose_ready(ready, request, last=last)]
        self._read_retries([row for row in order if row.retries], now=now)
        if revisits:
            some = [row for row in order if row.revisits]
            self._due_revisits = self.visits.due(some, now=now, count=request.urls_per_turn)
        return order

    def _read_due(self, schedules: Sequence[str], request: ClaimRequest) -> Iterable[DomainState]:
        """Return the first domains of each schedule, in any order."""
        found = self._server.ask_all(
            ("ZRANGEBYSCORE", self.key(schedule), "-inf", repr(request.now), "LIMIT", 0, request.turns)
            for schedule in schedules
        )
        return self.find_domains(dict.fromkeys(member_name(member) for members in found for member in members)).values()

    def _read_retries(self, domains: Sequence[DomainState], *, now: float, among: str = "retries") -> None:
        """Read the due retries of all these domains in one round trip; `due_retries` is asked for each."""
        asked = (
            ("ZRANGEBYSCORE", self.key(among, row.name), "-inf", repr(now), "LIMIT", 0, RETRIES) for row in domains
        )
        for row, members in zip(domains, self._server.ask_all(asked) if domains else (), strict=True):
            found = self._due_retries[row.id] = {}
            for member in members:
                retry = _retry.decode(member)
                found[retry.priority, retry.position] = (member, retry.as_url_row())

    def next_turn(self, *, revisits: bool) -> float | None:
        return self._earliest(["ready", "in_hand", "ready:revisits"] if revisits else ["ready", "in_hand"])

    def next_resource_turn(self) -> float | None:
        return self._earliest(["ready:errands", "in_hand"])

    def _earliest(self, schedules: Sequence[str]) -> float | None:
        found = self._server.ask_all(("ZRANGE", self.key(schedule), 0, 0, "WITHSCORES") for schedule in schedules)
        return min((float(answer[1]) for answer in found if answer), default=None)

    # What waits

    def earliest_retry(self, domain: int) -> float:
        return self._first_retry[domain]

    def earliest_resource_retry(self, domain: int) -> float | None:
        return self._first_resource_retry.get(domain)

    def earliest_revisit(self, domain: int) -> float:
        return self.visits.earliest_revisit[domain]

    def due_retries(self, domain: int, *, now: float, count: int) -> list[UrlRow]:
        del now
        found = self._due_retries.get(domain, {})
        return [found[where][1] for where in sorted(found)[:count]]

    def due_revisits(self, domain: int, *, now: float, count: int) -> list[DueRevisit]:
        del now
        return self._due_revisits.get(domain, [])[:count]

    def add_retries(self, retries: Iterable[RetryEntry]) -> None:
        for id_, priority, position, not_before, attempts, depth, url, hops in retries:
            member = msgspec.json.encode(RetryRow(priority, position, attempts, depth, url, hops))
            self.put("ZADD", self.key("retries", self._known[id_].name), repr(not_before), member)
            keep_earliest(self._first_retry, id_, not_before)
            if priority == PAGE_RESOURCE:
                self.put("ZADD", self.key("errands", self._known[id_].name), repr(not_before), member)
                keep_earliest(self._first_resource_retry, id_, not_before)

    def delete_retries(self, rows: Iterable[tuple[int, int, int]]) -> None:
        for id_, priority, position in rows:
            member, _ = self._due_retries[id_][priority, position]
            self.put("ZREM", self.key("retries", self._known[id_].name), member)
            if priority == PAGE_RESOURCE:
                self.put("ZREM", self.key("errands", self._known[id_].name), member)

    # Turns

    def find_turns(self, tokens: Iterable[int]) -> dict[int, TurnRow]:
        wanted = [str(token) for token in tokens]
        if not wanted:
            return {}
        bodies, untils = self._server.ask_all(
            [("HMGET", self.key("turns"), *wanted), ("ZMSCORE", self.key("leases"), *wanted)]
        )
        found = [
            (int(token), float(until), *_turn.decode(body))
            for token, body, until in zip(wanted, bodies, untils, strict=True)
            if body is not None
        ]
        domains = self.find_domains(dict.fromkeys(name for _, _, name, _ in found))
        self.visits.find([(domains[name], row) for _, _, name, urls in found for row in urls if row.visit_id])
        return {token: TurnRow(domains[name].id, until, urls) for token, until, name, urls in found}

    def expired_turns(self, *, now: float) -> dict[int, TurnRow]:
        tokens = self._server.ask("ZRANGEBYSCORE", self.key("leases"), "-inf", repr(now))
        return self.find_turns(int(token) for token in tokens)

    def save_turns(self, turns: Iterable[tuple[int, TurnRow]]) -> None:
        for token, turn in turns:
            name = self._known[turn.domain].name
            self._until[token] = turn.until
            self.put("HSET", self.key("turns"), str(token), encode_json((name, turn.urls)))
            self.put("ZADD", self.key("leases"), repr(turn.until), str(token))
            for row in turn.urls:
                if row.visit_id:
                    self.visits.claim(row, name)

    def delete_turns(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            self.put("HDEL", self.key("turns"), str(token))
            self.put("ZREM", self.key("leases"), str(token))

    def extend(self, tokens: Iterable[int], *, now: float, until: float) -> set[int]:
        """Extend the leases that are not over; return their tokens."""
        alive = {token: turn.domain for token, turn in self.find_turns(tokens).items() if turn.until > now}
        for token, id_ in alive.items():
            row = self._known[id_]
            self.put("ZADD", self.key("leases"), repr(until), str(token))
            if not row.excluded:
                self.put("ZADD", self.key("in_hand"), repr(max(until, row.not_before)), schedule_member(row))
        return set(alive)

    # Visits

    def save_visits(self, visits: Iterable[MadeVisit]) -> None:
        self.visits.put(visits, self._known)

    def postpone_revisits(self, revisits: Iterable[PostponedRevisit]) -> None:
        self.visits.postpone(revisits)

    def visit(self, url: str) -> LastVisit | None:
        return self.visits.of(url)

    def find_visits(self, urls: Iterable[str]) -> dict[str, StoredVisit]:
        return self.visits.find_stored(list(urls))

    def due_visits(self, rule: RevisitRule, *, now: float) -> Iterator[list[StoredVisit]]:
        return self.visits.due_by(rule, now=now)

    def advance_revisits(self, visits: Iterable[StoredVisit], *, now: float) -> None:
        self.visits.advance(list(visits), {domain.name: domain for domain in self._known.values()}, now=now)

    def delete_visits(self, visits: Iterable[StoredVisit]) -> None:
        self.visits.delete(visits)

    # All rows, for listings and backups

    def all_retries(self, domain: DomainState) -> Iterator[UrlRow]:
        start, key = 0, self.key("retries", domain.name)
        while members := self._server.ask("ZRANGE", key, start, start + AT_ONCE - 1):
            start += AT_ONCE
            yield from (_retry.decode(member).as_url_row() for member in members)

    def urls_in_hand(self, domain: DomainState) -> list[UrlRow]:
        body = self._server.ask("HGET", self.key("turns"), str(domain.token)) if domain.token else None
        return _turn.decode(body)[1] if body else []

    def all_domains(self) -> Iterator[DomainState]:
        for schedule in ("ready", "in_hand", "excluded"):
            start = 0
            while members := self._server.ask("ZRANGE", self.key(schedule), start, start + AT_ONCE - 1):
                start += AT_ONCE
                names = map(as_text, members) if schedule == "excluded" else map(member_name, members)
                yield from (decode_domain(name, row) for name, row in self._read_rows(names) if row)

    def reload_domain(self, domain: DomainState) -> DomainState:
        return self.load_domain(domain.name)

    def load_domain(self, name: str) -> DomainState:
        """Return a domain that exists, as it is now."""
        ((_, row),) = self._read_rows([name])
        return decode_domain(name, row)

    def domain_names(self) -> Iterator[str]:
        """Yield the names of all domains, some maybe twice."""
        start = self.key("domain", "")
        with self._server.errors():
            for key in self._server.client.scan_iter(match=escape_pattern(start) + "*", count=AT_ONCE):
                yield key.decode()[len(start) :]

    # Counts

    def add_counts(self, changes: Counter[str]) -> None:
        self._is_claim = bool(changes["tokens"])
        for name, change in sorted(changes.items()):
            if change:
                self.put("HINCRBY", self.key("tally"), name, str(change))

    def counts(self) -> dict[str, int]:
        answer = self._server.ask("HGETALL", self.key("tally"))
        return {name.decode(): int(value) for name, value in answer.items()}

    def stats(self) -> FrontierStats:
        return stats_from(self.counts())
