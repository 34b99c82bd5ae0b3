"""Connections that wait for their next request: bounded in number and in time, the freshest taken first."""

from __future__ import annotations

import asyncio

from webmill.crawl.fetch.connection import Connection
from webmill.crawl.fetch.types import SocketAddress

Key = tuple[str, str, SocketAddress]  # scheme, host, where it is connected


class Pool:
    def __init__(self, *, size: int, idle: float) -> None:
        self._size, self._idle = size, idle
        self._parked: dict[Key, list[Connection]] = {}
        self._places: dict[Connection, tuple[Key, asyncio.TimerHandle]] = {}  # the longest waiting first

    def __len__(self) -> int:
        return len(self._places)

    def take(self, key: Key) -> Connection | None:
        while (waiting := self._parked.get(key)) is not None:
            connection = waiting[-1]
            self.forget(connection)
            if connection.is_quiet():
                return connection
            connection.abort()
        return None

    def park(self, key: Key, connection: Connection) -> None:
        timer = asyncio.get_running_loop().call_later(self._idle, connection.abort)
        self._parked.setdefault(key, []).append(connection)
        self._places[connection] = (key, timer)
        if len(self._places) > self._size:
            self.drop_one()

    def forget(self, connection: Connection) -> None:
        """It was taken, or it is lost."""
        place = self._places.pop(connection, None)
        if place is None:
            return
        key, timer = place
        timer.cancel()
        self._parked[key].remove(connection)
        if not self._parked[key]:
            del self._parked[key]

    def drop_one(self) -> bool:
        """End the connection that waited longest; False when none waits."""
        for connection in self._places:
            self.forget(connection)
            connection.abort()
            return True
        return False

    def clear(self) -> None:
        while self.drop_one():
            pass
