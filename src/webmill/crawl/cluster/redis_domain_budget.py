"""Pages that the domains of a shard have given, in Redis: whoever takes the shard over knows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from webmill.crawl.frontier.redis.server import Server


class RedisQuota:
    """On a connection that others use, too."""

    def __init__(self, server: Server, key: str, *, limit: int | None) -> None:
        self._server, self._key, self.limit = server, key, limit

    def left(self, domains: Iterable[str]) -> dict[str, int] | None:
        if self.limit is None:
            return None
        names = list(domains)
        given = self._server.ask("HMGET", self._key, *names) if names else ()
        return {name: max(0, self.limit - int(pages or 0)) for name, pages in zip(names, given, strict=True)}

    def count(self, pages: Counter[str]) -> None:
        """Counted twice when its answer was lost: too many, so that the limit is never passed."""
        self._server.ask_all(("HINCRBY", self._key, domain, number) for domain, number in pages.items())

    def close(self) -> None:
        pass
