"""A wall clock that does not jump: what was "in 70 seconds" stays so when somebody sets the machine's clock.

While a process runs, time goes on by the monotonic clock. Over a restart it goes on from an `Anchor` that was stored:
on the same boot of the machine by the time since boot, which no one can set; after a reboot by the wall clock, and
never backwards.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

ABOUT_EQUAL = 0.001  # seconds by which two readings of one clock may differ
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Anchor(msgspec.Struct, frozen=True):
    """A moment, by our clock and by the machine's time since boot."""

    now: float
    since_boot: float
    boot: str  # empty where the system does not tell its boots apart


class SteadyClock:
    """`clock()` is in seconds since 1970, and never less than before."""

    def __init__(
        self,
        anchor: Anchor | None = None,
        *,
        wall: Callable[[], float] = time.time,
        since_boot: Callable[[], float] | None = None,
        boot: str | None = None,
    ) -> None:
        self._since_boot = since_boot or _time_since_boot
        self._boot = boot_id() if boot is None else boot
        started = self._since_boot()
        self._offset = _resumed(anchor, wall=wall(), since_boot=started, boot=self._boot) - started

    def __call__(self) -> float:
        return self._offset + self._since_boot()

    def catch_up(self, now: float) -> None:
        """Never be behind `now`, which another holder of a shared clock has seen."""
        self._offset = max(self._offset, now - self._since_boot())

    def anchor(self) -> Anchor:
        since_boot = self._since_boot()
        return Anchor(self._offset + since_boot, since_boot, self._boot)


def clock_ahead(shared: SteadyClock, own: Anchor | None, *, wall: Callable[[], float] = time.time) -> SteadyClock:
    """Return the shared clock, or one that goes on from `own` if the shared one is behind that moment."""
    ahead = SteadyClock(own, wall=wall) if own else shared
    return ahead if ahead() > shared() + ABOUT_EQUAL else shared


def _resumed(anchor: Anchor | None, *, wall: float, since_boot: float, boot: str) -> float:
    if anchor is None:
        return wall
    if boot and anchor.boot == boot and since_boot >= anchor.since_boot:
        return anchor.now + since_boot - anchor.since_boot
    return max(wall, anchor.now)


def boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def _time_since_boot() -> float:
    """Return seconds since boot, including sleep where the system can tell (macOS's monotonic clock does by itself)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()
