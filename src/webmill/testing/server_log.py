"""The request log of the test web: what tests check a crawler's politeness against."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec import Struct


class LoggedVisit(Struct, frozen=True, kw_only=True):
    """One request. `started` and `ended` are monotonic seconds of the server; `wall` is the start in Unix time."""

    started: float
    ended: float
    wall: float
    host: str
    address: str
    client_port: int
    method: str
    path: str  # with its query
    status: int
    user_agent: str
    sent: int  # bytes, head included


class ServerLog:
    """Append-only and thread-safe. With a `limit` memory drops the oldest visits; the file keeps them all."""

    def __init__(self, *, path: Path | None = None, limit: int | None = None) -> None:
        self._visits: deque[LoggedVisit] = deque(maxlen=limit)
        self._in_progress = 0
        self._changed = threading.Condition()
        self._file = path.open("ab") if path else None

    def begin(self) -> None:
        with self._changed:
            self._in_progress += 1

    def end(self, visit: LoggedVisit) -> None:
        with self._changed:
            self._in_progress -= 1
            self._visits.append(visit)
            if self._file:
                self._file.write(msgspec.json.encode(visit) + b"\n")
                self._file.flush()
            self._changed.notify_all()

    def settle(self, *, seconds: float = 10.0) -> bool:
        """Wait until no answer is in progress: a client may have the last byte before its visit is logged."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._in_progress, seconds)

    def visits(self, *, host: str | None = None, address: str | None = None) -> list[LoggedVisit]:
        """Return the finished visits, in the order in which they ended."""
        with self._changed:
            kept = list(self._visits)
        return [v for v in kept if host in (None, v.host) and address in (None, v.address)]

    def close(self) -> None:
        with self._changed:
            if self._file:
                self._file.close()
                self._file = None

    def __len__(self) -> int:
        return len(self._visits)

    def __iter__(self) -> Iterator[LoggedVisit]:
        return iter(self.visits())


def read_visits(path: Path) -> Iterator[LoggedVisit]:
    """Yield the visits of a log file, without a torn last line (the server was killed)."""
    decoder = msgspec.json.Decoder(LoggedVisit)
    with path.open("rb") as lines:
        yield from (decoder.decode(line) for line in lines if line.endswith(b"\n"))


def requests_per_host(visits: Iterable[LoggedVisit]) -> Counter[str]:
    return Counter(visit.host for visit in visits)


def smallest_gap(visits: Iterable[LoggedVisit]) -> float | None:
    """Return the seconds between the two nearest starts, or None for fewer than two visits."""
    starts = sorted(visit.started for visit in visits)
    return min((later - earlier for earlier, later in pairwise(starts)), default=None)


def most_at_once(visits: Iterable[LoggedVisit]) -> int:
    """Return the largest number of concurrent visits. An end and a start at the same instant do not overlap."""
    edges = sorted(edge for v in visits for edge in ((v.ended, -1), (v.started, +1)))
    peak = level = 0
    for _, step in edges:
        level += step
        peak = max(peak, level)
    return peak
