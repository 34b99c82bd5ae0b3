"""One node of a crawl on many: the processes of the shards that it owns now.

It exchanges reports with the others through Redis twice a second. It takes shards that nobody owns, up to its share,
and gives back what is above it; starts a process for each that it owns; and ends with the others, when the owner of the
first shard says so. A shard has one owner at a time: its frontier sees to that, whatever a node believes.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable

import msgspec

from webmill.crawl.cluster.cluster_state import ClusterState, ClusterView, CrawlRun, NodeInfo, NodeReport, ShardReport
from webmill.crawl.cluster.shard_assignment import assign_shards
from webmill.crawl.control import record_event
from webmill.crawl.options import CrawlOptions
from webmill.crawl.progress import ClusterProgress, CrawlProgress
from webmill.crawl.reload import ReloadedSettings
from webmill.crawl.scheduler.coordinator import LARGEST_GRANT, CompletionDetector, CrawlEnd, ShardState
from webmill.crawl.scheduler.shard_processes import (
    RENEWAL_GRACE,
    ShardHandle,
    ShardProcesses,
    StartProcess,
    start_process,
)
from webmill.errors import Conflict, Misconfigured, Unavailable, WebmillError
from webmill.masking import hide_secrets

log = logging.getLogger(__name__)

EXCHANGE_INTERVAL = 0.5  # seconds
REOPEN_PAUSE = 2.0  # seconds before a shard that could not be opened is tried again


class SeedList(msgspec.Struct, frozen=True):
    """The seeds that scopes are made from: how many, and how to read them again when there are more."""

    count: int
    reload: Callable[[], int]


class ClusterNode:
    """Coordinates the shards of one node. `min_nodes` must be there before it takes a shard for the first time."""

    def __init__(
        self,
        options: CrawlOptions,
        shards: int,
        *,
        cluster: ClusterState,
        info: NodeInfo,
        run: CrawlRun,
        seeds: SeedList,
        min_nodes: int = 1,
        reload: Callable[[CrawlRun], ReloadedSettings] | None = None,
        start: StartProcess = start_process,
    ) -> None:
        self._reload, self._revision = reload, run.revision
        self._options, self._shards = options, shards
        self._cluster, self._info, self._run = cluster, info, run
        self._seeds, self._min_nodes = seeds, min_nodes
        self.processes = ShardProcesses(options, shards, start=start)
        self.is_stopping = False
        self._detector = self._new_detector()
        self._detected_end = ""
        self._view: ClusterView | None = None
        self._end: CrawlEnd | None = None
        self._next_exchange = 0.0
        self._notice = ""
        self._stuck_since: float | None = None
        self._starts: Counter[int] = Counter()
        self._reopen_at: dict[int, float] = {}
        self._take: list[int] = []
        self._drop: set[int] = set()
        self._leaving: set[int] = set()  # shards whose processes end, to be given back
        self._renewing: set[int] = set()  # and those that end to begin again
        self._published: dict[int, int] = {}  # what the others know to be promised

    def start(self) -> None:
        """Wait for the first exchange: it tells which shards to start."""

    def stop(self) -> None:
        self.is_stopping = True

    def kill(self) -> None:
        self.is_stopping = True
        self.processes.kill()

    def find_end(self) -> CrawlEnd | None:
        if time.monotonic() >= self._next_exchange:
            self._next_exchange = time.monotonic() + EXCHANGE_INTERVAL
            self._exchange()
        return self._end

    def total(self) -> CrawlProgress:
        total, view = self.processes.total(), self._view
        if view:
            total.nodes = ClusterProgress(
                nodes=len(view.living),
                shards=self._shards,
                shards_here=len(self.processes),
                shards_nowhere=sum(view.owner(shard) is None for shard in range(self._shards)),
                pages=sum(report.progress.pages for report in view.reports.values()),
                notice=self._notice,
            )
        return total

    def close(self) -> None:
        """Leave the cluster."""
        try:
            self._cluster.leave(self._info)
        except WebmillError as error:  # the others find out
            log.warning("could not leave the cluster", extra={"why": str(error)})

    # --- the exchange with the others ---

    def _exchange(self) -> None:
        report = self._make_report()
        try:
            view = self._cluster.exchange(self._info, report)
        except Unavailable as error:
            if not self._notice:
                log.warning("Redis does not answer", extra={"why": str(error)})
            self._notice = str(error)
            return
        self._view = view
        self._published.update({int(shard): pages for shard, pages in report.promised.items()})
        self._drop -= set(map(int, report.drop))
        self._follow(view)

    def _make_report(self) -> NodeReport:
        reported = [handle for handle in self.processes if handle.promised is not None]
        return NodeReport(
            take=[str(shard) for shard in self._take],
            drop=[str(shard) for shard in self._drop],
            records={str(handle.shard): self._shard_report(handle) for handle in reported},
            promised=self._new_promises(reported),
            bytes=self.processes.total().bytes,
            starving=self._is_starving(),
            probe=self._detector.probe,
            end=self._detected_end,
        )

    def _shard_report(self, handle: ShardHandle) -> str:
        report = ShardReport(node=self._info.id, start=handle.starts, progress=handle.progress)
        return msgspec.json.encode(report).decode()

    def _follow(self, view: ClusterView) -> None:
        """Do what follows from how all nodes stand."""
        if view.run is None or view.run.id != self._run.id:
            raise Conflict("this crawl was begun anew while this node was cut off: start it again")
        if view.run.end:
            self._end = msgspec.convert(view.run.end, CrawlEnd)
            return
        self._reload_settings(view.run)
        self._balance(view)
        self._reload_seeds(view)
        self.processes.send_probe(view.run.probe)
        if view.starving:
            for handle in self.processes:
                handle.revoke_unused()
        if view.owner(0) == self._info.id:
            self._detect_end(view, view.run)
        else:
            self._detector, self._detected_end = self._new_detector(), ""

    def _detect_end(self, view: ClusterView, run: CrawlRun) -> None:
        """Decide for all nodes whether the crawl is over: the owner of the first shard does."""
        self._detector.continue_from(run.probe)
        states = shard_states(view, self._shards)
        end = self._detector.find_end(states, seconds=view.now - run.started, bytes_=view.bytes)
        self._detected_end = self._detected_end or end or ""

    def _new_detector(self) -> CompletionDetector:
        return CompletionDetector(self._options.limits, page_resources=self._options.rules.page_resources)

    # --- shards ---

    def _balance(self, view: ClusterView) -> None:
        mine = {shard for shard in range(self._shards) if view.owners.get(shard) == self._info.id}
        plan = assign_shards(view, self._shards)
        if not mine and len(view.living) < self._min_nodes:
            self._notice = f"{len(view.living)} of {self._min_nodes} nodes are here: the crawl waits for the others"
            return
        self._min_nodes = 1
        self._notice = self._check_missing(view, plan)
        self._take = [shard for shard, node in plan.items() if node == self._info.id and shard not in mine]
        if self._take:
            self._next_exchange = 0.0
        for handle in self.processes:
            shard = handle.shard
            if shard not in self._leaving and (shard not in mine or plan.get(shard) != self._info.id):
                log.info("giving a shard back", extra={"shard": shard, "to": plan.get(shard)})
                self._leaving.add(shard)
                handle.stop()
        for shard in mine - {handle.shard for handle in self.processes} - self._drop:
            if time.monotonic() >= self._reopen_at.get(shard, 0.0):
                log.info("starting a shard", extra={"shard": shard})
                self._published.pop(shard, None)
                self.processes.add(shard, starts=self._starts[shard])

    def on_exit(self, handle: ShardHandle) -> None:
        shard = handle.shard
        if shard in self._leaving:
            self._leaving.discard(shard)
            self._drop.add(shard)
            self._forget(handle)
        elif shard in self._renewing or (handle.failure and handle.may_come_back):
            if shard not in self._renewing:  # another has it, or Redis is away or went back: the next exchange tells
                log.warning("lost a shard", extra={"shard": shard, "why": handle.failure})
                self._reopen_at[shard] = time.monotonic() + REOPEN_PAUSE
            self._renewing.discard(shard)
            self._forget(handle)
        elif handle.failure or not self.is_stopping:
            self._published.pop(shard, None)
            self.processes.restart(handle)

    def _forget(self, handle: ShardHandle) -> None:
        self.processes.remove(handle)
        self._starts[handle.shard] = handle.starts
        self._published.pop(handle.shard, None)
        self._next_exchange = 0.0

    def _check_missing(self, view: ClusterView, plan: dict[int, str]) -> str:
        """Return a notice about shards whose files no node has. When all else is done, only the operator can help."""
        lost = [shard for shard in range(self._shards) if shard not in plan]
        if not lost:
            self._stuck_since = None
            return ""
        message = (
            f"the files of shards {', '.join(map(str, lost))} are in a folder that no node has: start a node there, "
            "or one with --lost-files rebuild, which goes on with what Redis and the last backup know"
        )
        reports = [report for shard, report in view.reports.items() if shard in plan]
        if len(reports) < len(plan) or not all(report.progress.is_idle for report in reports):
            self._stuck_since = None
        elif self._stuck_since is None:
            self._stuck_since = time.monotonic()
        elif time.monotonic() - self._stuck_since > self._cluster.life:
            raise Misconfigured(message)
        return message

    def _reload_settings(self, run: CrawlRun) -> None:
        """Go on with the settings that a person has told all nodes. Where they cannot be had, those of before stay."""
        if run.revision == self._revision or self._reload is None:
            return
        self._revision = run.revision
        folder = self._options.folder.path
        try:
            reloaded = self._reload(run)
        except Unavailable as error:
            log.warning("Redis does not answer", extra={"why": str(error)})
            self._revision = -1  # the next exchange tries again
            return
        except WebmillError as error:
            record_event(folder, "reload", by="the crawl", details=f"refused: {hide_secrets(str(error))}", failed=True)
            log.error("the new settings are refused", extra={"why": str(error)})
            return
        self._options = msgspec.structs.replace(reloaded.options, node=self._info.id)
        self.processes.change_options(self._options)
        self._detector = self._new_detector()
        if reloaded.renews_processes:
            self._renew_processes()
        record_event(folder, "reload", by="the crawl", details=reloaded.describe())

    def _renew_processes(self) -> None:
        """Let processes end, to begin again with what they are told now."""
        for handle in self.processes:
            if handle.shard not in self._leaving:
                self._renewing.add(handle.shard)
                handle.stop(grace=RENEWAL_GRACE)

    def _reload_seeds(self, view: ClusterView) -> None:
        """What is in scope follows from the seeds: processes begin again when there are new ones."""
        if view.seeds == self._seeds.count:
            return
        self._seeds = msgspec.structs.replace(self._seeds, count=self._seeds.reload())
        self._renew_processes()

    # --- pages ---

    def _new_promises(self, handles: list[ShardHandle]) -> dict[str, int]:
        if self._options.limits.pages is None:
            return {}
        return {
            str(handle.shard): handle.promised
            for handle in handles
            if handle.promised is not None and handle.promised != self._published.get(handle.shard)
        }

    def grant_pages(self) -> None:
        limit = self._options.limits.pages
        if limit is not None and (pages := self._wanted_pages(limit)):
            try:
                granted = self._cluster.grant(self._info, pages, limit=limit, shards=self._shards)
            except Unavailable:  # maybe they were granted: say again what is promised
                for shard in pages:
                    self._published.pop(shard, None)
                return
            for handle in self.processes:
                if promised := granted.get(handle.shard):
                    self._published[handle.shard] = promised
                    handle.grant(promised)

    def _wanted_pages(self, limit: int) -> dict[int, int]:
        left = self._pages_left(limit)
        size = max(1, min(LARGEST_GRANT, left // (2 * self._shards)))
        if left <= 0:
            return {}
        return {
            handle.shard: size
            for handle in self.processes
            if handle.wants_pages(size) and handle.promised == self._published.get(handle.shard)
        }

    def _pages_left(self, limit: int) -> int:
        """Return how many pages nobody was promised, as of the last exchange."""
        view = self._view
        if view is None or len(view.promised) < self._shards:
            return 0
        return limit - sum(view.promised.values())

    def _is_starving(self) -> bool:
        limit = self._options.limits.pages
        if limit is None or self._view is None or len(self._view.promised) < self._shards:
            return False
        starves = any(handle.progress.has_due_work and handle.unused_pages <= 0 for handle in self.processes)
        return starves and self._pages_left(limit) <= 0


def shard_states(view: ClusterView, shards: int) -> list[ShardState] | None:
    """Return how all shards stand; None unless each has an owner that lives and has reported it."""
    found = [
        ShardState((report.node, report.start), report.progress)
        for shard in range(shards)
        if (report := view.reports.get(shard)) and report.node == view.owner(shard)
    ]
    return found if len(found) == shards else None
