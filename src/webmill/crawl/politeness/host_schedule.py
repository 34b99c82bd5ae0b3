"""Until when hosts, domains and addresses may not be asked: one file for all processes of a machine, and its clock.

A domain belongs to one process, but an address may be shared by the domains of several, and a robots.txt may redirect
to a host of another. So a time is reserved here, durably, before a request is sent: for as long as it may take until
the request is on its way. When the request was sent its time is known and the reservation is updated; one that somebody
else has made meanwhile is never made shorter.
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
MOST_SLOTS = 10_000


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """A request at `now`, sent within `window` seconds. `delays` are the keys it reserves, each with its delay."""

    now: float
    window: float
    delays: dict[str, float]

    def until(self, key: str) -> float:
        return self.now + self.window + self.delays[key]


class ReservationUpdate(msgspec.Struct, frozen=True):
    """What became of a reserved key: it was reserved until `reserved`, and is free again at `free`."""

    reserved: float
    free: float


class HostSchedule(Protocol):
    """Until when each key (a host, a domain or an address) is reserved."""

    def clock(self, own: Anchor | None) -> SteadyClock:
        """Return the clock of all processes, which is not behind `own`, where one of them has been."""
        ...

    def reserve(self, reservations: Mapping[int, Reservation], *, now: float, longest: float) -> dict[int, float]:
        """Reserve in the order given, and return when those that were refused may try again.

        A time beyond `longest`, all that we would ever reserve ourselves, is one that a wrong clock has left behind.
        """
        ...

    def update(self, updates: Iterable[Mapping[str, ReservationUpdate]], *, clock: SteadyClock) -> None:
        """Record when keys are free, now that their requests were sent."""
        ...

    def close(self) -> None: ...


class RetrySlots:
    """When refused requests try again: one after the other, since thousands of names may share an address."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}  # the last slot given out, by key

    def next_slot(self, key: str, expected: float, delay: float, now: float) -> float:
        if len(self._last) > MOST_SLOTS:
            self._last = {key: time for key, time in self._last.items() if time > now}
        soonest = expected if expected > now else now + delay
        self._last[key] = max(soonest, self._last.get(key, 0.0) + delay)
        return self._last[key]


class SqliteHostSchedule:
    def __init__(self, path: Path) -> None:
        self._database = Database(path, schema=SCHEMA)
        self._slots = RetrySlots()

    def clock(self, own: Anchor | None) -> SteadyClock:
        with self._database.write() as run:
            rows = run("SELECT anchor FROM clock")
            stored = msgspec.json.decode(rows[0][0], type=Anchor) if rows else None
            clock = shared = SteadyClock(stored)
            if own and (ahead := SteadyClock(own))() > shared() + ABOUT_EQUAL:
                clock = ahead
            if stored is None or clock is not shared or clock.anchor().boot != stored.boot:
                self._store_clock(run, clock)
        return clock

    def reserve(self, reservations: Mapping[int, Reservation], *, now: float, longest: float) -> dict[int, float]:
        refused: dict[int, float] = {}
        with self._database.write() as run:
            for number, reservation in reservations.items():
                found = {key: _read_key(run, key) for key in reservation.delays}
                taken = {key: expected for key, (until, expected) in found.items() if now < until <= now + longest}
                if taken:
                    slots = (
                        self._slots.next_slot(key, expected, reservation.delays[key], now)
                        for key, expected in taken.items()
                    )
                    refused[number] = max(slots)
                else:
                    for key, delay in reservation.delays.items():
                        run(PUT, (key, reservation.until(key), reservation.now + delay))
        return refused

    def update(self, updates: Iterable[Mapping[str, ReservationUpdate]], *, clock: SteadyClock) -> None:
        with self._database.write() as run:
            self._store_clock(run, clock)
            for keys in updates:
                for key, update in keys.items():
                    until, _ = _read_key(run, key)
                    free = update.free if until == update.reserved else max(until, update.free)
                    run(PUT, (key, free, free))

    def _store_clock(self, run: Run, clock: SteadyClock) -> None:
        run("INSERT OR REPLACE INTO clock VALUES (1, ?)", (msgspec.json.encode(clock.anchor()).decode(),))

    def close(self) -> None:
        self._database.close()


def _read_key(run: Run, key: str) -> tuple[float, float]:
    rows = run("SELECT until, expected FROM gate WHERE key = ?", (key,))
    return rows[0] if rows else (0.0, 0.0)
