"""How the contract opens frontiers on a real Redis."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import redis

from tests.contracts.frontier_benches import Bench
from webmill.crawl.frontier.base import Frontier
from webmill.crawl.frontier.file_frontier import FrontierLimits
from webmill.crawl.frontier.redis import backup as redis_backup
from webmill.crawl.frontier.redis.frontier import RedisFrontier

_numbers = itertools.count()


def new_prefix() -> str:
    """One server serves several test processes."""
    return f"webmill-test-{os.getpid()}-{next(_numbers)}"


class RedisBench(Bench):
    def __init__(self, folder: Path, *, url: str, limits: FrontierLimits | None = None, prefix: str = "") -> None:
        self.url, self.limits, self.prefix = url, limits, prefix or new_prefix()
        super().__init__(folder)

    def make(self) -> Frontier:
        return RedisFrontier(self.url, self.folder / "frontier", prefix=self.prefix, strict=True, limits=self.limits)

    def restored(self, backup: Path) -> Bench:
        folder, prefix = self.folder / "restored", new_prefix()
        redis_backup.restore(self.url, backup, folder / "frontier", prefix=prefix, limits=self.limits)
        return RedisBench(folder, url=self.url, limits=self.limits, prefix=prefix)

    def close(self) -> None:
        super().close()
        forget(self.url, self.prefix)


def forget(url: str, prefix: str) -> None:
    with redis.Redis.from_url(url) as client:
        if keys := list(client.scan_iter(f"{{{prefix}}}:*", count=1000)):
            client.delete(*keys)
