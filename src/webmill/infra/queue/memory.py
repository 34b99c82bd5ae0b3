"""A queue inside this process: for tests, demonstrations and work that fits one process.

It is the SQLite queue without a file, so that both behave alike to the last detail; but it dies with the process.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from webmill.infra.queue.base import LEASE, MAX_ATTEMPTS, MAX_BYTES, QueueOptions
from webmill.infra.queue.sqlite import SqliteQueue


def open_memory(_url: str, options: QueueOptions) -> MemoryQueue:
    return MemoryQueue(max_attempts=options.attempts, lease=options.lease)


class MemoryQueue(SqliteQueue):
    def __init__(
        self,
        *,
        max_attempts: int = MAX_ATTEMPTS,
        max_bytes: int = MAX_BYTES,
        lease: float = LEASE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(None, max_attempts=max_attempts, max_bytes=max_bytes, lease=lease, clock=clock)
