"""What a process of a crawl on many nodes opens for itself: parts that have their state in Redis.

A shard has the name of its folder there: keys of its frontier begin with `{NAME:shard-03}:`, all others with `{NAME}:`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from webmill.crawl.cluster.lost_files import OpenBackup, rebuild_lost_shard
from webmill.crawl.cluster.redis_host_schedule import RedisHostSchedule
from webmill.crawl.cluster.redis_inbox import RedisInbox
from webmill.crawl.cluster.redis_scripts import ClusterScripts
from webmill.crawl.frontier.base import Frontier
from webmill.crawl.frontier.redis.frontier import RedisFrontier
from webmill.crawl.frontier.redis.server import RedisServer
from webmill.crawl.scheduler.budgets import DomainBudget
from webmill.crawl.scheduler.inbox import ShardInbox
from webmill.infra.host_schedule.fixed_delays import HostSchedule


class RedisBackends:
    """Opens the state of a crawl in Redis. It travels to the processes without its connection; each makes its own."""

    def __init__(
        self, url: str, name: str, *, strict: bool, rebuild: bool = False, open_backup: OpenBackup | None = None
    ) -> None:
        """`rebuild`: rebuild shards whose files are elsewhere, from Redis and a backup."""
        self._url, self._name, self._strict = url, name, strict
        self._rebuild, self._open_backup = rebuild, open_backup
        self._server: RedisServer | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_server": None}

    def server(self) -> RedisServer:
        """Return this process's connection, which all parts but the frontier share."""
        if self._server is None:
            self._server = RedisServer(self._url)
        return self._server

    def open_frontier(self, folder: Path) -> Frontier:
        prefix = f"{self._name}:{folder.name}"
        if self._rebuild:
            rebuild_lost_shard(self._url, folder, prefix=prefix, open_backup=self._open_backup)
        return RedisFrontier(self._url, folder, prefix=prefix, strict=self._strict)

    def open_inbox(self, file: Path) -> ShardInbox:
        return RedisInbox(self.server(), f"{{{self._name}}}:{file.stem}")

    def open_host_schedule(self, file: Path) -> HostSchedule:  # noqa: ARG002 - all shards share one
        return RedisHostSchedule(ClusterScripts(self.server(), self._name))

    def open_domain_budget(self, file: Path, limit: int | None) -> DomainBudget:
        return RedisDomainBudget(self.server(), f"{{{self._name}}}:quota:{file.parent.name}", limit=limit)


class RedisDomainBudget:
    """The page counts of a shard's domains in Redis: whoever takes the shard over knows them."""

    def __init__(self, server: RedisServer, key: str, *, limit: int | None) -> None:
        self._server, self._key, self.limit = server, key, limit

    def remaining(self, domains: Iterable[str]) -> dict[str, int] | None:
        if self.limit is None:
            return None
        return {name: max(0, self.limit - pages) for name, pages in self.spent(domains).items()}

    def spent(self, names: Iterable[str]) -> dict[str, int]:
        keys = list(names)
        found = self._server.ask("HMGET", self._key, *keys) if keys else ()
        return {key: int(pages or 0) for key, pages in zip(keys, found, strict=True)}

    def spend(self, pages: Counter[str]) -> None:
        """Count pages. They are counted twice when the answer was lost: too many, so the limit is never passed."""
        self._server.ask_all(("HINCRBY", self._key, domain, number) for domain, number in pages.items())

    def close(self) -> None:
        """Leave the connection to its owner."""
