"""Until when hosts, domains and addresses are not to be asked: one file for all processes of a crawl, and its clock.

A domain belongs to one process, but an address may be shared by the domains of several, and a robots.txt may send us
to a host of another. So a time is booked here, durably, before a request is sent: for as long as it may take until the
request is on its way. When it is answered the time is known and the booking is corrected; a booking that somebody else
has made meanwhile is never made shorter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from webmill.infra.clock import Anchor, SteadyClock
from webmill.infra.sqlite import Database, Run, Schema

SCHEMA = Schema(
    tag=int.from_bytes(b"wmGa"),
    steps=(
        """
        CREATE TABLE gate (
            key TEXT PRIMARY KEY,
            until REAL NOT NULL,
            expected REAL NOT NULL  -- when it will be free if all goes well
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE clock (one INTEGER PRIMARY KEY CHECK (one = 1), anchor TEXT NOT NULL) STRICT;
        """,
    ),
)
PUT = "INSERT OR REPLACE INTO gate VALUES (?, ?, ?)"
ABOUT_EQUAL = 0.001  # seconds
LINES = 10_000


class Booking(msgspec.Struct, frozen=True, kw_only=True):
    """A request at `now`, on its way `window` later at the latest: its keys are taken for so long and their waits."""

    now: float
    window: float
    waits: dict[str, float]

    def until(self, key: str) -> float:
        return self.now + self.window + self.waits[key]


class Kept(msgspec.Struct, frozen=True):
    """What became of a key of a booking: it was taken until `booked`, and is now until `until`."""

    booked: float
    until: float


class GateBook(Protocol):
    def clock(self, own: Anchor | None) -> SteadyClock:
        """The same for all processes, and not behind `own`, where one of them has been."""
        ...

    def book(self, bookings: Mapping[int, Booking], *, now: float, longest: float) -> dict[int, float]:
        """Those that are refused, and when to try again. First come, first served; of one batch too.

        A time beyond `longest`, all that we would ever set ourselves, is one that a clock has left behind.
        """
        ...

    def correct(self, kept: Iterable[Mapping[str, Kept]], *, clock: SteadyClock) -> None: ...

    def close(self) -> None: ...


class Lines:
    """Thousands of names may share an address: they come again one by one, not all when it is free."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}  # when the last one that was refused comes again

    def line_up(self, key: str, expected: float, wait: float, now: float) -> float:
        if len(self._last) > LINES:
            self._last = {key: time for key, time in self._last.items() if time > now}
        soonest = expected if expected > now else now + wait
        self._last[key] = max(soonest, self._last.get(key, 0.0) + wait)
        return self._last[key]


class Gates:
    def __init__(self, path: Path) -> None:
        self._database = Database(path, schema=SCHEMA)
        self._lines = Lines()

    def clock(self, own: Anchor | None) -> SteadyClock:
        with self._database.write() as run:
            rows = run("SELECT anchor FROM clock")
            stored = msgspec.json.decode(rows[0][0], type=Anchor) if rows else None
            clock = shared = SteadyClock(stored)
            if own and (ahead := SteadyClock(own))() > shared() + ABOUT_EQUAL:
                clock = ahead
            if stored is None or clock is not shared or clock.anchor().boot != stored.boot:
                self._note(run, clock)
        return clock

    def book(self, bookings: Mapping[int, Booking], *, now: float, longest: float) -> dict[int, float]:
        waits: dict[int, float] = {}
        with self._database.write() as run:
            for number, booking in bookings.items():
                found = {key: _gate(run, key) for key in booking.waits}
                taken = {key: expected for key, (until, expected) in found.items() if now < until <= now + longest}
                if taken:
                    line_up = self._lines.line_up
                    waits[number] = max(line_up(key, time, booking.waits[key], now) for key, time in taken.items())
                else:
                    for key, wait in booking.waits.items():
                        run(PUT, (key, booking.until(key), booking.now + wait))
        return waits

    def correct(self, kept: Iterable[Mapping[str, Kept]], *, clock: SteadyClock) -> None:
        with self._database.write() as run:
            self._note(run, clock)
            for gates in kept:
                for key, value in gates.items():
                    until, _ = _gate(run, key)
                    new = value.until if until == value.booked else max(until, value.until)
                    run(PUT, (key, new, new))

    def _note(self, run: Run, clock: SteadyClock) -> None:
        run("INSERT OR REPLACE INTO clock VALUES (1, ?)", (msgspec.json.encode(clock.anchor()).decode(),))

    def close(self) -> None:
        self._database.close()


def _gate(run: Run, key: str) -> tuple[float, float]:
    rows = run("SELECT until, expected FROM gate WHERE key = ?", (key,))
    return rows[0] if rows else (0.0, 0.0)
