"""So many requests a second of one client: token buckets, of the clients that came last."""

from __future__ import annotations

from collections import OrderedDict

from webmill.serve.address import network_of, parse

MOST_CLIENTS = 20_000  # forgotten first: who has not asked for longest, whose bucket is full again


class Rate:
    """Of this process. `rate` requests a second, `burst` of them at once; a rate of 0 is no limit."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, float(max(1, burst))
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when they were counted

    def wait(self, address: str, now: float) -> float:
        """Seconds until this client may ask again; 0 when it may now."""
        if not self._rate or parse(address) is None:  # a socket of this machine has no address
            return 0.0
        client = network_of(address)
        tokens, then = self._buckets.get(client) or (self._burst, now)
        tokens = min(self._burst, tokens + (now - then) * self._rate)
        may = tokens >= 1
        self._buckets[client] = (tokens - may, now)
        self._buckets.move_to_end(client)
        if len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if may else (1 - tokens) / self._rate
