"""Nodes with a folder each that back up their parts of a crawl while it runs: who has made the copies of its shards.

    {NAME}:copying            the name of the copying that is under way
    {NAME}:copying:COPYING    hash: the shards whose copies are made

A node may let its shards go on as soon as the copies of all are made. So a node that comes a second time, since its
command was killed, begins another one: others may have relied on its first copies.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from webmill.crawl.frontier.redis.server import RedisServer
from webmill.errors import Conflict

KEY, LIFE = "copying", 3600  # seconds after which one that did not end is forgotten


class NodesCopying:
    """One copying of a crawl, as the node sees it that has the files of `shards`."""

    def __init__(self, server: RedisServer, prefix: str, shards: Sequence[int]) -> None:
        """Join the one that is under way, or begin one."""
        self._server, self._key, self._shards = server, prefix + KEY, shards
        server.ask("SET", self._key, secrets.token_hex(8), "NX", "EX", LIFE)
        self.name: str = server.ask("GET", self._key).decode()
        if self._copied().intersection(shards):
            self.name = secrets.token_hex(8)
            server.ask("SET", self._key, self.name, "EX", LIFE)

    def note_copied(self) -> None:
        """Tell the others that the shards here have made their copies."""
        key = f"{self._key}:{self.name}"
        self._server.ask("HSET", key, *(part for shard in self._shards for part in (str(shard), "1")))
        self._server.ask("EXPIRE", key, LIFE)

    def copied(self) -> set[int]:
        """Return the shards of all nodes that have. Conflict: another copying was begun since."""
        now = self._server.ask("GET", self._key)
        if now is None or now.decode() != self.name:
            raise Conflict("another backup was begun meanwhile, on another node: make this one again")
        return self._copied()

    def _copied(self) -> set[int]:
        return {int(shard) for shard in self._server.ask("HKEYS", f"{self._key}:{self.name}")}
