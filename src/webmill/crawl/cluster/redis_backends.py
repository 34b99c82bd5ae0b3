"""What a process of a crawl on many nodes opens for itself: parts that have their state in Redis.

A shard has the name of its folder there: keys of its frontier begin with `{NAME:shard-03}:`, all others with `{NAME}:`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from webmill.crawl.cluster.lost_files import OpenBackup, regain
from webmill.crawl.cluster.redis_domain_budget import RedisQuota
from webmill.crawl.cluster.redis_host_schedule import RedisGates
from webmill.crawl.cluster.redis_inbox import RedisBox
from webmill.crawl.cluster.redis_scripts import Scripts
from webmill.crawl.frontier.base import Frontier
from webmill.crawl.frontier.redis.frontier import RedisFrontier
from webmill.crawl.frontier.redis.server import Server
from webmill.crawl.politeness.host_schedule import GateBook
from webmill.crawl.scheduler.domain_budget import Quota
from webmill.crawl.scheduler.inbox import Box


class RedisParts:
    """Travels to the processes without its connection: each makes its own, one for all but the frontier."""

    def __init__(
        self, url: str, name: str, *, strict: bool, rebuild: bool = False, open_backup: OpenBackup | None = None
    ) -> None:
        """`rebuild`: shards whose files are elsewhere, from Redis and a backup."""
        self._url, self._name, self._strict = url, name, strict
        self._rebuild, self._open_backup = rebuild, open_backup
        self._server: Server | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_server": None}

    def server(self) -> Server:
        if self._server is None:
            self._server = Server(self._url)
        return self._server

    def frontier(self, folder: Path) -> Frontier:
        prefix = f"{self._name}:{folder.name}"
        if self._rebuild:
            regain(self._url, folder, prefix=prefix, open_backup=self._open_backup)
        return RedisFrontier(self._url, folder, prefix=prefix, strict=self._strict)

    def box(self, file: Path) -> Box:
        return RedisBox(self.server(), f"{{{self._name}}}:{file.stem}")

    def gates(self, file: Path) -> GateBook:  # noqa: ARG002 - all shards share them
        return RedisGates(Scripts(self.server(), self._name))

    def quota(self, file: Path, limit: int | None) -> Quota:
        return RedisQuota(self.server(), f"{{{self._name}}}:quota:{file.parent.name}", limit=limit)
