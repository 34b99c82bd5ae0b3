"""The letter box of a shard as a stream in Redis, for all nodes of a crawl.

Letters are dropped by their ids. So a former owner who drops late drops only what he had made durable himself.
"""

from __future__ import annotations

from collections.abc import Sequence

from webmill.crawl.frontier.redis.server import Server, text
from webmill.crawl.scheduler.inbox import Letter


class RedisBox:
    """On a connection that others use, too."""

    def __init__(self, server: Server, key: str) -> None:
        self._server, self._key = server, key

    def post(self, letters: Sequence[bytes]) -> None:
        """One whose answer was lost is there twice, which does no harm."""
        self._server.ask_all(("XADD", self._key, "*", "letter", letter) for letter in letters)

    def take(self, count: int) -> list[Letter]:
        found = self._server.ask("XRANGE", self._key, "-", "+", "COUNT", count)
        return [Letter(text(id_), fields[b"letter"]) for id_, fields in found]

    def drop(self, letters: Sequence[Letter]) -> None:
        self._server.ask("XDEL", self._key, *(letter.id for letter in letters))

    def is_empty(self) -> bool:
        return not self._server.ask("XLEN", self._key)

    def close(self) -> None:
        pass
