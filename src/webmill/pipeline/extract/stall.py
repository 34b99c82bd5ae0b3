"""Keeps a task from hanging or eating the machine: its process ends, with its stack as the reason.

A loop in C code cannot be stopped from within Python; faulthandler's watchdog thread ends the process all the same. The
executor tries the task again, and gives up after its attempts.
"""

from __future__ import annotations

import faulthandler
import resource
import sys
import time
from pathlib import Path
from typing import Self


class Stall:
    """`moved` says that the task goes on; call it as often as you like."""

    def __init__(self, *, timeout: float, memory: int, active: bool) -> None:
        """`timeout` in seconds without a move, `memory` in MiB; 0: none."""
        self._timeout = timeout if active and timeout > 0 else 0.0
        self._memory = memory << 20 if active and sys.platform == "linux" else 0
        self._armed = 0.0

    def __enter__(self) -> Self:
        self._limits = resource.getrlimit(resource.RLIMIT_AS)
        if self._memory:
            resource.setrlimit(resource.RLIMIT_AS, (_address_space() + self._memory, self._limits[1]))
        self._arm()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timeout:
            faulthandler.cancel_dump_traceback_later()
        if self._memory:
            resource.setrlimit(resource.RLIMIT_AS, self._limits)

    def moved(self) -> None:
        """Arming starts a thread: often enough is ten times per timeout."""
        if self._timeout and time.monotonic() - self._armed > self._timeout / 10:
            self._arm()

    def _arm(self) -> None:
        if self._timeout:
            self._armed = time.monotonic()
            faulthandler.dump_traceback_later(self._timeout, exit=True, file=sys.__stderr__ or sys.stderr)


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
