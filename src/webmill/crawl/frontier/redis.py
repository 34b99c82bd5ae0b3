"""The frontier of a crawl that has outgrown one machine: coordination in Redis, the URLs in files of their owner.

    Redis      PREFIX:…          whose turn it is, leases, visits, robots, the filter of known URLs (`redis_state`)
    FOLDER/domains/…             the URLs that wait (`lanes`), as in the local frontier
    FOLDER/seen/, seen.sqlite    which URLs are known, exactly (`seen`)

It is the local frontier with another `State`: what a step does to domains and URLs is the same code. A prefix and a
folder belong together, and have one owner at a time. Whoever opens them takes over: a number, counted up with each
opening, is in every change, so that a process that was thought dead can change nothing any more.

Lines are written to their files without a sync, and into a journal in Redis in the same script that makes them count.
A checkpoint syncs the files and the exact set, then empties the journal; whoever opens the frontier writes the
journal's lines again. Nothing is known but nowhere, whichever of the two dies.

When Redis does not answer, `Unavailable`: the same step again, or any other call, finds out what became of it.
"""

from __future__ import annotations

import logging
import secrets
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import msgspec

from webmill.crawl.frontier.base import Committed, Robots, Step, Turn, Visit
from webmill.crawl.frontier.change import Change
from webmill.crawl.frontier.fresh import Fresh, sort_out
from webmill.crawl.frontier.lanes import Lane, lines_in
from webmill.crawl.frontier.local import Added, Limits, LocalFrontier
from webmill.crawl.frontier.redis_changes import number_of
from webmill.crawl.frontier.redis_files import CarefulLanes, RedisJournal
from webmill.crawl.frontier.redis_filter import SCHEMA, Bitmaps, Bloom, Filter, RedisSeen
from webmill.crawl.frontier.redis_server import REPAIR, TIMEOUT, Promise, Server, text
from webmill.crawl.frontier.redis_state import RedisState
from webmill.crawl.frontier.seen import hash_of
from webmill.errors import Conflict, Misconfigured
from webmill.infra import atomic, sqlite
from webmill.infra.lock import exclusive

log = logging.getLogger(__name__)

VERSION = 2  # of the keys; 1 had no hops
PAGE = 1000

_robots = msgspec.msgpack.Decoder(Robots)


class RedisFrontier(LocalFrontier):
    def __init__(
        self,
        url: str,
        folder: Path,
        *,
        prefix: str,
        strict: bool = False,
        limits: Limits | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        """`prefix`: of all keys, the collection and the shard. `strict`: refuse a Redis that may lose what it said."""
        limits = limits or Limits()
        self._limits, self._lock, self._folder = limits, threading.RLock(), folder
        self._journal_bytes = 0
        self._must_rewrite = False
        self._answered: tuple[Step, Committed] | None = None  # a step that counts, as its caller does not know yet
        atomic.make_folder(folder)
        with ExitStack() as stack:
            stack.enter_context(exclusive(folder, "frontier", doing="crawling"))
            self._server = Server(url, timeout=timeout)
            stack.callback(self._server.close)
            self.promise = promised(self._server, strict=strict)
            self._local = sqlite.Database(folder / "seen.sqlite", schema=SCHEMA)
            stack.callback(self._local.close)
            self._redis = self._join(f"{{{prefix}}}:")
            self._state = self._redis
            self._journal = RedisJournal(self._server, self._redis)
            self._lanes = CarefulLanes(folder / "domains", limits=limits, promise=self.promise)
            stack.callback(self._lanes.close)
            self._filter = self._open_filter(f"{{{prefix}}}:")
            self._seen = self._exact = RedisSeen(
                folder / "seen", self._local, self._filter, fan=limits.fan, hashes_per_word=limits.hashes_per_word
            )
            stack.callback(self._seen.close)
            self._recover()
            self._stack = stack.pop_all()
        self._closed = False

    # Opening

    def _join(self, prefix: str) -> RedisState:
        """Make the keys, or find that they are those of this folder; become the owner."""
        meta = prefix + "meta"
        own = self._facts().get("id") or self._note_fact("id", secrets.token_hex(16))
        found = self._meta(meta)
        if not found and "joined" in self._facts():
            message = f"Redis at {self._server.place} knows nothing of the frontier in {self._folder}: "
            raise Misconfigured(message + "restore its data, or remove the folder to begin anew")
        if "filter" not in found:
            self._server.ask("HSETNX", meta, "folder", own)
            found = self._meta(meta)
        if found["folder"] != own:
            message = f"the files of the frontier {prefix} in Redis at {self._server.place} are not in {self._folder}: "
            raise Misconfigured(message + "name their folder, or another prefix")
        if int(found.get("version", VERSION)) > VERSION:
            raise Misconfigured(f"the frontier {prefix} is of a newer webmill: use that one")
        if "filter" not in found:
            self._make_filter(prefix)
        if int(found.get("version", VERSION)) < VERSION:
            self._server.ask("DEL", prefix + "gates")
            self._server.ask("HSET", meta, "version", str(VERSION))
        self._note_fact("joined", "1")
        epoch = self._server.ask("HINCRBY", meta, "epoch", 1)
        return RedisState(self._server, prefix, epoch=epoch, number=number_of(self._meta(meta).get("change", "0")))

    def _meta(self, key: str) -> dict[str, str]:
        return {text(name): text(value) for name, value in self._server.ask("HGETALL", key).items()}

    def _make_filter(self, prefix: str) -> None:
        kind = "bloom" if self._server.has_bloom() else "bits"
        if kind == "bloom":
            Bloom(self._server, prefix, count=0).make()
        self._server.ask("HSET", prefix + "meta", "filter", kind, "version", str(VERSION))

    def _open_filter(self, prefix: str) -> Filter:
        count = self._redis.tallied().get("hashes", 0)
        if self._meta(prefix + "meta")["filter"] == "bloom":
            return Bloom(self._server, prefix, count=count)
        return Bitmaps(self._server, prefix, count=count, hashes_per_word=self._limits.hashes_per_word)

    def _facts(self) -> dict[str, str]:
        return dict(self._local.read("SELECT name, value FROM fact"))

    def _note_fact(self, name: str, value: str) -> str:
        with self._local.write() as run:
            run("INSERT OR REPLACE INTO fact VALUES (?, ?)", (name, value))
        return value

    def close(self) -> None:
        try:
            super().close()
        except Conflict as error:  # whoever goes on has all that counts
            log.warning("frontier_checkpoint_failed", extra={"why": str(error)})

    # Turns

    def claim(
        self, count: int, *, urls: int, now: float, lease: float, hold: float, revisits: bool = False
    ) -> list[Turn]:
        with self._lock:
            self._redis.urls = urls
            return super().claim(count, urls=urls, now=now, lease=lease, hold=hold, revisits=revisits)

    def _end_leases(self, now: float, *, since: float | None = None) -> None:
        super()._end_leases(now, since=since)
        self._redis.flush()  # a step of its own: what follows asks Redis

    def extend(self, tokens: Iterable[int], *, now: float, lease: float) -> frozenset[int]:
        wanted = set(tokens)
        with self._lock, self._redis.write():
            kept = self._redis.extend(wanted, now=now, until=now + lease)
        return frozenset(wanted - kept)

    # Steps

    def commit(self, step: Step, *, now: float) -> Committed:
        with self._lock:
            self._redis.changes.settle_doubt()
            answered, self._answered = self._answered, None
            if answered and answered[0] == step:
                return answered[1]
            self._care(len(step.links) + len(step.visited))
            try:
                return self._commit(step, now=now)
            finally:
                if not self._redis.changes.is_in_doubt:
                    self._answered = None

    def _commit(self, step: Step, *, now: float) -> Committed:
        fresh = sort_out(step, self._seen)
        with self._redis.write():
            change = Change(self._redis, now=now)
            lost = change.settle(step.settled)
            added = self._add(fresh, change)
            change.save()
            self._note(step)
            answer = added.committed(fresh, lost)
            self._redis.then(lambda: self._took(added))
            self._answered = (step, answer)
        return answer

    def _add(self, fresh: Fresh, change: Change) -> Added:
        added = super()._add(fresh, change)
        for command in self._filter.put(added.hashes):
            self._redis.put(*command)
        change.counts["hashes"] += len(added.hashes)
        return added

    def _took(self, added: Added) -> None:
        super()._took(added)
        self._filter.count += len(added.hashes)

    def _note(self, step: Step) -> None:
        key, put = self._redis.key, self._redis.put
        for robots in step.robots:
            put("HSET", key("robots"), robots.origin, zlib.compress(msgspec.msgpack.encode(robots), 1))
        for name, value in step.notes.items():
            put("HSET", key("notes"), name, value)

    # Questions

    def visits(self, *, since: float = 0.0, until: float | None = None) -> Iterator[Visit]:
        """`until` itself is not among them."""
        return self._redis.visits(since=since, until=float("inf") if until is None else until)

    def robots(self, origin: str) -> Robots | None:
        blob = self._server.ask("HGET", self._redis.key("robots"), origin)
        return _robots.decode(zlib.decompress(blob)) if blob else None

    def notes(self) -> dict[str, str]:
        return self._meta(self._redis.key("notes"))

    def excluded(self) -> Iterator[str]:
        after = b"-"
        while page := self._server.ask("ZRANGEBYLEX", self._redis.key("excluded"), after, "+", "LIMIT", 0, PAGE):
            yield from map(text, page)
            after = b"(" + page[-1]

    # Care

    def _checkpoint(self) -> None:
        if not len(self._seen):
            return
        self._redis.changes.must_be_owner()
        if self._must_rewrite:
            for _ in self._journal.replay(self._lanes):
                pass
        self._must_rewrite = True
        self._lanes.sync()
        self._must_rewrite = False
        self._write_seen()
        self._journal_bytes = 0
        with self._redis.write():
            self._journal.clear()

    def _write_seen(self) -> None:
        with self._seen.flushing() as number, self._local.write() as run:
            self._seen.register(run, number)
            run("INSERT OR REPLACE INTO fact VALUES ('change', ?)", (str(self._redis.changes.number),))

    def _recover(self) -> None:
        if int(self._facts().get("change", 0)) > self._redis.changes.number:
            self._rebuild()
        for lines in self._journal.replay(self._lanes):
            self._learn([hash_of(url) for _, url, _ in lines_in(lines)])
            self._journal_bytes += len(lines)
        with self._redis.write():
            self._end_leases(float("inf"), since=0.0)

    def _learn(self, hashes: Sequence[bytes]) -> None:
        """Some may be known: a kill came between a checkpoint and the journal's end."""
        unheld = self._exact.not_held(hashes)
        self._seen.add(hash_ for hash_, is_new in zip(hashes, unheld, strict=True) if is_new)

    def _rebuild(self) -> None:
        """Redis has gone back to before a checkpoint: URLs that it has forgotten must not be known. All others are."""
        log.warning("frontier_went_back", extra={"redis": self._server.place, "to": self._redis.changes.number})
        for _ in self._journal.replay(self._lanes):
            pass
        self._exact.clear()
        hashes = self._all_hashes()
        while page := list(islice(hashes, self._limits.table)):
            self._learn(page)
            if len(self._seen) >= self._limits.table:
                self._write_seen()
        self._write_seen()

    def _all_hashes(self) -> Iterator[bytes]:
        """Of all URLs that wait, are in hand or were visited, some maybe twice."""
        yield from self._redis.visited_hashes()
        yield from (hash_of(link.url.encode()) for link in self.waiting())

    def back_up(self, folder: Path) -> None:
        raise NotImplementedError

    def compact(self) -> None:
        """Drop what was consumed: at the beginning of lanes, and files that a kill has left."""
        if self.promise is not Promise.DURABLE:  # it may go back and read them again
            log.warning("frontier_not_compacted", extra={"why": f"what Redis keeps: {self.promise}"})
            return
        for name in self._redis.names():
            with self._lock:
                domain = self._redis.named([name])[name]
                for priority, (read, end) in domain.lanes.items():
                    self._compact_lane(Lane(domain.hash, priority), read=read, end=end)

    def _compact_lane(self, lane: Lane, *, read: int, end: int) -> None:
        needed = self._lanes.numbers(read=read, end=end)
        number = needed[0] - 1 if needed else end // self._limits.file
        while number >= 0 and (self._folder / "domains" / lane.file(number)).exists():
            self._lanes.remove(lane, number)
            number -= 1
        self._lanes.compact(lane, read=read, end=end)


def promised(server: Server, *, strict: bool) -> Promise:
    promise = server.promise()
    if strict and promise is not Promise.DURABLE:
        raise Misconfigured(f"Redis at {server.place} is not durable ({promise}): {REPAIR}")
    level = logging.INFO if promise is Promise.DURABLE else logging.WARNING
    log.log(level, "frontier_promise", extra={"redis": server.place, "promise": str(promise)})
    return promise
