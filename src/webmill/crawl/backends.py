"""What the processes of a crawl open for themselves: files and SQLite in the collection, or redis://HOST:PORT/0.

With Redis, the files of a frontier stay on their machines and the coordination is there.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from webmill.crawl.frontier.base import Frontier
from webmill.crawl.options import CrawlBackends
from webmill.crawl.scheduler.budgets import DomainBudget
from webmill.crawl.scheduler.inbox import ShardInbox
from webmill.errors import Misconfigured
from webmill.infra.address import scheme_of
from webmill.infra.host_schedule.fixed_delays import HostSchedule
from webmill.infra.storage.backends import open_storage

if TYPE_CHECKING:  # every crawl imports this file, and most would wait for Redis in vain
    from webmill.crawl.cluster.cluster_state import ClusterState


def crawl_backends(
    frontier: str | None = None,
    *,
    name: str = "",
    strict: bool = False,
    rebuild: bool = False,
    backup: str | None = None,
) -> CrawlBackends:
    """Return how the processes of a crawl open their state: on one machine, or on nodes whose `frontier` is a Redis.

    `rebuild`: rebuild shards whose files are lost, from Redis and a `backup`.
    """
    if frontier is None:
        return CrawlBackends(
            open_frontier=open_local_frontier,
            open_inbox=open_inbox,
            open_host_schedule=open_host_schedule,
            open_domain_budget=open_domain_budget,
        )
    from webmill.crawl.cluster.redis_backends import RedisBackends
    from webmill.crawl.scheduler.inbox import PausableInboxOpener

    check_redis(frontier)
    open_backup = partial(open_storage, backup) if backup else None
    redis = RedisBackends(frontier, name, strict=strict, rebuild=rebuild, open_backup=open_backup)
    return CrawlBackends(
        open_frontier=redis.open_frontier,
        open_inbox=PausableInboxOpener(redis.open_inbox),
        open_host_schedule=redis.open_host_schedule,
        open_domain_budget=redis.open_domain_budget,
    )


def open_cluster(url: str, *, name: str) -> ClusterState:
    """Return the shared state of the crawl `name` in Redis."""
    from webmill.crawl.cluster.cluster_state import ClusterState

    check_redis(url)
    return ClusterState(url, name)


def check_redis(url: str) -> None:
    if scheme_of(url)[0] not in ("redis", "rediss", "unix"):
        raise Misconfigured(f"a frontier cannot be kept at {scheme_of(url)[0]}:…: give redis://HOST:PORT/0")


def open_local_frontier(folder: Path) -> Frontier:
    from webmill.crawl.frontier.local import LocalFrontier

    return LocalFrontier(folder)


def open_inbox(file: Path) -> ShardInbox:
    from webmill.crawl.scheduler.inbox import PausableInbox, SqliteInbox

    return PausableInbox(SqliteInbox(file), file)


def open_host_schedule(file: Path) -> HostSchedule:
    from webmill.infra.host_schedule.sqlite_schedule import SqliteHostSchedule

    return SqliteHostSchedule(file)


def open_domain_budget(file: Path, limit: int | None) -> DomainBudget:
    from webmill.crawl.scheduler.budgets import SqliteDomainBudget

    return SqliteDomainBudget(file, limit=limit)
