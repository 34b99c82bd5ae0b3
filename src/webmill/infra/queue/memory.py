"""A queue inside this process: for tests, demonstrations and work that fits one process.

It is the SQLite queue without a file, so that both behave alike to the last detail; but it dies with the process.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from webmill.infra.queue.base import MAX_ATTEMPTS, MAX_BYTES
from webmill.infra.queue.sqlite import LEASE, SqliteQueue


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
