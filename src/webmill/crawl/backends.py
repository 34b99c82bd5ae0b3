"""What the processes of a crawl open for themselves: files and SQLite in the collection, or redis://HOST:PORT/0.

With Redis, the files of a frontier stay on their machines and the coordination is there.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from webmill.crawl.frontier.base import Frontier
from webmill.crawl.options import Backends
from webmill.crawl.politeness.host_schedule import GateBook
from webmill.crawl.scheduler.domain_budget import Quota
from webmill.crawl.scheduler.inbox import Box
from webmill.errors import Misconfigured
from webmill.infra.address import scheme_of
from webmill.infra.storage.backends import open_storage

if TYPE_CHECKING:  # every crawl imports this file, and most would wait for Redis in vain
    from webmill.crawl.cluster.cluster_state import Meeting


def crawl_backends(
    frontier: str | None = None,
    *,
    name: str = "",
    strict: bool = False,
    rebuild: bool = False,
    backup: str | None = None,
) -> Backends:
    """What the processes of a crawl open for themselves: on one machine, or on nodes whose `frontier` is a Redis.

    `rebuild`: there, shards whose files are lost, from Redis and a `backup`.
    """
    if frontier is None:
        return Backends(frontier=open_local_frontier, box=open_letter_box, gates=open_gates, quota=open_quota)
    from webmill.crawl.cluster.redis_backends import RedisParts
    from webmill.crawl.frontier_admin.held import HeldBoxes

    check_redis(frontier)
    open_backup = partial(open_storage, backup) if backup else None
    parts = RedisParts(frontier, name, strict=strict, rebuild=rebuild, open_backup=open_backup)
    return Backends(frontier=parts.frontier, box=HeldBoxes(parts.box), gates=parts.gates, quota=parts.quota)


def open_meeting(url: str, *, name: str) -> Meeting:
    """Where the nodes of the crawl `name` meet."""
    from webmill.crawl.cluster.cluster_state import Meeting

    check_redis(url)
    return Meeting(url, name)


def check_redis(url: str) -> None:
    if scheme_of(url)[0] not in ("redis", "rediss", "unix"):
        raise Misconfigured(f"no frontier can be at {scheme_of(url)[0]}:…: give redis://HOST:PORT/0")


def open_local_frontier(folder: Path) -> Frontier:
    from webmill.crawl.frontier.local import LocalFrontier

    return LocalFrontier(folder)


def open_letter_box(file: Path) -> Box:
    from webmill.crawl.frontier_admin.held import HeldBox
    from webmill.crawl.scheduler.sqlite_inbox import SqliteBox

    return HeldBox(SqliteBox(file), file)


def open_gates(file: Path) -> GateBook:
    from webmill.crawl.politeness.host_schedule import Gates

    return Gates(file)


def open_quota(file: Path, limit: int | None) -> Quota:
    from webmill.crawl.scheduler.domain_budget import SqliteQuota

    return SqliteQuota(file, limit=limit)
