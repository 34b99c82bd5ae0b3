"""The files of a frontier in Redis, and the journal of what is not surely in them yet."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from webmill.crawl.frontier.file_frontier import FrontierLimits
from webmill.crawl.frontier.journal import JournalEntry
from webmill.crawl.frontier.redis.server import RedisDurability, RedisServer
from webmill.crawl.frontier.redis.state import RedisState
from webmill.crawl.frontier.state import DomainState
from webmill.crawl.frontier.url_queue_files import UrlQueue, UrlQueueFiles

GRACE = 60.0  # seconds after which Redis, if it syncs every second, has surely kept what it said

NamedEntry = tuple[str, int, int, bytes]  # domain, priority, position, lines
_lines = msgspec.msgpack.Decoder(list[NamedEntry])


class RedisJournal:
    """Domains go by their names: numbers are nothing that Redis can be asked for."""

    def __init__(self, server: RedisServer, state: RedisState) -> None:
        self._server, self._redis, self._key = server, state, state.key("journal")

    def append(self, entries: Sequence[JournalEntry]) -> None:
        if entries:
            domains = self._redis.load_domains({id_ for id_, *_ in entries})
            self._redis.put("RPUSH", self._key, msgspec.msgpack.encode([(domains[e[0]].name, *e[1:]) for e in entries]))

    def entries(self) -> Iterator[tuple[DomainState, int, int, bytes]]:
        number = 0
        while (blob := self._server.ask("LINDEX", self._key, number)) is not None:
            number += 1
            parts = _lines.decode(blob)
            domains = self._redis.find_domains({name for name, *_ in parts})
            yield from ((domains[name], priority, at, lines) for name, priority, at, lines in parts)

    def clear(self) -> None:
        self._redis.put("DEL", self._key)


class RetainedUrlQueues(UrlQueueFiles):
    """Files that were read to their end are kept for as long as Redis may go back to before they were."""

    def __init__(self, folder: Path, *, limits: FrontierLimits, promise: RedisDurability) -> None:
        super().__init__(folder, size=limits.file, max_open=limits.open_files, waiting=limits.waiting)
        self._promise = promise
        self._read: deque[tuple[float, UrlQueue, int, int]] = deque()

    def drop(self, queue: UrlQueue, *, was: int, read: int, end: int) -> None:
        if self._promise is RedisDurability.DURABLE:
            super().drop(queue, was=was, read=read, end=end)
        elif self._promise is RedisDurability.SECOND:
            self._read.append((time.monotonic() + GRACE, queue, was, read))
            while self._read[0][0] <= time.monotonic():
                _, queue, was, read = self._read.popleft()
                super().drop(queue, was=was, read=read, end=-1)  # not the last one: there may be new lines in it
