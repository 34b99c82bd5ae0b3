"""The files of a frontier in Redis, and the journal of what is not surely in them yet."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from webmill.crawl.frontier.journal import Entry, Journal
from webmill.crawl.frontier.lanes import Lane, Lanes
from webmill.crawl.frontier.local import Limits
from webmill.crawl.frontier.redis_server import Promise, Server
from webmill.crawl.frontier.redis_state import RedisState
from webmill.crawl.frontier.state import Domain

GRACE = 60.0  # seconds after which Redis, if it syncs every second, has surely kept what it said
WAITING = 8 << 20  # bytes of lines

Lines = tuple[str, int, int, bytes]  # domain, priority, position, lines
_lines = msgspec.msgpack.Decoder(list[Lines])


class RedisJournal(Journal):
    """Domains go by their names: numbers are nothing that Redis can be asked for."""

    def __init__(self, server: Server, state: RedisState) -> None:
        super().__init__(state)
        self._server, self._redis, self._key = server, state, state.key("journal")

    def append(self, entries: Sequence[Entry]) -> None:
        if entries:
            domains = self._redis.numbered({id_ for id_, *_ in entries})
            self._redis.put("RPUSH", self._key, msgspec.msgpack.encode([(domains[e[0]].name, *e[1:]) for e in entries]))

    def entries(self) -> Iterator[tuple[Domain, int, int, bytes]]:
        number = 0
        while (blob := self._server.ask("LINDEX", self._key, number)) is not None:
            number += 1
            parts = _lines.decode(blob)
            domains = self._redis.named({name for name, *_ in parts})
            yield from ((domains[name], priority, at, lines) for name, priority, at, lines in parts)

    def clear(self) -> None:
        self._redis.put("DEL", self._key)


class CarefulLanes(Lanes):
    """Lines go to their files many at a time: until then they are here, and in the journal.

    Files that were read to their end are kept for as long as Redis may go back to before they were.
    """

    def __init__(self, folder: Path, *, limits: Limits, promise: Promise) -> None:
        super().__init__(folder, size=limits.file, max_open=limits.open_files)
        self._promise = promise
        self._read: deque[tuple[float, Lane, int, int]] = deque()
        self._ends: dict[str, tuple[Lane, int, bytearray]] = {}  # by stem: lines that are not in their file yet
        self._waiting = 0

    def write(self, lane: Lane, at: int, data: bytes) -> None:
        _, start, lines = self._ends.get(lane.stem) or (lane, at, bytearray())
        if not start <= at <= start + len(lines):
            self._write_out(lane)
            start, lines = at, bytearray()
        lines[at - start :] = data  # what was behind came of a step that failed
        self._ends[lane.stem] = (lane, start, lines)
        self._waiting += len(data)
        if self._waiting > WAITING:
            self._write_all()

    def _write_out(self, lane: Lane) -> None:
        if lane.stem in self._ends:
            _, start, lines = self._ends[lane.stem]
            super().write(lane, start, bytes(lines))
            del self._ends[lane.stem]

    def _write_all(self) -> None:
        for lane, _, _ in sorted(self._ends.values(), key=lambda end: end[0].stem):
            self._write_out(lane)
        self._waiting = 0

    def sync(self) -> None:
        self._write_all()
        super().sync()

    def bytes_of(self, lane: Lane, start: int, end: int) -> bytes:
        self._write_out(lane)
        return super().bytes_of(lane, start, end)

    def drop(self, lane: Lane, *, was: int, read: int, end: int) -> None:
        if self._promise is Promise.DURABLE:
            super().drop(lane, was=was, read=read, end=end)
        elif self._promise is Promise.SECOND:
            self._read.append((time.monotonic() + GRACE, lane, was, read))
            while self._read[0][0] <= time.monotonic():
                _, lane, was, read = self._read.popleft()
                super().drop(lane, was=was, read=read, end=-1)  # not the last one: there may be new lines in it
