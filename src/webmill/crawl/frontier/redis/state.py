"""The coordination of a frontier in Redis: what `state.State` is in SQLite, with the same questions and changes.

docs/reference/frontier-redis.md explains the keys. There is one owner, so that a change is made of a few batched
questions, a decision here (`Change`), and one script that applies it (`redis_changes`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from webmill.crawl.frontier.base import PAGE_RESOURCE, ClaimRequest, LastVisit
from webmill.crawl.frontier.redis.changes import ChangeSender, OnApplied
from webmill.crawl.frontier.redis.server import Command, Server, text
from webmill.crawl.frontier.redis.visits import DueRevisit, RedisVisits, keep_earliest
from webmill.crawl.frontier.sqlite_state import DomainRow, SqliteState, UrlRow, earliest, encode_json

AT_ONCE = 1000
RETRIES = 10_000  # of a domain among which its next ones are chosen: those that may be asked for longest

VERSION = 3  # of the keys; 1 had no hops, 2 no errands


class RetryRow(msgspec.Struct, array_like=True, frozen=True):
    """A URL that was in hand and waits again."""

    priority: int
    place: int
    attempts: int
    depth: int
    url: str
    hops: int = 0

    @property
    def held(self) -> UrlRow:
        return UrlRow(self.url, self.depth, self.priority, self.attempts, self.place, 0, self.hops)


_rows = msgspec.json.Decoder(list[Any])
_turn = msgspec.json.Decoder(tuple[str, list[UrlRow]])
_waiting = msgspec.json.Decoder(RetryRow)


class RedisState(SqliteState):
    def __init__(self, server: Server, prefix: str, *, epoch: int, number: int) -> None:
        self._server, self._prefix = server, prefix
        self.changes = ChangeSender(server, self.key("meta"), epoch=epoch, number=number)
        self.database: Any = self  # what a frontier opens its transactions on
        counts = self.tallied()
        self._last_domain = counts.get("ids", 0)
        self.visits = RedisVisits(server, key=self.key, put=self.put, last=counts.get("visits", 0))
        self._begin()

    def close(self) -> None:
        self._server.close()

    def key(self, *parts: object) -> str:
        return self._prefix + ":".join(map(str, parts))

    # Transactions

    def _begin(self) -> None:
        self._commands: list[Command] = []
        self._known: dict[int, DomainRow] = {}
        self._before: dict[int, tuple[float | None, float | None, float | None, int, int]] = {}
        self._until: dict[int, float] = {}  # by token
        self._first_retry: dict[int, float] = {}
        self._first_errand: dict[int, float] = {}  # likewise, of requisites
        self._due_retries: dict[int, dict[tuple[int, int], tuple[bytes, UrlRow]]] = {}
        self._due_revisits: dict[int, list[DueRevisit]] = {}
        self._is_claim = False
        self._then: OnApplied | None = None
        self.visits.begin()

    @contextmanager
    def write(self) -> Iterator[None]:
        """One transaction: counts as a whole when the block ends, or not at all."""
        self.changes.settle_doubt()
        self._begin()
        try:
            yield
            self.flush()
        finally:
            self._begin()

    def flush(self) -> None:
        """Apply what the transaction has collected."""
        self.visits.end()
        if self._commands:
            self.changes.make(self._commands, then=self._then, is_claim=self._is_claim)
        self._begin()

    def put(self, *command: bytes | str) -> None:
        self._commands.append(command)

    def then(self, act: OnApplied) -> None:
        """Once the transaction counts, even if that is known only later."""
        self._then = act

    # Domains

    def named(self, names: Iterable[str]) -> dict[str, DomainRow]:
        return {name: self._remember(name, row) for name, row in self.rows(names) if row}

    def rows(self, names: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
        names = list(names)
        for at in range(0, len(names), AT_ONCE):
            some = names[at : at + AT_ONCE]
            answer = self._server.run("domains", args=[self._prefix, msgspec.json.encode(some)])
            yield from zip(some, _rows.decode(answer), strict=True)

    def _remember(self, name: str, row: Sequence[Any]) -> DomainRow:
        domain = decode_domain(name, row)
        until, retry, revisit, errand = row[-4:]
        self._known[domain.id] = domain
        self._before[domain.id] = (domain.due, domain.again, domain.errand, domain.token, domain.excluded)
        if until:
            self._until[domain.token] = float(until)
        if retry:
            keep_earliest(self._first_retry, domain.id, float(retry))
        if revisit:
            keep_earliest(self.visits.first_again, domain.id, float(revisit))
        if errand:
            keep_earliest(self._first_errand, domain.id, float(errand))
        return domain

    def numbered(self, ids: Iterable[int]) -> dict[int, DomainRow]:
        """Of those that this transaction has met."""
        return {id_: self._known[id_] for id_ in ids}

    def make(self, names: Iterable[str]) -> dict[str, DomainRow]:
        made = {}
        for name in names:
            self._last_domain += 1
            made[name] = DomainRow(self._last_domain, name, 0, 0, 0.0, None, None, 0, 0, "{}")
            made[name].new = True
            self._known[self._last_domain] = made[name]
        if made:
            self.put("HSET", self.key("tally"), "ids", str(self._last_domain))
        return made

    def save(self, domains: Iterable[DomainRow]) -> None:
        for row in domains:
            self.put("HSET", self.key("domain", row.name), *encode_domain(row))
            self._queue(row)

    def _queue(self, row: DomainRow) -> None:
        """Its places in the sets that say whose turn it is."""
        due, again, errand, token, excluded = self._before.get(row.id, (None, None, None, 0, 0))
        member = queue_member(row)
        self._place("ready", member, due, row.due)
        self._place("ready:revisits", member, again, row.again)
        self._place("ready:errands", member, errand, row.errand)
        if row.token and not row.excluded:
            self.put("ZADD", self.key("in_hand"), repr(max(self._until[row.token], row.next)), member)
        elif token:
            self.put("ZREM", self.key("in_hand"), member)
        if excluded != row.excluded:
            where = self.key("excluded")
            self.put(*(("ZADD", where, "0", row.name) if row.excluded else ("ZREM", where, row.name)))

    def _place(self, queue: str, member: str, before: float | None, now: float | None) -> None:
        if before == now:
            return
        if now is None:
            self.put("ZREM", self.key(queue), member)
        else:
            self.put("ZADD", self.key(queue), repr(now), member)

    def save_lanes(self, domains: Iterable[DomainRow]) -> None:
        for row in domains:
            self.put("HSET", self.key("domain", row.name), "lanes", encode_json(row.lanes))

    def due_domains(self, request: ClaimRequest) -> list[DomainRow]:
        count, now, revisits = request.turns, request.now, request.revisits
        if request.resources_only:
            order = sorted(self._queued(["ready:errands"], count, now=now), key=lambda row: (row.errand, row.id))
            self._find_retries([row for row in order if row.retries], now=now, among="errands")
            return order
        queues = ["ready", "ready:revisits"] if revisits else ["ready"]
        order = sorted(
            self._queued(queues, count, now=now),
            key=lambda row: (earliest(row.due, row.again if revisits else None), row.id),
        )[:count]
        self._find_retries([row for row in order if row.retries], now=now)
        if revisits:
            some = [row for row in order if row.revisits]
            self._due_revisits = self.visits.due(some, now=now, count=request.urls_per_turn)
        return order

    def _queued(self, queues: Sequence[str], count: int, *, now: float) -> Iterable[DomainRow]:
        """The first `count` of each, in any order."""
        found = self._server.ask_all(
            ("ZRANGEBYSCORE", self.key(queue), "-inf", repr(now), "LIMIT", 0, count) for queue in queues
        )
        return self.named(dict.fromkeys(member_name(member) for members in found for member in members)).values()

    def _find_retries(self, domains: Sequence[DomainRow], *, now: float, among: str = "retries") -> None:
        """Of all these domains in one round trip; `retries` asks for each."""
        asked = (
            ("ZRANGEBYSCORE", self.key(among, row.name), "-inf", repr(now), "LIMIT", 0, RETRIES) for row in domains
        )
        for row, members in zip(domains, self._server.ask_all(asked) if domains else (), strict=True):
            found = self._due_retries[row.id] = {}
            for member in members:
                one = _waiting.decode(member)
                found[one.priority, one.place] = (member, one.held)

    def next_turn(self, *, revisits: bool) -> float | None:
        return self._first(["ready", "in_hand", "ready:revisits"] if revisits else ["ready", "in_hand"])

    def next_resource_turn(self) -> float | None:
        return self._first(["ready:errands", "in_hand"])

    def _first(self, queues: Sequence[str]) -> float | None:
        found = self._server.ask_all(("ZRANGE", self.key(queue), 0, 0, "WITHSCORES") for queue in queues)
        return min((float(answer[1]) for answer in found if answer), default=None)

    # What waits

    def earliest_retry(self, domain: int) -> float:
        return self._first_retry[domain]

    def earliest_errand(self, domain: int) -> float | None:
        return self._first_errand.get(domain)

    def earliest_again(self, domain: int) -> float:
        return self.visits.first_again[domain]

    def retries(self, domain: int, *, now: float, count: int) -> list[UrlRow]:
        del now
        found = self._due_retries.get(domain, {})
        return [found[place][1] for place in sorted(found)[:count]]

    def revisits(self, domain: int, *, now: float, count: int) -> list[DueRevisit]:
        del now
        return self._due_revisits.get(domain, [])[:count]

    def put_retries(self, rows: Iterable[Sequence[Any]]) -> None:
        for id_, priority, place, not_before, attempts, depth, url, hops in rows:
            member = msgspec.json.encode(RetryRow(priority, place, attempts, depth, url, hops))
            self.put("ZADD", self.key("retries", self._known[id_].name), repr(not_before), member)
            keep_earliest(self._first_retry, id_, not_before)
            if priority == PAGE_RESOURCE:
                self.put("ZADD", self.key("errands", self._known[id_].name), repr(not_before), member)
                keep_earliest(self._first_errand, id_, not_before)

    def drop_retries(self, rows: Iterable[tuple[int, int, int]]) -> None:
        for id_, priority, place in rows:
            member, _ = self._due_retries[id_][priority, place]
            self.put("ZREM", self.key("retries", self._known[id_].name), member)
            if priority == PAGE_RESOURCE:
                self.put("ZREM", self.key("errands", self._known[id_].name), member)

    # Turns

    def turns(self, tokens: Iterable[int]) -> dict[int, tuple[int, float, list[UrlRow]]]:
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
        domains = self.named(dict.fromkeys(name for _, _, name, _ in found))
        self.visits.find([(domains[name], held) for _, _, name, items in found for held in items if held.visit])
        return {token: (domains[name].id, until, items) for token, until, name, items in found}

    def over(self, *, now: float) -> dict[int, tuple[int, float, list[UrlRow]]]:
        tokens = self._server.ask("ZRANGEBYSCORE", self.key("leases"), "-inf", repr(now))
        return self.turns(int(token) for token in tokens)

    def put_turns(self, rows: Iterable[tuple[int, int, float, Sequence[UrlRow]]]) -> None:
        for token, id_, until, items in rows:
            name = self._known[id_].name
            self._until[token] = until
            self.put("HSET", self.key("turns"), str(token), encode_json((name, items)))
            self.put("ZADD", self.key("leases"), repr(until), str(token))
            for held in items:
                if held.visit:
                    self.visits.take(held, name)

    def drop_turns(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            self.put("HDEL", self.key("turns"), str(token))
            self.put("ZREM", self.key("leases"), str(token))

    def extend(self, tokens: Iterable[int], *, now: float, until: float) -> set[int]:
        """Those whose lease was not over."""
        alive = {token: id_ for token, (id_, end, _) in self.turns(tokens).items() if end > now}
        for token, id_ in alive.items():
            row = self._known[id_]
            self.put("ZADD", self.key("leases"), repr(until), str(token))
            if not row.excluded:
                self.put("ZADD", self.key("in_hand"), repr(max(until, row.next)), queue_member(row))
        return set(alive)

    # Visits

    def put_visits(self, rows: Iterable[tuple[UrlRow, int, LastVisit, float | None]]) -> None:
        self.visits.put(rows, self._known)

    def postpone_visits(self, rows: Iterable[tuple[float, int, int]]) -> None:
        self.visits.postpone(rows)

    def visit(self, url: str) -> LastVisit | None:
        return self.visits.of(url)

    # All of them, for who must read them all

    def retries_of(self, domain: DomainRow) -> Iterator[UrlRow]:
        start, key = 0, self.key("retries", domain.name)
        while members := self._server.ask("ZRANGE", key, start, start + AT_ONCE - 1):
            start += AT_ONCE
            yield from (_waiting.decode(member).held for member in members)

    def in_hand_of(self, domain: DomainRow) -> list[UrlRow]:
        body = self._server.ask("HGET", self.key("turns"), str(domain.token)) if domain.token else None
        return _turn.decode(body)[1] if body else []

    def each(self) -> Iterator[DomainRow]:
        """All that have something that waits or is in hand."""
        for queue in ("ready", "in_hand", "excluded"):
            start = 0
            while members := self._server.ask("ZRANGE", self.key(queue), start, start + AT_ONCE - 1):
                start += AT_ONCE
                names = map(text, members) if queue == "excluded" else map(member_name, members)
                yield from (decode_domain(name, row) for name, row in self.rows(names) if row)

    def reread(self, domain: DomainRow) -> DomainRow:
        return self.fresh(domain.name)

    def fresh(self, name: str) -> DomainRow:
        """A domain that exists, as it is now."""
        ((_, row),) = self.rows([name])
        return decode_domain(name, row)

    def names(self) -> Iterator[str]:
        """Of all domains, some maybe twice."""
        start = self.key("domain", "")
        with self._server.errors():
            for key in self._server.client.scan_iter(match=escape_pattern(start) + "*", count=AT_ONCE):
                yield key.decode()[len(start) :]

    # Counts

    def tally(self, changes: Counter[str]) -> None:
        self._is_claim = bool(changes["tokens"])
        for name, change in sorted(changes.items()):
            if change:
                self.put("HINCRBY", self.key("tally"), name, str(change))

    def tallied(self) -> dict[str, int]:
        answer = self._server.ask("HGETALL", self.key("tally"))
        return {name.decode(): int(value) for name, value in answer.items()}


def decode_domain(name: str, row: Sequence[Any]) -> DomainRow:
    """As `domains.lua` gives it."""
    id_, excluded, token, next_, due, again, retries, revisits, lanes, errand, *_ = row
    return DomainRow(
        int(id_), name, int(excluded or 0), int(token or 0), float(next_ or 0), as_number(due), as_number(again),
        int(retries or 0), int(revisits or 0), lanes or "{}", as_number(errand),
    )  # fmt: skip


def escape_pattern(pattern: str) -> str:
    """So that it matches itself only."""
    return "".join("\\" + char if char in "\\*?[]^" else char for char in pattern)


def queue_member(row: DomainRow) -> str:
    """In a queue: of two that are due at the same time the older domain is first."""
    return f"{row.id:08x} {row.name}"


def encode_domain(row: DomainRow) -> list[str]:
    """Of a new one only what it has: most domains keep to that for long."""
    values: dict[str, tuple[float | None, float | None]] = {  # and what it means that there is none
        "next_fetch_time": (row.next, 0.0), "due": (row.due, None), "again": (row.again, None), "token": (row.token, 0),
        "retries": (row.retries, 0), "revisits": (row.revisits, 0), "is_excluded": (row.excluded, 0),
        "errand": (row.errand, None),
    }  # fmt: skip
    fields = ["lanes", encode_json(row.lanes)]
    if row.new:
        fields += ["id", str(row.id)]
    for name, (value, absent) in values.items():
        if not row.new or value != absent:
            fields += [name, "" if value is None else repr(value)]
    return fields


def member_name(member: bytes) -> str:
    return member.partition(b" ")[2].decode()


def as_number(value: str | None) -> float | None:
    return float(value) if value else None
