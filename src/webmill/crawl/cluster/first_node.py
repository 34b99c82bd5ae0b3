"""A node that comes before the one that begins the crawl: machines that are started together come in any order."""

from __future__ import annotations

import time
from collections.abc import Callable

from webmill.crawl.cluster.cluster_state import ClusterState
from webmill.errors import WrongUse
from webmill.infra import waiting

POLL_INTERVAL = 0.5  # seconds


def await_first_node(
    cluster: ClusterState, *, notice: Callable[[str], None], is_stopped: Callable[[], bool], patience: float
) -> None:
    """Wait until the crawl has begun. WrongUse: nobody has begun it for so long, or this node was stopped."""
    if cluster.has_seeds():
        return
    notice(f"no node has begun the crawl {cluster.name} yet: waiting up to {patience:.0f}s for one that does")
    deadline = time.monotonic() + patience
    while not (cluster.has_seeds() and cluster.view().run):  # its flags come after its seeds
        if is_stopped():
            raise WrongUse(f"stopped before a node has begun the crawl {cluster.name}")
        if time.monotonic() >= deadline:
            raise WrongUse(
                f"there is no crawl {cluster.name} in this Redis yet: name a URL to begin with, or --seeds FILE; "
                f"nobody has begun it for {patience:.0f}s (--join-wait)"
            )
        waiting.sleep(POLL_INTERVAL)
