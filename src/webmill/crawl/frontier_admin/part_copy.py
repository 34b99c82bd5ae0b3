"""The copy of a node's part of a crawl that runs, where nodes have a folder each.

Every node makes the copies of its own shards. Each shard holds its messages back from its copy on until the copies of
all are made, on all nodes (`cluster/copying.py`), and those in its inbox are copied, too: then the parts are of one
moment, as the copies of one folder are. A node whose crawl is not running takes part; its shards read nothing anyway.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from webmill.crawl.cluster.copying import NodesCopying
from webmill.crawl.frontier_admin.crawl_frontier import LOCK_WAIT, CrawlFrontier
from webmill.crawl.frontier_admin.shard_copies import (
    POLL_INTERVAL,
    HoldSignal,
    copy_messages,
    order_copies,
    shard_copy,
    wait_for_copies,
)
from webmill.crawl.scheduler.inbox import HOLD_FILE
from webmill.errors import Conflict, Unavailable
from webmill.infra import waiting
from webmill.infra.lock import exclusive

MAX_WAIT = 900.0  # for the next node to make its copies
Notice = Callable[[str], None]


def copy_part(crawl: CrawlFrontier, folder: Path, shards: list[int], *, notice: Notice) -> str:
    """Copy the shards whose files are here, and return the name of what all nodes copy together."""
    copying = crawl.backend.join_copying(shards)
    signal = HoldSignal(folder / HOLD_FILE)
    with ExitStack() as stack:
        try:
            stack.enter_context(exclusive(crawl.folder, "crawl", doing="copying the frontier", patience=LOCK_WAIT))
        except Conflict:  # the crawl runs here
            before = order_copies(crawl, folder, shards)
            wait_for_copies(crawl, folder, signal, shards, before=before, is_running=lambda: runs_here(crawl))
        else:
            copy_resting(crawl, folder, shards, signal)
        copying.note_copied()
        wait_for_nodes(copying, crawl.shards(), signal, notice=notice)
        for shard in shards:
            copy_messages(crawl, folder, shard, on_each=signal.renew)
    signal.end()
    return copying.name


def copy_resting(crawl: CrawlFrontier, folder: Path, shards: list[int], signal: HoldSignal) -> None:
    for shard in shards:
        with crawl.frontier(shard) as frontier:
            frontier.back_up(shard_copy(folder, shard))
        signal.renew()


def runs_here(crawl: CrawlFrontier) -> bool:
    try:
        with exclusive(crawl.folder, "crawl", doing="looking for a crawl", patience=0.0):
            return False
    except Conflict:
        return True


def wait_for_nodes(copying: NodesCopying, shards: int, signal: HoldSignal, *, notice: Notice) -> None:
    """Wait until the shards of all nodes have made their copies."""
    told, deadline = set[int](), time.monotonic() + MAX_WAIT
    while missing := set(range(shards)) - copying.copied():
        signal.renew()
        if missing != told:
            told, deadline = missing, time.monotonic() + MAX_WAIT
            names = ", ".join(map(str, sorted(missing)))
            notice(f"waiting for the copies of shards {names}: run this on the nodes that have their files, too")
        if time.monotonic() > deadline:
            raise Unavailable(f"no node has copied shards {', '.join(map(str, sorted(missing)))}: make this again")
        waiting.sleep(POLL_INTERVAL)
