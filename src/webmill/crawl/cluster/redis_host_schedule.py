"""The host schedule that all nodes of a crawl share, in Redis, and the clock that it is read by.

The rules are those of `infra/host_schedule/fixed_delays.py`. A batch is reserved by one script, whole; a key is gone
when its time is over. What was reserved and not heard of, because the answer was lost, stays reserved: then the request
is sent a little later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from webmill.crawl.cluster.redis_scripts import ClusterScripts
from webmill.crawl.frontier.redis.server import as_text
from webmill.infra.clock import Anchor, SteadyClock, clock_ahead
from webmill.infra.host_schedule.fixed_delays import Reservation, ReservationUpdate, RetrySlots


class RedisHostSchedule:
    """A host schedule on a connection that others use, too."""

    def __init__(self, scripts: ClusterScripts) -> None:
        self._scripts = scripts
        self._slots = RetrySlots()
        self._clock: SteadyClock | None = None

    def clock(self, own: Anchor | None) -> SteadyClock:
        self._clock = shared_clock(self._scripts, own)
        return self._clock

    def reserve(self, reservations: Mapping[int, Reservation], *, now: float, longest: float) -> dict[int, float]:
        wanted = [
            (number, [(key, one.until(key), one.now + delay) for key, delay in one.delays.items()])
            for number, one in reservations.items()
        ]
        time, answers = self._scripts.run("reserve", repr(now), repr(longest), msgspec.json.encode(wanted).decode())
        self._catch_up(time)
        refused: dict[int, float] = {}
        for number, key, expected in answers:
            delay = reservations[number].delays[as_text(key)]
            slot = self._slots.next_slot(as_text(key), float(expected), delay, now)
            refused[number] = max(slot, refused.get(number, 0.0))
        return refused

    def update(self, updates: Iterable[Mapping[str, ReservationUpdate]], *, clock: SteadyClock) -> None:
        values = [(key, update.reserved, update.free) for keys in updates for key, update in keys.items()]
        self._catch_up(self._scripts.run("update", repr(clock()), msgspec.json.encode(values).decode()))

    def _catch_up(self, time: bytes) -> None:
        if self._clock:
            self._clock.catch_up(float(time))

    def close(self) -> None:
        """Leave the connection to its owner."""


def shared_clock(scripts: ClusterScripts, own: Anchor | None = None) -> SteadyClock:
    """Return the clock of all nodes, which is not behind `own`, where this shard has been."""
    now = float(scripts.run("time", 0))
    shared = SteadyClock(wall=lambda: now)
    clock = clock_ahead(shared, own, wall=lambda: now)
    if clock is not shared:
        scripts.run("time", repr(clock()))
    return clock
