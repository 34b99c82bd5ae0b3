"""Connections that wait for their next request: bounded in time, number and memory.

When there is no room, the connection that would be the next to wait is closed instead: hosts are asked in turn, so that
those that wait longest are needed next.
"""

from __future__ import annotations

import asyncio
import re
import resource

from msgspec import Struct

from webmill.crawl.fetch.connection import FetchConnection
from webmill.crawl.fetch.types import FetchLimits, SocketAddress
from webmill.formats.http import ResponseHead

Key = tuple[str, str, SocketAddress]  # scheme, host, where it is connected

_TIMEOUT = re.compile(r"(?:^|[,;\s])timeout\s*=\s*\"?(\d{1,6})(?!\d)", re.IGNORECASE)
_USABLE = 0.9  # of the time that a server names: a request shall not cross its end of the connection

MOST, LEAST = 2000, 32  # connections that may wait in a process
_OTHER_FILES = 128  # that a process has open besides connections


class _IdleEntry(Struct, frozen=True, eq=False):
    key: Key
    timer: asyncio.TimerHandle
    memory: int


class IdleConnections:
    """Keeps idle connections; the freshest of a host is handed out first."""

    def __init__(self, limits: FetchLimits) -> None:
        self._limits, self._memory = limits, 0
        self._by_key: dict[Key, list[FetchConnection]] = {}
        self._entries: dict[FetchConnection, _IdleEntry] = {}  # the longest waiting first

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> FetchConnection | None:
        while (waiting := self._by_key.get(key)) is not None:
            connection = waiting[-1]
            self.forget(connection)
            if connection.is_quiet():
                return connection
            connection.abort()
        return None

    def put(self, key: Key, connection: FetchConnection, head: ResponseHead) -> None:
        """Keep a connection after an answer with this head, or end it: the server allows no time, or there is no
        room."""
        seconds = min(self._limits.idle, allowed_idle(head))
        memory = connection.idle_memory
        if seconds <= 0 or not self._has_room(memory):
            connection.abort()
            return
        timer = asyncio.get_running_loop().call_later(seconds, connection.abort)
        self._by_key.setdefault(key, []).append(connection)
        self._entries[connection] = _IdleEntry(key, timer, memory)
        self._memory += memory

    def _has_room(self, memory: int) -> bool:
        limits = self._limits
        return len(self._entries) < limits.idle_connections and self._memory + memory <= limits.idle_memory

    def forget(self, connection: FetchConnection) -> None:
        """Remove a connection: it was handed out, or it is lost."""
        entry = self._entries.pop(connection, None)
        if entry is None:
            return
        entry.timer.cancel()
        self._memory -= entry.memory
        self._by_key[entry.key].remove(connection)
        if not self._by_key[entry.key]:
            del self._by_key[entry.key]

    def drop_oldest(self) -> bool:
        """End the connection that waited longest; False when none waits."""
        for connection in self._entries:
            self.forget(connection)
            connection.abort()
            return True
        return False

    def clear(self) -> None:
        while self.drop_oldest():
            pass


def allowed_idle(head: ResponseHead) -> float:
    """Return for how many seconds a server lets a connection wait, by its `Keep-Alive` field; endless if it says
    nothing."""
    found = _TIMEOUT.search(head.headers.get("keep-alive") or "")
    return float(found[1]) * _USABLE if found else float("inf")


def idle_room(connections: int) -> int:
    """Return how many connections may wait beside `connections` in use, by the open files that a process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else max(LEAST, min(MOST, soft - connections - _OTHER_FILES))
