"""The frontier of a crawl that has outgrown one machine: coordination in Redis, the URLs in files of their owner.

    Redis      PREFIX:…          whose turn it is, leases, visits, robots, the filter of known URLs (`state`)
    FOLDER/domains/…             the URLs that wait (`url_queue_files`), as in the local frontier
    FOLDER/seen/, seen.sqlite    which URLs are known, exactly (`seen_urls`)

What an update does to domains and URLs is the same code as in the local frontier (`file_frontier`). A prefix and a
folder belong together, and have one owner at a time. Whoever opens them takes over: a number, counted up with each
opening, is in every change, so that a process that was thought dead can change nothing any more.

Lines are written to their files without a sync, and into a journal in Redis in the same script that makes them count.
A checkpoint syncs the files and the exact set, then empties the journal; whoever opens the frontier writes the
journal's lines again. Nothing is known but nowhere, whichever of the two dies.

When Redis does not answer, `Unavailable`: the same update again, or any other call, finds out what became of it.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import msgspec

from webmill.crawl.frontier.base import CommitResult, FrontierUpdate, LastVisit, RobotsEntry
from webmill.crawl.frontier.change import FrontierChange
from webmill.crawl.frontier.file_frontier import (
    QUEUES_FOLDER,
    SEEN_FOLDER,
    AddedUrls,
    FileFrontier,
    FrontierLimits,
)
from webmill.crawl.frontier.journal import replay
from webmill.crawl.frontier.new_urls import NewUrls, find_new_urls
from webmill.crawl.frontier.redis.backup import back_up
from webmill.crawl.frontier.redis.files import RedisJournal, RetainedUrlQueues
from webmill.crawl.frontier.redis.filter import BitmapFilter, BloomFilter, FilteredSeenUrls, UrlFilter
from webmill.crawl.frontier.redis.owner import (
    REBUILD,
    REFILL,
    FolderFacts,
    join_frontier,
    key_prefix,
    read_meta,
    take_ownership,
)
from webmill.crawl.frontier.redis.server import TIMEOUT, RedisDurability, RedisServer, as_text, check_durability
from webmill.crawl.frontier.redis.state import VERSION
from webmill.crawl.frontier.seen_urls import hash_url
from webmill.crawl.frontier.url_queue_files import UrlQueue, decode_lines
from webmill.errors import Conflict
from webmill.infra import atomic
from webmill.infra.lock import exclusive

log = logging.getLogger(__name__)

PAGE = 1000

_robots = msgspec.msgpack.Decoder(RobotsEntry)


class RedisFrontier(FileFrontier):
    def __init__(
        self,
        url: str,
        folder: Path,
        *,
        prefix: str,
        strict: bool = False,
        limits: FrontierLimits | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        """Open a frontier. `prefix`: of all keys, the collection and the shard. `strict`: refuse a Redis that is not
        durable."""
        limits = limits or FrontierLimits()
        self._folder = folder
        self._answered: tuple[FrontierUpdate, CommitResult] | None = None  # made, and its caller does not know yet
        atomic.make_folder(folder)
        with ExitStack() as stack:
            stack.enter_context(exclusive(folder, "frontier", doing="crawling"))
            self._server = RedisServer(url, timeout=timeout)
            stack.callback(self._server.close)
            self.promise = check_durability(self._server, strict=strict)
            self._facts = FolderFacts(folder)
            stack.callback(self._facts.close)
            join_frontier(self._server, key_prefix(prefix), facts=self._facts, folder=folder)
            self._redis = take_ownership(self._server, key_prefix(prefix))
            queues = RetainedUrlQueues(folder / QUEUES_FOLDER, limits=limits, promise=self.promise)
            stack.callback(queues.close)
            self._filter = self._open_filter(limits)
            self._exact = FilteredSeenUrls(
                folder / SEEN_FOLDER,
                self._facts.database,
                self._filter,
                fan=limits.fan,
                hashes_per_word=limits.hashes_per_word,
            )
            stack.callback(self._exact.close)
            journal = RedisJournal(self._server, self._redis)
            super().__init__(state=self._redis, journal=journal, queues=queues, seen=self._exact, limits=limits)
            self._recover()
            self._stack = stack.pop_all()

    # Opening

    def _open_filter(self, limits: FrontierLimits) -> UrlFilter:
        count = self._redis.counts().get("hashes", 0)
        kind = read_meta(self._server, self._redis.key()).get("filter")
        if kind == "bloom" or (kind is None and self._server.has_bloom()):
            filter_: UrlFilter = BloomFilter(self._server, self._redis.key(), count=count)
        else:
            filter_ = BitmapFilter(self._server, self._redis.key(), count=count, hashes_per_word=limits.hashes_per_word)
        if kind is None:
            filter_.make()
            name = "bloom" if isinstance(filter_, BloomFilter) else "bits"
            self._server.ask("HSET", self._redis.key("meta"), "filter", name, "version", str(VERSION))
        return filter_

    def close(self) -> None:
        try:
            super().close()
        except Conflict as error:  # whoever goes on has all that counts
            log.warning("frontier_checkpoint_failed", extra={"why": str(error)})

    # Turns

    def _end_leases(self, now: float, *, since: float | None = None) -> None:
        super()._end_leases(now, since=since)
        self._redis.flush()  # an update of its own: what follows asks Redis

    def extend(self, tokens: Iterable[int], *, now: float, lease: float) -> frozenset[int]:
        wanted = set(tokens)
        with self._lock, self._redis.write():
            kept = self._redis.extend(wanted, now=now, until=now + lease)
        return frozenset(wanted - kept)

    # Updates

    def commit(self, update: FrontierUpdate, *, now: float) -> CommitResult:
        with self._lock:
            self._redis.changes.settle_doubt()
            answered, self._answered = self._answered, None
            if answered and answered[0] == update:
                return answered[1]
            self._maintain()
            try:
                return self._commit(update, now=now)
            finally:
                if not self._redis.changes.is_in_doubt:
                    self._answered = None

    def _commit(self, update: FrontierUpdate, *, now: float) -> CommitResult:
        new = find_new_urls(update, self._seen)
        with self._redis.write():
            change = FrontierChange(self._redis, now=now)
            lost = change.settle(update.settled)
            added = self._add(new, change)
            change.set_ranks(update.ranks)
            change.save()
            self._save_robots_and_notes(update)
            answer = added.result(new, lost)
            self._redis.on_applied(lambda: self._remember(added))
            self._answered = (update, answer)
        return answer

    def _add(self, new: NewUrls, change: FrontierChange) -> AddedUrls:
        added = super()._add(new, change)
        for command in self._filter.put(added.hashes):
            self._redis.put(*command)
        change.counts["hashes"] += len(added.hashes)
        return added

    def _remember(self, added: AddedUrls) -> None:
        super()._remember(added)
        self._filter.count += len(added.hashes)

    def _save_robots_and_notes(self, update: FrontierUpdate) -> None:
        key, put = self._redis.key, self._redis.put
        for robots in update.robots:
            put("HSET", key("robots"), robots.origin, zlib.compress(msgspec.msgpack.encode(robots), 1))
        for name, value in update.notes.items():
            put("HSET", key("notes"), name, value)

    # Questions

    def visits(self, *, since: float = 0.0, until: float | None = None) -> Iterator[LastVisit]:
        return self._redis.visits.between(since, float("inf") if until is None else until)

    def robots(self, origin: str) -> RobotsEntry | None:
        return decode_robots(self._server.ask("HGET", self._redis.key("robots"), origin))

    def notes(self) -> dict[str, str]:
        found = self._server.ask("HGETALL", self._redis.key("notes"))
        return {as_text(name): as_text(value) for name, value in found.items()}

    def excluded(self) -> Iterator[str]:
        after = b"-"
        while page := self._server.ask("ZRANGEBYLEX", self._redis.key("excluded"), after, "+", "LIMIT", 0, PAGE):
            yield from map(as_text, page)
            after = b"(" + page[-1]

    # Maintenance

    def _check_owner(self) -> None:
        self._redis.changes.must_be_owner()

    def _finish_checkpoint(self) -> None:
        self._write_seen()
        self._journal_bytes = 0
        with self._redis.write():
            self._journal.clear()

    def _write_seen(self) -> None:
        with self._seen.flushing() as number, self._facts.database.write() as run:
            self._seen.register(run, number)
            run("INSERT OR REPLACE INTO fact VALUES ('change', ?)", (str(self._redis.changes.number),))

    def _recover(self) -> None:
        facts, meta = self._facts.read(), read_meta(self._server, self._redis.key())
        if REBUILD in facts or int(facts.get("change", 0)) > self._redis.changes.number:
            self._rebuild()
            self._facts.drop(REBUILD)
        if REFILL in meta:
            self._refill()
        for lines in replay(self._journal, self._queues):
            self._learn([hash_url(url) for _, url, _ in decode_lines(lines)])
            self._journal_bytes += len(lines)
        with self._redis.write():
            self._end_leases(float("inf"), since=0.0)

    def _learn(self, hashes: Sequence[bytes]) -> None:
        """Add hashes to the exact set. Some may be known: a kill came between a checkpoint and the journal's end."""
        unknown = self._exact.unknown_exactly(hashes)
        self._seen.add(hash_ for hash_, is_new in zip(hashes, unknown, strict=True) if is_new)

    def _rebuild(self) -> None:
        """Make the exact set anew: Redis has gone back to before a checkpoint, or the files were lost. URLs that are
        nowhere any more must not be known."""
        log.warning("frontier_rebuilt", extra={"redis": self._server.place, "change": self._redis.changes.number})
        for _ in replay(self._journal, self._queues):
            pass
        self._exact.clear()
        hashes = self._all_hashes()
        while page := list(islice(hashes, self._limits.table)):
            self._learn(page)
            if len(self._seen) >= self._limits.table:
                self._write_seen()
            self._seen.advance(len(page))
        self._write_seen()

    def _refill(self) -> None:
        """Make the filter anew, from the exact set."""
        self._filter.make()
        with self._redis.write():
            self._redis.put("HSET", self._redis.key("tally"), "hashes", "0")
        hashes = iter(self._exact)
        while page := list(islice(hashes, 10 * PAGE)):
            self._filter.maybe(page)
            with self._redis.write():
                for command in self._filter.put(page):
                    self._redis.put(*command)
                self._redis.put("HINCRBY", self._redis.key("tally"), "hashes", str(len(page)))
            self._filter.count += len(page)
        with self._redis.write():
            self._redis.put("HDEL", self._redis.key("meta"), REFILL)

    def _all_hashes(self) -> Iterator[bytes]:
        """Yield the hashes of all URLs that wait, are in hand or were visited, some maybe twice."""
        yield from self._redis.visits.hashes()
        yield from (hash_url(link.url.encode()) for link in self.waiting())

    def back_up(self, folder: Path) -> None:
        with self._lock:
            back_up(
                folder,
                server=self._server,
                state=self._redis,
                queues=self._queues,
                id_=self._facts.read()["id"],
                stats=self.stats(),
            )

    def compact(self) -> None:
        """Drop what was consumed: at the beginning of queues, and files that a kill has left."""
        if self.promise is not RedisDurability.DURABLE:  # it may go back and read them again
            log.warning("frontier_not_compacted", extra={"why": f"what Redis keeps: {self.promise}"})
            return
        for name in self._redis.domain_names():
            with self._lock:
                domain = self._redis.load_domain(name)
                for priority, (read, end) in domain.queues.items():
                    self._compact_queue(UrlQueue(domain.hash, priority), read=read, end=end)

    def _compact_queue(self, queue: UrlQueue, *, read: int, end: int) -> None:
        needed = self._queues.file_numbers(read=read, end=end)
        number = needed[0] - 1 if needed else end // self._limits.file
        while number >= 0 and (self._folder / QUEUES_FOLDER / queue.file(number)).exists():
            self._queues.remove(queue, number)
            number -= 1
        self._queues.compact(queue, read=read, end=end)


def decode_robots(blob: bytes | None) -> RobotsEntry | None:
    return _robots.decode(zlib.decompress(blob)) if blob else None
