"""How the contract opens frontiers on a real Redis: with a filter of bitmaps, and with tiny limits."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from tests.contracts.frontier_benches import TINY, Bench
from webmill.crawl.frontier.base import Frontier
from webmill.crawl.frontier.local import Limits
from webmill.crawl.frontier.redis import RedisFrontier

_numbers = itertools.count()


class RedisBench(Bench):
    limits: Limits | None = None
    url = ""

    def __init__(self, folder: Path) -> None:
        self.prefix = f"webmill-test-{os.getpid()}-{next(_numbers)}"
        super().__init__(folder)

    def make(self) -> Frontier:
        return RedisFrontier(self.url, self.folder / "frontier", prefix=self.prefix, limits=self.limits)

    def close(self) -> None:
        super().close()
        forget(self.url, self.prefix)


class TinyRedisBench(RedisBench):
    limits = TINY


def forget(url: str, prefix: str) -> None:
    import redis

    with redis.Redis.from_url(url) as client:
        if keys := list(client.scan_iter(f"{{{prefix}}}:*", count=1000)):
            client.delete(*keys)
