"""Limits of CDX queries: time per query, and how many heavy ones run at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import chain

from starlette.types import Receive, Scope

from webmill.errors import BadInput
from webmill.formats.cdx.query import KeyRange
from webmill.index.lines import Batch
from webmill.index.lookup.indexes import CaptureIndex
from webmill.serve.guard.client_address import client_of
from webmill.serve.http.pause import pause_client
from webmill.serve.processes.fair_slots import FairSlots, Overloaded
from webmill.serve.processes.threads import REFUSAL_PAUSE


@dataclass(frozen=True, kw_only=True)
class QueryLimits:
    seconds: float = 30.0  # of reading and filtering per query, without waiting for the client
    heavy: int = 16  # concurrent queries for more than one URL, also while a slow client reads
    heavy_each: int = 4  # of these per client
    waiting: int = 128  # for a slot
    waiting_each: int = 16
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


class HeavyQuerySlots:
    """Slots for heavy queries, which are held until the client has read the answer."""

    def __init__(self, limits: QueryLimits) -> None:
        self._slots = FairSlots(
            most=limits.heavy,
            per_client=limits.heavy_each,
            max_waiting=limits.waiting,
            waiting_per_client=limits.waiting_each,
            patience=limits.patience,
        )

    async def acquire(self, scope: Scope, receive: Receive) -> AbstractContextManager[None]:
        """Return a slot as a context manager. `Overloaded`: none was free in time; or `ClientDisconnected`."""
        client = client_of(scope)
        try:
            await self._slots.acquire(client, receive)
        except Overloaded:
            pause_client(scope, REFUSAL_PAUSE)
            raise
        return self._hold(client)

    @contextmanager
    def _hold(self, client: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._slots.release(client, time.monotonic() - began)
