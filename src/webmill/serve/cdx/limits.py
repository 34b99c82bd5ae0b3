"""What one query may cost, and how many may run at once."""

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
    seconds: float = 30.0  # of reading and filtering for one answer; waiting for its client is not counted
    heavy: int = 16  # answers of more than one URL at once; a slow client holds one while it reads
    heavy_each: int = 8  # of these for one address
    patience: float = 5.0  # seconds that a query waits for others to end, before it is told to come back


@dataclass
class Stopwatch:
    """Counts the time between `start` and `stop`, and knows when it is up."""

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
            message = f"this takes more than {self.limit:.0f} seconds: ask for less, or for pages (page=0, 1, …)"
            raise BadInput(message, reason="too_long")


class TimedIndex:
    """The same index, but it looks at the watch before each block: also a filter that keeps nothing ends."""

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
    """At most so many heavy answers at once. Only the event loop's thread counts them: no lock."""

    limits: QueryLimits
    taken: Counter[str] = field(default_factory=Counter)  # by client

    def _is_free(self, client: str) -> bool:
        return self.taken.total() < self.limits.heavy and self.taken[client] < self.limits.heavy_each

    async def acquire(self, client: str) -> AbstractContextManager[None]:
        """To be left by whoever gets it. Unavailable when none got free in time."""
        end = time.monotonic() + self.limits.patience
        while not self._is_free(client):
            if time.monotonic() >= end:
                raise Unavailable("too many long queries at once: come back later", retry_after=self.limits.patience)
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
