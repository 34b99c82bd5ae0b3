"""Ctrl-C reaches every process of a terminal. Children whose parent decides when they end must not receive it.

A child can ignore it only after Python and its imports are loaded: one that comes before would end it with a traceback.
So it is started with the signal blocked.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from webmill.infra import waiting

POLL_INTERVAL = 0.2  # seconds between two checks for a file


@contextmanager
def held_back() -> Iterator[None]:
    """Block SIGINT in the parent while a child starts. What comes meanwhile is delivered at the end of the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore() -> None:
    """Ignore SIGINT; call this first of all in the child."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


class StopFile(threading.Event):
    """An event that other processes see: it is set when its file exists."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def set(self) -> None:
        super().set()  # here it stays set when the file is gone
        self.path.touch()

    def is_set(self) -> bool:
        return super().is_set() or self.path.exists()

    def wait(self, timeout: float | None = None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.is_set():
            left = POLL_INTERVAL if deadline is None else min(POLL_INTERVAL, deadline - time.monotonic())
            if left <= 0:
                return False
            waiting.sleep(left)
        return True
