"""Until when hosts, domains and addresses are not to be asked: one file for all processes of a crawl, and its clock.

A domain belongs to one process, but an address may be shared by the domains of several, and a robots.txt may send us
to a host of another. So a time is booked here, durably, before a request is sent: for as long as it may take until the
request is on its way. When it is answered the time is known and the booking is corrected; a booking that somebody else
has made meanwhile is never made shorter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from webmill.infra.clock import Anchor, SteadyClock
from webmill.infra.sqlite import Database, Run, Schema

SCHEMA = Schema(
    tag=int.from_bytes(b"wmGa"),
    steps=(
        """
        CREATE TABLE gate (key TEXT PRIMARY KEY, until REAL NOT NULL) STRICT, WITHOUT ROWID;
        CREATE TABLE clock (one INTEGER PRIMARY KEY CHECK (one = 1), anchor TEXT NOT NULL) STRICT;
        """,
    ),
)
ABOUT_EQUAL = 0.001  # seconds


class Booking(msgspec.Struct, frozen=True, kw_only=True):
    """Times that nobody else may use: until when each key is taken if the request is sent."""

    number: int
    gates: dict[str, float]


class Kept(msgspec.Struct, frozen=True):
    """What became of a key of a booking: it was taken until `booked`, and is now until `until`."""

    booked: float
    until: float


class Gates:
    def __init__(self, path: Path) -> None:
        self._database = Database(path, schema=SCHEMA)

    def clock(self, own: Anchor | None) -> SteadyClock:
        """The same for all processes, and not behind `own`, where one of them has been."""
        with self._database.write() as run:
            rows = run("SELECT anchor FROM clock")
            stored = msgspec.json.decode(rows[0][0], type=Anchor) if rows else None
            clock = shared = SteadyClock(stored)
            if own and (ahead := SteadyClock(own))() > shared() + ABOUT_EQUAL:
                clock = ahead
            if stored is None or clock is not shared or clock.anchor().boot != stored.boot:
                self._note(run, clock)
        return clock

    def book(self, bookings: Sequence[Booking], *, now: float, longest: float) -> dict[int, float]:
        """Those that are refused, and when to try again. First come, first served; of one batch too."""
        waits: dict[int, float] = {}
        with self._database.write() as run:
            for booking in bookings:
                free = max((_until(run, key) for key in booking.gates), default=0.0)
                # A time beyond all that we would ever set ourselves is one that a clock has left behind.
                if now < free <= now + longest:
                    waits[booking.number] = free
                else:
                    for row in booking.gates.items():
                        run("INSERT OR REPLACE INTO gate VALUES (?, ?)", row)
        return waits

    def correct(self, kept: Iterable[Mapping[str, Kept]], *, clock: SteadyClock) -> None:
        with self._database.write() as run:
            self._note(run, clock)
            for gates in kept:
                for key, value in gates.items():
                    until = _until(run, key)
                    new = value.until if until == value.booked else max(until, value.until)
                    run("INSERT OR REPLACE INTO gate VALUES (?, ?)", (key, new))

    def _note(self, run: Run, clock: SteadyClock) -> None:
        run("INSERT OR REPLACE INTO clock VALUES (1, ?)", (msgspec.json.encode(clock.anchor()).decode(),))

    def close(self) -> None:
        self._database.close()


def _until(run: Run, key: str) -> float:
    rows = run("SELECT until FROM gate WHERE key = ?", (key,))
    return rows[0][0] if rows else 0.0
