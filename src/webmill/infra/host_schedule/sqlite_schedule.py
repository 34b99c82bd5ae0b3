"""The host schedule of a folder in one SQLite file, for all processes of a machine, and their clock. It is durable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from webmill.infra.clock import Anchor, SteadyClock, clock_ahead
from webmill.infra.host_schedule import fixed_delays
from webmill.infra.host_schedule.base import KeyStates
from webmill.infra.host_schedule.fixed_delays import (
    Reservation,
    ReservationUpdate,
    ReservedTime,
    RetrySlots,
)
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


class SqliteHostSchedule:
    """A `HostSchedule`, and the `StateStore` that it is made of. Open it after a fork, never before."""

    def __init__(self, path: Path) -> None:
        self._database = Database(path, schema=SCHEMA)
        self._slots = RetrySlots()

    def clock(self, own: Anchor | None) -> SteadyClock:
        with self._database.write() as run:
            rows = run("SELECT anchor FROM clock")
            stored = msgspec.json.decode(rows[0][0], type=Anchor) if rows else None
            shared = SteadyClock(stored)
            clock = clock_ahead(shared, own)
            if stored is None or clock is not shared or clock.anchor().boot != stored.boot:
                _store_clock(run, clock)
        return clock

    def reserve(self, reservations: Mapping[int, Reservation], *, now: float, longest: float) -> dict[int, float]:
        with self.locked() as states:
            answers = {
                number: fixed_delays.reserve(states, one, now=now, longest=longest, slots=self._slots)
                for number, one in reservations.items()
            }
        return {number: again for number, again in answers.items() if again is not None}

    def update(self, updates: Iterable[Mapping[str, ReservationUpdate]], *, clock: SteadyClock) -> None:
        with self._database.write() as run:
            _store_clock(run, clock)
            states = _KeyRows(run)
            for keys in updates:
                for key, update in keys.items():
                    fixed_delays.update(states, key, update)

    @contextmanager
    def locked(self) -> Iterator[KeyStates[ReservedTime]]:
        with self._database.write() as run:
            yield _KeyRows(run)

    def close(self) -> None:
        self._database.close()


class _KeyRows:
    def __init__(self, run: Run) -> None:
        self._run = run

    def get(self, key: str) -> ReservedTime | None:
        rows = self._run("SELECT until, expected FROM gate WHERE key = ?", (key,))
        return ReservedTime(*rows[0]) if rows else None

    def put(self, key: str, state: ReservedTime) -> None:
        self._run("INSERT OR REPLACE INTO gate VALUES (?, ?, ?)", (key, state.until, state.expected))


def _store_clock(run: Run, clock: SteadyClock) -> None:
    run("INSERT OR REPLACE INTO clock VALUES (1, ?)", (msgspec.json.encode(clock.anchor()).decode(),))
