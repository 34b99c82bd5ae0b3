"""The policy of fixed delays: until when hosts, domains and addresses may not be asked.

A domain belongs to one process, but an address may be shared by the domains of several, and a robots.txt may redirect
to a host of another. So a time is reserved, durably, before a request is sent: for as long as it may take until the
request is on its way. When the request was sent its time is known and the reservation is updated; one that somebody
else has made meanwhile is never made shorter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from webmill.infra.clock import Anchor, SteadyClock
from webmill.infra.host_schedule.base import KeyStates

MOST_SLOTS = 10_000


class ReservedTime(msgspec.Struct, frozen=True):
    """The state of a key."""

    until: float
    expected: float  # when it will be free if all goes well


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


def reserve(
    states: KeyStates[ReservedTime], reservation: Reservation, *, now: float, longest: float, slots: RetrySlots
) -> float | None:
    """Reserve all keys of a request and return None, or reserve none and return when it may try again."""
    found = {key: states.get(key) for key in reservation.delays}
    taken = {key: state.expected for key, state in found.items() if state and now < state.until <= now + longest}
    if taken:
        return max(slots.next_slot(key, expected, reservation.delays[key], now) for key, expected in taken.items())
    for key, delay in reservation.delays.items():
        states.put(key, ReservedTime(reservation.until(key), reservation.now + delay))
    return None


def update(states: KeyStates[ReservedTime], key: str, update: ReservationUpdate) -> None:
    """Record when a key is free, unless somebody else has reserved it for longer meanwhile.

    What two have reserved is a time that neither has named: else the next update of one would take it for its own, and
    make it shorter than the other's.
    """
    state = states.get(key)
    until = free = update.free
    if state is not None and state.until != update.reserved:
        free = max(state.until, update.free)
        until = math.nextafter(free, math.inf)
    states.put(key, ReservedTime(until, free))
