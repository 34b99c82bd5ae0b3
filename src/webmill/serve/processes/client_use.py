"""How long each client has used what all share lately. Old use counts less and less, and is forgotten."""

from __future__ import annotations

import time
from collections.abc import Callable

HALF_LIFE = 20.0  # seconds after which use counts half
HEAVY = 0.25  # seconds lately: a page every second; people who read use less
MOST_CLIENTS = 4096  # beyond, those are forgotten that have used next to nothing
LITTLE = 0.01  # seconds
SMOOTHING = 0.05  # weight of the last use in the mean


class ClientUse:
    """Seconds by client. A use is charged at the mean when it begins, and at what it took when it ends.

    Instead of making all numbers smaller as time passes, new ones are made larger, by a weight that doubles in each
    half-life; so they can be compared without computing anything.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        self._used: dict[str, float] = {}
        self._mean = LITTLE

    def begin(self, client: str) -> None:
        self._charge(client, self._mean)

    def end(self, client: str, seconds: float) -> None:
        self._charge(client, seconds - self._mean)
        self._mean += SMOOTHING * (seconds - self._mean)

    def of(self, client: str, *, more: int = 0) -> float:
        """Return what this client has used, and would have with `more` uses of the mean: comparable, not seconds."""
        return self._used.get(client, 0.0) + (more * self._mean * self._weight() if more else 0.0)

    def is_heavy(self, client: str) -> bool:
        """Return whether this client has used much lately."""
        used = self._used.get(client, 0.0)
        return used > HEAVY and used > HEAVY * self._weight()

    def _charge(self, client: str, seconds: float) -> None:
        weight = self._weight()
        self._used[client] = max(0.0, self._used.get(client, 0.0) + seconds * weight)
        if weight > 1e100 or len(self._used) > MOST_CLIENTS:
            self._forget(weight)

    def _weight(self) -> float:
        return float(2.0 ** ((self._clock() - self._since) / HALF_LIFE))

    def _forget(self, weight: float) -> None:
        """Make the numbers small again, and forget clients; all if there are too many."""
        self._used = {client: used / weight for client, used in self._used.items() if used > LITTLE * weight}
        if len(self._used) > MOST_CLIENTS:
            self._used.clear()
        self._since = self._clock()
