"""Join a crawl on many nodes, or begin one: a slot in the folder, files repaired, seeds sent."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from webmill.crawl.cluster.cluster_state import ClusterState, CrawlRun, NodeInfo
from webmill.crawl.cluster.node import ClusterNode, SeedList
from webmill.crawl.failed_seeds import FailedSeed, find_failed_seeds
from webmill.crawl.layout import MAX_SHARDS, CrawlFolder, CrawlLayout, read_layout, write_layout
from webmill.crawl.options import CrawlOptions
from webmill.crawl.progress import CrawlProgress, has_no_page, sum_progress
from webmill.crawl.reload import ReloadedSettings
from webmill.crawl.scheduler.commands import ResumeCrawl
from webmill.crawl.scheduler.inbox import publish_command
from webmill.crawl.start import CrawlRunReport, NoSeeds, RunWatcher, run_crawl, send_seeds
from webmill.crawl.status_file import StatusFile
from webmill.errors import Conflict, Misconfigured, Unavailable
from webmill.infra import atomic
from webmill.infra.lock import exclusive, shared

log = logging.getLogger(__name__)

DEFAULT_SHARDS = 8
MAX_NODES_PER_FOLDER = 64  # nodes on one machine with one folder


class NodeTerms(msgspec.Struct, frozen=True, kw_only=True):
    """How a node takes part. `flags` and `limits` are what all must agree on."""

    flags: Mapping[str, Any] = {}
    limits: Mapping[str, Any] = {}
    shards: int | None = None  # None: as many as there are, or the usual number
    min_nodes: int = 1  # before the first shard is taken
    rebuilds: bool = False


def crawl_as_node(
    options: CrawlOptions,
    seeds: Iterable[str],
    *,
    cluster: ClusterState,
    terms: NodeTerms,
    watcher: RunWatcher = RunWatcher(),  # noqa: B008 - it is frozen
    reload: Callable[[CrawlRun], ReloadedSettings] | None = None,
) -> CrawlRunReport:
    """Take part in a crawl until it ends or this node is stopped. `seeds` are normalised URLs. `reload` returns the
    settings that a person has told all nodes."""
    started, folder = time.monotonic(), options.folder
    atomic.make_folder(folder.path)
    with shared(folder.path, "crawl", doing="crawling", patience=1.0), node_slot(folder.path) as slot:
        folder_id = read_folder_id(folder.path)
        info = NodeInfo(
            id=secrets.token_hex(4),
            folder=folder_id,
            slot=f"{folder_id}/{slot}",
            host=socket.gethostname(),
            pid=os.getpid(),
            rebuilds=terms.rebuilds,
        )
        shards = load_or_create_cluster_layout(folder, cluster, terms.shards)
        options.archive.recover()
        urls = list(seeds)
        cluster.add_seeds(urls)  # scopes are made from all seeds: they are known before the first is fetched
        sent = send_seeds(urls, folder, shards, open_inbox=cluster.open_inbox)
        count = write_seeds(folder, cluster)
        is_dead = dead_nodes_of(folder.path, own=slot)
        run = cluster.join(info, flags=terms.flags, limits=terms.limits, is_dead=is_dead)
        status = StatusFile(folder.path, name=folder.collection.name, started=time.time(), clock=time.time, slot=slot)
        node = ClusterNode(
            msgspec.structs.replace(options, node=info.id),
            shards,
            cluster=cluster,
            info=info,
            run=run,
            seeds=SeedList(count, lambda: write_seeds(folder, cluster)),
            min_nodes=terms.min_nodes,
            reload=reload,
        )
        if run.id == info.id:  # whoever starts a crawl wants it to run
            for shard in range(shards):
                publish_command(cluster.open_inbox(folder.inbox(shard)), ResumeCrawl())
        end, total = run_crawl(node, options, status, watcher)
        failed = [] if end == "stopped" else find_seeds_without_page(cluster, options, total, node=info.id)
        return CrawlRunReport(end=end, total=total, seconds=time.monotonic() - started, seeds=sent, failed_seeds=failed)


def find_seeds_without_page(
    cluster: ClusterState, options: CrawlOptions, here: CrawlProgress, *, node: str
) -> list[FailedSeed]:
    """Return why each seed gave no page, if no node has one. Every node of the run finds the same."""
    folder = options.folder
    try:
        reports = cluster.view().reports
        total = sum_progress([here, *(report.progress for report in reports.values() if report.node != node)])
        if not has_no_page(total):
            return []
        shards = cluster.layout(None, default=DEFAULT_SHARDS)
        return find_failed_seeds(
            total,
            folder.seeds,
            shards=shards,
            find_visits=lambda shard, urls: [cluster.visit(folder.shard(shard).name, url) for url in urls],
        )
    except Unavailable as error:  # the run has ended all the same
        log.warning("cannot tell why seeds failed", extra={"why": str(error)})
        return []


@contextmanager
def node_slot(folder: Path) -> Iterator[str]:
    """Take a slot among the nodes of this machine that have this folder. Who held it before is dead."""
    for number in range(MAX_NODES_PER_FOLDER):
        slot = f"{socket.gethostname()}-{number}"
        with ExitStack() as held:
            try:
                held.enter_context(exclusive(folder, f"node-{slot}", doing="crawling"))
            except Conflict:
                continue
            yield slot
            return
    raise Misconfigured(f"{MAX_NODES_PER_FOLDER} nodes crawl in {folder} already")


def dead_nodes_of(folder: Path, *, own: str = "") -> Callable[[NodeInfo], bool]:
    """Return what tells which nodes of this machine and folder are dead: their slots are free, or ours (`own`)."""

    def is_dead(node: NodeInfo) -> bool:
        folder_id, _, slot = node.slot.partition("/")
        file = folder / "place"
        if node.host != socket.gethostname() or not file.exists() or folder_id != file.read_text().strip():
            return False
        try:
            with exclusive(folder, f"node-{slot}", doing="crawling"):
                return True
        except Conflict:
            return slot == own

    return is_dead


def read_folder_id(folder: Path) -> str:
    """Return what tells this folder from one of the same path on another machine."""
    path = folder / "place"
    try:
        atomic.create_exclusive(path, secrets.token_hex(8).encode())
    except Conflict:
        pass
    return path.read_text().strip()


def load_or_create_cluster_layout(folder: CrawlFolder, cluster: ClusterState, shards: int | None) -> int:
    """Return the number of shards, as the crawl in Redis has it. A folder that has begun another crawl is refused."""
    if shards and shards > MAX_SHARDS:
        raise Misconfigured(f"{shards} shards: at most {MAX_SHARDS}")
    root = folder.collection.root
    layout = read_layout(folder) if folder.layout.exists() else None
    if layout and not layout.on_nodes:
        raise Misconfigured(f"the crawl in {root} keeps its frontier there: leave --frontier out")
    count = cluster.layout(shards, default=DEFAULT_SHARDS)
    if layout and layout.shards != count:
        message = f"the crawl in {root} has {layout.shards} shards, that in Redis {count}: "
        raise Misconfigured(message + "it is another one; name the right Redis, or crawl into another DIR")
    if not layout:
        write_layout(folder, CrawlLayout(count, folder.collection.name, on_nodes=True))
    return count


def write_seeds(folder: CrawlFolder, cluster: ClusterState) -> int:
    """Write the seeds of all nodes to this node's list, and return how many there are."""
    urls = sorted(set(cluster.seeds()))
    if not urls:
        raise NoSeeds("no seed is a URL that can be fetched")
    atomic.write_bytes(folder.seeds, "".join(f"{url}\n" for url in urls).encode())
    return len(urls)
