"""Backups of a frontier in Redis: what waits in its files, and its keys. The exact set and the filter are made anew.

BACKUP/lanes.pack     the URLs that wait (`queue_backup`)
BACKUP/keys.frames    the commands that make the keys anew (`dump`)
"""

from __future__ import annotations

import secrets
from contextlib import closing
from pathlib import Path

from webmill.crawl.frontier import backup
from webmill.crawl.frontier.base import FrontierStats
from webmill.crawl.frontier.file_frontier import QUEUES_FOLDER, FrontierLimits
from webmill.crawl.frontier.queue_backup import QUEUES_FILE, restore_queues, write_queues
from webmill.crawl.frontier.redis.changes import ChangeSender
from webmill.crawl.frontier.redis.dump import JOURNAL, load_dump, scan_keys, write_dump
from webmill.crawl.frontier.redis.owner import REBUILD, REFILL, RESTORING, key_prefix, read_meta, write_facts
from webmill.crawl.frontier.redis.server import TIMEOUT, RedisServer
from webmill.crawl.frontier.redis.state import VERSION, RedisState
from webmill.crawl.frontier.url_queue_files import UrlQueueFiles
from webmill.errors import Conflict

BACKEND, KEYS = "redis", "keys.frames"


def back_up(
    folder: Path, *, server: RedisServer, state: RedisState, queues: UrlQueueFiles, id_: str, stats: FrontierStats
) -> None:
    """Back up a frontier, as its owner, between two updates."""
    with backup.create_folder(folder) as draft:
        state.changes.must_be_owner()
        write_queues(draft / QUEUES_FILE, state.all_domains(), queues)
        write_dump(draft / KEYS, server, state.key())
        state.changes.must_be_owner()  # else another may have changed them meanwhile
        facts = {"folder": id_, "change": str(state.changes.number)}
        backup.write_manifest(draft, backend=BACKEND, version=VERSION, stats=stats, facts=facts)


def restore(
    url: str, source: Path, folder: Path, *, prefix: str, limits: FrontierLimits | None = None, timeout: float = TIMEOUT
) -> None:
    """Make what was backed up to `source` a frontier under `prefix` and in `folder`, both of them unused.

    Whoever opens it first waits until all of it was read once.
    """
    manifest = backup.read_manifest(source, backend=BACKEND, version=VERSION)
    limits, id_, at = limits or FrontierLimits(), secrets.token_hex(16), key_prefix(prefix)
    with closing(RedisServer(url, timeout=timeout)) as server:
        server.promise()
        require_no_frontier(server, at)
        with backup.create_folder(folder) as draft:
            restore_queues(source / QUEUES_FILE, draft / QUEUES_FOLDER, size=limits.file)
            write_facts(draft, id=id_, joined="1", **{REBUILD: "1"})
            changes = start_restore(server, at, number=int(manifest.facts["change"]))
            load_dump(source / KEYS, changes, at)
        last = [("HSET", at + "meta", "folder", id_, REFILL, "1"), ("HDEL", at + "meta", RESTORING)]
        changes.make(last, then=None, is_claim=False)


def require_no_frontier(server: RedisServer, prefix: str) -> None:
    found = read_meta(server, prefix)
    if found and RESTORING not in found:
        message = f"there is a frontier {prefix} in Redis at {server.place}: "
        raise Conflict(message + "name another prefix, or delete its keys")


def start_restore(server: RedisServer, prefix: str, *, number: int) -> ChangeSender:
    """Start a restore, under an epoch that no former owner of keys of this name can have."""
    for page in scan_keys(server, prefix):  # of a restore that was cut short
        server.ask("UNLINK", *page)
    server.ask("DEL", prefix + JOURNAL, prefix + "meta")
    epoch = 1 + secrets.randbelow(1 << 48)
    server.ask("HSET", prefix + "meta", "epoch", epoch, "change", str(number), RESTORING, "1")
    return ChangeSender(server, prefix + "meta", epoch=epoch, number=number)
