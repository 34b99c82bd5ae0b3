"""The inbox of a shard as a stream in Redis, for all nodes of a crawl.

Messages are deleted by their ids. So a former owner who deletes late deletes only what it had made durable itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from webmill.crawl.frontier.redis.server import RedisServer, as_text
from webmill.crawl.scheduler.inbox import InboxMessage

FIELD = "letter"


class RedisInbox:
    """An inbox on a connection that others use, too."""

    def __init__(self, server: RedisServer, key: str) -> None:
        self._server, self._key = server, key

    def publish(self, bodies: Sequence[bytes]) -> None:
        """Add messages. One whose answer was lost is added twice, which does no harm."""
        self._server.ask_all(("XADD", self._key, "*", FIELD, body) for body in bodies)

    def read(self, count: int) -> list[InboxMessage]:
        found = self._server.ask("XRANGE", self._key, "-", "+", "COUNT", count)
        return [InboxMessage(as_text(id_), fields[FIELD.encode()]) for id_, fields in found]

    def delete(self, messages: Sequence[InboxMessage]) -> None:
        self._server.ask("XDEL", self._key, *(message.id for message in messages))

    def is_empty(self) -> bool:
        return not self._server.ask("XLEN", self._key)

    def close(self) -> None:
        """Leave the connection to its owner."""
