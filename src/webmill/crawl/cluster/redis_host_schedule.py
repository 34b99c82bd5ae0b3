"""Gates that all nodes of a crawl share, in Redis, and the clock that they are told by.

The rules are those of `gates`. A batch is booked by one script, whole; a key is gone when its time is over. What was
booked and not heard of, because the answer was lost, stays booked: then the request is sent a little later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from webmill.crawl.cluster.redis_scripts import Scripts
from webmill.crawl.frontier.redis.server import text
from webmill.crawl.politeness.host_schedule import ABOUT_EQUAL, Booking, Kept, Lines
from webmill.infra.clock import Anchor, SteadyClock


class RedisGates:
    """On a connection that others use, too."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts
        self._lines = Lines()
        self._clock: SteadyClock | None = None

    def clock(self, own: Anchor | None) -> SteadyClock:
        """The same for all nodes, and not behind `own`, where the shard has been."""
        self._clock = shared_clock(self._scripts, own)
        return self._clock

    def book(self, bookings: Mapping[int, Booking], *, now: float, longest: float) -> dict[int, float]:
        asked = [
            (number, [(key, one.until(key), one.now + wait) for key, wait in one.waits.items()])
            for number, one in bookings.items()
        ]
        time, refused = self._scripts.run("book", repr(now), repr(longest), msgspec.json.encode(asked).decode())
        self._catch_up(time)
        waits: dict[int, float] = {}
        for number, key, expected in refused:
            wait = bookings[number].waits[text(key)]
            comes = self._lines.line_up(text(key), float(expected), wait, now)
            waits[number] = max(comes, waits.get(number, 0.0))
        return waits

    def correct(self, kept: Iterable[Mapping[str, Kept]], *, clock: SteadyClock) -> None:
        values = [(key, value.booked, value.until) for gates in kept for key, value in gates.items()]
        self._catch_up(self._scripts.run("correct", repr(clock()), msgspec.json.encode(values).decode()))

    def _catch_up(self, time: bytes) -> None:
        if self._clock:
            self._clock.catch_up(float(time))

    def close(self) -> None:
        pass


def shared_clock(scripts: Scripts, own: Anchor | None = None) -> SteadyClock:
    now = float(scripts.run("time", 0))
    clock = SteadyClock(wall=lambda: now)
    if own and (ahead := SteadyClock(own, wall=lambda: now))() > clock() + ABOUT_EQUAL:
        clock = ahead
        scripts.run("time", repr(clock()))
    return clock
