"""Limits of CDX queries: time per query, and how many heavy ones run at once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import chain

import anyio

from webmill.errors import BadInput, Unavailable
from webmill.formats.cdx.query import KeyRange
from webmill.index.lines import Batch
from webmill.index.lookup.indexes import CaptureIndex


@dataclass(frozen=True, kw_only=True)
class QueryLimits:
    seconds: float = 30.0  # of reading and filtering per query, without waiting for the client
    heavy: int = 16  # concurrent queries for more than one URL, also while a slow client reads
    heavy_each: int = 8  # of these per client
    patience: float = 5.0  # seconds that a query waits for a slot before it is refused


@dataclass
class Stopwatch:
    """Sums the time between `start` and `stop` and checks it against a limit."""

    limit: float
    clock: Callable[[], float] = time.monotonic
    _spent: float = 0.0
    _since: float = 0.0

    def start(self) -> None:
        self._since = self.clock()

    def stop(self) -> None:
        self._spent += self.clock() - self._since

    def check(self) -> None:
        if self._spent + self.clock() - self._since > self.limit:
            message = f"the query took more than {self.limit:.0f} seconds: narrow it down, or use pages (page=0, 1, …)"
            raise BadInput(message, reason="too_long")


class TimedIndex:
    """An index that checks the time before each block, so that filters without matches end, too."""

    def __init__(self, index: CaptureIndex, watch: Stopwatch) -> None:
        self._index = index
        self._watch = watch

    def lines(self, wanted: KeyRange) -> Iterator[bytes]:
        return chain.from_iterable(self.batches(wanted))

    def batches(self, wanted: KeyRange) -> Iterator[Batch]:
        for batch in self._index.batches(wanted):
            self._watch.check()
            yield batch


@dataclass
class HeavyQuerySlots:
    """Slots for heavy queries. Used by the event loop's thread alone, so it needs no lock."""

    limits: QueryLimits
    taken: Counter[str] = field(default_factory=Counter)  # by client

    def _is_free(self, client: str) -> bool:
        return self.taken.total() < self.limits.heavy and self.taken[client] < self.limits.heavy_each

    async def acquire(self, client: str) -> AbstractContextManager[None]:
        """Return a slot as a context manager. Unavailable: none was free in time."""
        end = time.monotonic() + self.limits.patience
        while not self._is_free(client):
            if time.monotonic() >= end:
                raise Unavailable("too many long queries at once; try again later", retry_after=self.limits.patience)
            await anyio.sleep(0.02)
        self.taken[client] += 1
        return self._hold(client)

    @contextmanager
    def _hold(self, client: str) -> Iterator[None]:
        try:
            yield
        finally:
            self.taken[client] -= 1
            if not self.taken[client]:
                del self.taken[client]
