"""What came of URLs, in Redis: by their hash, by the time of the visit, and by when they are to be visited again."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from webmill.crawl.frontier.base import PAGE_RESOURCE, PRIORITIES, LastVisit, RevisitRule, domain_of, is_due
from webmill.crawl.frontier.hops import pack_hops
from webmill.crawl.frontier.redis.server import RedisServer
from webmill.crawl.frontier.seen_urls import hash_url
from webmill.crawl.frontier.state import DomainState, MadeVisit, PostponedRevisit, StoredVisit, UrlRow
from webmill.infra.batches import batches

SPAN = 10  # seconds of visits that lie in one string
AT_ONCE = 1000

ENTRY = struct.Struct(">dQ16s")  # of a string of visits: time, number, hash of the URL
MEMBER = struct.Struct(">Q16s")  # of a visit that is to be repeated: number (the order of equals), hash

DueRevisit = tuple[UrlRow, LastVisit]


class VisitRow(msgspec.Struct, array_like=True):
    """A visit as it is kept: its fields without those at the end that have their default."""

    id: int
    priority: int
    revisit_due: float | None
    attempts: int
    fields: list[Any]

    @property
    def visit(self) -> LastVisit:
        return LastVisit(**dict(zip(LastVisit.__struct_fields__, self.fields, strict=False)))


_kept = msgspec.msgpack.Decoder(VisitRow)
_pack_kept = msgspec.msgpack.Encoder().encode


class RedisVisits:
    """Changes are collected with `put`, as part of the transaction that began last."""

    def __init__(
        self, server: RedisServer, *, key: Callable[..., str], put: Callable[..., None], last: int
    ) -> None:  # fmt: skip
        self._server, self._key, self._put, self._last = server, key, put, last
        self.begin()

    def begin(self) -> None:
        self.earliest_revisit: dict[int, float] = {}  # by domain
        self._in_hand: dict[int, tuple[DomainState, bytes, VisitRow]] = {}  # visits that are to be repeated
        self._spans: dict[int, list[bytes]] = {}

    def end(self) -> None:
        for span, entries in self._spans.items():
            self._put("APPEND", self._key("visited:time", span), b"".join(entries))
            self._put("ZADD", self._key("visited:times"), str(span), str(span))

    # Changes

    def find(self, held: Sequence[tuple[DomainState, UrlRow]]) -> None:
        """Read the visits of URLs in hand that are to be visited again: `postpone` needs them."""
        hashes = [hash_url(item.url.encode()) for _, item in held]
        for (domain, _), hash_, kept in zip(held, hashes, self._ask(hashes), strict=True):
            self._in_hand[kept.id] = (domain, hash_, kept)

    def put(self, visits: Iterable[MadeVisit], domains: Mapping[int, DomainState]) -> None:
        for row, domain, visit, revisit_due in visits:
            if not row.visit_id:
                self._last += 1
                self._put("HSET", self._key("tally"), "visits", str(self._last))
            kept = VisitRow(row.visit_id or self._last, row.priority, revisit_due, 1, trim_defaults(visit))
            hash_ = hash_url(visit.url.encode())
            self._keep(domains[domain], hash_, kept)
            entry = ENTRY.pack(visit.time, kept.id, hash_)
            self._spans.setdefault(math.floor(visit.time / SPAN), []).append(entry)

    def postpone(self, revisits: Iterable[PostponedRevisit]) -> None:
        for not_before, attempts, id_ in revisits:
            domain, hash_, kept = self._in_hand[id_]
            kept.revisit_due, kept.attempts = max(kept.revisit_due or 0.0, not_before), attempts
            self._keep(domain, hash_, kept)

    def _keep(self, domain: DomainState, hash_: bytes, kept: VisitRow) -> None:
        self._put("HSET", self._key("visited"), hash_, _pack_kept(kept))
        if kept.revisit_due is not None:
            where = self._key("revisits", kept.priority, domain.name)
            self._put("ZADD", where, repr(kept.revisit_due), MEMBER.pack(kept.id, hash_))
            keep_earliest(self.earliest_revisit, domain.id, kept.revisit_due)

    def claim(self, row: UrlRow, domain: str) -> None:
        """Take a revisit out of those that are due: it is in hand from now on."""
        member = MEMBER.pack(row.visit_id, hash_url(row.url.encode()))
        self._put("ZREM", self._key("revisits", row.priority, domain), member)

    # Questions

    def due(self, domains: Sequence[DomainState], *, now: float, count: int) -> dict[int, list[DueRevisit]]:
        """Return the first due revisits of each domain."""
        where = [(row, priority) for row in domains for priority in range(PAGE_RESOURCE, PRIORITIES)]
        asked = (
            ("ZRANGEBYSCORE", self._key("revisits", priority, row.name), "-inf", repr(now), "LIMIT", 0, count)
            for row, priority in where
        )
        answers = list(zip(where, self._server.ask_all(asked) if where else (), strict=True))
        kept = self._ask([MEMBER.unpack(member)[1] for _, members in answers for member in members])
        found: dict[int, list[DueRevisit]] = {}
        for (row, priority), members in answers:
            for _, one in zip(members, kept, strict=False):
                last = one.visit
                held = UrlRow(last.url, last.depth, priority, one.attempts, 0, one.id, pack_hops(last))
                found.setdefault(row.id, []).append((held, last))
        return found

    def find_stored(self, urls: Sequence[str]) -> dict[str, StoredVisit]:
        found, hashes = {}, [hash_url(url.encode()) for url in urls]
        for at in range(0, len(hashes), AT_ONCE):
            some = hashes[at : at + AT_ONCE]
            for hash_, blob in zip(some, self._server.ask("HMGET", self._key("visited"), *some), strict=True):
                if blob and (stored := stored_visit(hash_, _kept.decode(blob))):
                    found[stored[0]] = stored[1]
        return {url: found[url] for url in urls if url in found}

    def due_by(self, rule: RevisitRule, *, now: float) -> Iterator[list[StoredVisit]]:
        """Yield the visits that are to be repeated by `rule`. It reads all visits: Redis has no order by both times."""
        for hashes in batches(self.hashes(), len, count=AT_ONCE, size=1 << 20):
            yield [
                stored_visit(hash_, kept)[1]
                for hash_, kept in zip(hashes, self._ask(hashes), strict=True)
                if is_due(kept.visit, kept.revisit_due, rule, now=now)
            ]

    def advance(self, visits: Sequence[StoredVisit], domains: Mapping[str, DomainState], *, now: float) -> None:
        for visit, kept in zip(visits, self._ask([visit.hash for visit in visits]), strict=True):
            kept.revisit_due, kept.attempts = now, 1
            self._keep(domains[visit.domain], visit.hash, kept)

    def delete(self, visits: Iterable[StoredVisit]) -> None:
        for visit in visits:
            self._put("HDEL", self._key("visited"), visit.hash)
            member = MEMBER.pack(visit.id, visit.hash)
            self._put("ZREM", self._key("revisits", visit.priority, visit.domain), member)

    def of(self, url: str) -> LastVisit | None:
        blob = self._server.ask("HGET", self._key("visited"), hash_url(url.encode()))
        visit = _kept.decode(blob).visit if blob else None
        return visit if visit and visit.url == url else None

    def between(self, since: float, until: float) -> Iterator[LastVisit]:
        """Yield visits in the order of their time; of each URL the last one."""
        span = math.floor(since / SPAN)
        while spans := self._server.ask("ZRANGEBYSCORE", self._key("visited:times"), span, "+inf", "LIMIT", 0, 1):
            span = int(spans[0])
            blob = self._server.ask("GET", self._key("visited:time", span)) or b""
            entries = sorted({entry for entry in ENTRY.iter_unpack(blob) if since <= entry[0] < until})
            for at in range(0, len(entries), AT_ONCE):
                some = entries[at : at + AT_ONCE]
                blobs = self._server.ask("HMGET", self._key("visited"), *(hash_ for *_, hash_ in some))
                for (time, id_, _), blob in zip(some, blobs, strict=True):
                    kept = _kept.decode(blob) if blob else None
                    if kept and (kept.id, kept.visit.time) == (id_, time):  # else it was visited again, or waits again
                        yield kept.visit
            span += 1
            if span * SPAN >= until:
                return

    def hashes(self) -> Iterator[bytes]:
        """Yield the hashes of all visited URLs, some maybe twice."""
        with self._server.errors():
            for hash_, _ in self._server.client.hscan_iter(self._key("visited"), count=AT_ONCE):
                yield hash_

    def _ask(self, hashes: Sequence[bytes]) -> Iterator[VisitRow]:
        for at in range(0, len(hashes), AT_ONCE):
            yield from map(_kept.decode, self._server.ask("HMGET", self._key("visited"), *hashes[at : at + AT_ONCE]))


def stored_visit(hash_: bytes, kept: VisitRow) -> tuple[str, StoredVisit]:
    """Return the URL of a visit, and what concerns its next time."""
    visit = kept.visit
    return visit.url, StoredVisit(kept.id, hash_, domain_of(visit.url), kept.priority, visit.time, kept.revisit_due)


def keep_earliest(times: dict[int, float], key: int, time: float) -> None:
    times[key] = min(times.get(key, time), time)


def trim_defaults(visit: LastVisit) -> list[Any]:
    fields = list(msgspec.structs.astuple(visit))
    defaults = [visit.url, visit.time, *LastVisit.__struct_defaults__]
    while len(fields) > 2 and fields[-1] == defaults[len(fields) - 1]:
        fields.pop()
    return fields
