"""Ctrl-C reaches every process of a terminal. Children that are told by their parent when to end must not hear it.

A child hears it until it has said that it ignores it, which is after Python and its imports are loaded: one that comes
before would end it with a traceback. So it is started with the signal held back.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

GLANCE = 0.2  # seconds between two looks for a file


@contextmanager
def held_back() -> Iterator[None]:
    """In the parent, around the start of a child. What comes meanwhile is heard, at the end at the latest."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore() -> None:
    """In the child, first of all."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


class StopFile(threading.Event):
    """An event that other processes see: it is set when its file is there."""

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
            left = GLANCE if deadline is None else min(GLANCE, deadline - time.monotonic())
            if left <= 0:
                return False
            time.sleep(left)
        return True
