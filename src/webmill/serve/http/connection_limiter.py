"""How many connections clients may have, and who is not listened to any more.

Open connections are limited per client and in total; a new one over the limit replaces one of the client that has most:
the one that has been idle longest, else the oldest. So those who hold connections lose them, and nobody else.

A client that was refused often within seconds, whatever for, and goes on, is ignored for seconds: its new connections
are closed before anything is read from them. That is the cheapest refusal there is, and the only one whose cost does
not grow with what the client sends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from webmill.serve.guard.client_address import TrustedProxies, client_network
from webmill.serve.site import ClientLimits

FADING = 0.5  # what is left of a client's refusals after each sweep, twice a second
MOST_COUNTED = 8  # times the limit: after these, a client is ignored for 1.5 seconds
MOST_CLIENTS = 4096


class LimitedConnection(Protocol):
    """A connection as the limiter sees it."""

    is_closing: bool

    @property
    def peer(self) -> str: ...

    def close_idle(self) -> None:
        """Close this idle connection to make room for another."""

    def cut(self) -> None:
        """Break this connection off, in the middle of an answer, to make room for another client."""

    def check_timeouts(self) -> None:
        """Close this connection if its client is too slow."""


class ConnectionLimiter:
    """All connections of this process. `on_refused` is called with the reason of each refusal."""

    def __init__(self, limits: ClientLimits, *, exempt: TrustedProxies, on_refused: Callable[[str], None]) -> None:
        self.limits = limits
        self.on_refused = on_refused
        self._exempt = exempt  # proxies hold the connections of many clients
        self._by_network: dict[str, dict[LimitedConnection, None]] = {}
        self.count = 0
        self._waiting: dict[LimitedConnection, None] = {}  # idle connections, longest first
        self._faults: dict[str, float] = {}  # by client: refusals lately

    def admit(self, one: LimitedConnection, address: str) -> bool:
        """Add a connection; return False if it must be refused."""
        here = self._by_network.setdefault(client_network(address), {})
        here[one] = None
        self.count += 1
        self._waiting[one] = None
        if len(here) > self.limits.connections_each and address not in self._exempt:
            return self._make_room(one, here, "too_many_of_one")
        return self.count <= self.limits.connections or self._make_room(one, self._largest(here), "too_many")

    def _largest(self, here: dict[LimitedConnection, None]) -> dict[LimitedConnection, None]:
        """Return the connections of the client that has most, unless the new one's has as many: then all idle ones."""
        most = max(self._by_network.values(), key=len)
        return most if len(most) > len(here) else self._waiting

    def _make_room(self, one: LimitedConnection, among: dict[LimitedConnection, None], reason: str) -> bool:
        self.on_refused(reason)
        for other in self._waiting:
            if other is not one and other in among and not other.is_closing:
                other.close_idle()
                return True
        return among is not self._waiting and one not in among and self._cut_oldest(among)

    def _cut_oldest(self, among: dict[LimitedConnection, None]) -> bool:
        """Cut off the oldest connection of a client that holds most of them and leaves none idle."""
        for other in among:
            if not other.is_closing and other.peer not in self._exempt:
                other.cut()
                return True
        return False

    def release(self, one: LimitedConnection, address: str) -> None:
        network = client_network(address)
        here = self._by_network.get(network, {})
        if one in here:
            del here[one]
            self.count -= 1
            if not here:
                del self._by_network[network]
        self._waiting.pop(one, None)

    def mark_busy(self, one: LimitedConnection) -> None:
        self._waiting.pop(one, None)

    def mark_idle(self, one: LimitedConnection) -> None:
        self._waiting[one] = None

    # --- who is ignored

    def add_fault(self, address: str) -> None:
        """Count a refusal, or a connection without a request."""
        if not self.limits.refusals or address in self._exempt:
            return
        client = client_network(address)
        if client not in self._faults and len(self._faults) >= MOST_CLIENTS:
            self._faults.clear()
        self._faults[client] = min(MOST_COUNTED * self.limits.refusals, self._faults.get(client, 0.0) + 1)

    def ignores(self, address: str) -> bool:
        """Return whether to close a new connection of this address at once."""
        if not self._faults or self._faults.get(client_network(address), 0.0) < self.limits.refusals:
            return False
        self.on_refused("ignored")
        return True

    def is_exempt(self, address: str) -> bool:
        return address in self._exempt

    def close_slow(self) -> None:
        """Close the connections of slow clients, and let refusals fade."""
        self._faults = {client: count * FADING for client, count in self._faults.items() if count > 1}
        for connections in list(self._by_network.values()):
            for one in list(connections):
                one.check_timeouts()
