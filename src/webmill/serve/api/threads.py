"""Work that blocks, in threads: so many at once, so many waiting, and no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from webmill.errors import Unavailable

T = TypeVar("T")

AT_ONCE = 4
MOST_WAITING = 64


class Threads:
    """A query cannot be stopped once it runs: what waits behind a few slow ones is bounded instead."""

    def __init__(self, *, at_once: int = AT_ONCE, most_waiting: int = MOST_WAITING) -> None:
        self._limiter = CapacityLimiter(at_once)
        self._most = at_once + most_waiting
        self._inside = 0  # counted in the loop's thread alone

    async def run(self, work: Callable[[], T]) -> T:
        """`Unavailable` when too many wait already."""
        if self._inside >= self._most:
            raise Unavailable("too many are asking at once", retry_after=2)
        self._inside += 1
        try:
            return await to_thread.run_sync(work, limiter=self._limiter)
        finally:
            self._inside -= 1
