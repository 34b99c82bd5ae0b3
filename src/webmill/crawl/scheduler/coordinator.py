"""The parent of a crawl's processes: who may fetch how much, whether all is done, what a person sees.

Every process has a shard: the domains whose hash falls to it, with files and a frontier of its own. The parent fetches
nothing. It hands out the pages of `--max-pages` in small grants, so that the sum is exact whoever dies, starts again
what died, and ends the crawl when it is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec

from webmill.crawl.control import RunControl
from webmill.crawl.options import CrawlLimits, CrawlOptions
from webmill.crawl.progress import CrawlProgress
from webmill.crawl.reload import ReloadedSettings
from webmill.crawl.scheduler.shard_processes import (
    RENEWAL_GRACE,
    STOP_GRACE,
    ShardHandle,
    ShardProcesses,
    StartProcess,
    start_process,
)

TIME_GRACE = 3.0  # seconds for requests under way when the time is over: whoever gives a time wants it kept
LARGEST_GRANT = 256  # pages handed out at once, at most

Show = Callable[[CrawlProgress], None]
CrawlEnd = Literal["finished", "waiting", "pages", "seconds", "bytes", "stopped"]


class Coordinator(Protocol):
    """Whoever runs the processes of a crawl: alone on its machine, or as a node of many."""

    processes: ShardProcesses
    is_stopping: bool

    def start(self) -> None:
        """Begin the run."""
        ...

    def on_exit(self, handle: ShardHandle) -> None:
        """Decide what becomes of a shard whose process has ended."""
        ...

    def find_end(self) -> CrawlEnd | None: ...

    def grant_pages(self) -> None: ...

    def total(self) -> CrawlProgress:
        """Return the progress to show."""
        ...

    def close(self) -> None:
        """End the run: all processes have ended."""
        ...

    def stop(self) -> None:
        """Ask for the end of the run, in good order. May be called from a signal handler."""
        ...

    def kill(self) -> None:
        """End the run at once."""
        ...


def run_until_done(coordinator: Coordinator, *, show: Show) -> CrawlEnd:
    """Run a crawl to its end. `show` is called about ten times a second with the progress."""
    processes, grace = coordinator.processes, STOP_GRACE

    def show_stopping() -> None:
        if coordinator.is_stopping:
            total = coordinator.total()
            total.is_stopping = True
            show(total)

    try:
        coordinator.start()
        while True:
            for handle in processes.poll():
                coordinator.on_exit(handle)
            show(coordinator.total())
            if coordinator.is_stopping:
                return "stopped"
            if end := coordinator.find_end():
                grace = TIME_GRACE if end == "seconds" else STOP_GRACE
                return end
            coordinator.grant_pages()
    finally:
        processes.stop(grace=grace, on_tick=show_stopping)
        coordinator.close()


class LocalCoordinator:
    """Runs a crawl on one machine."""

    def __init__(
        self,
        options: CrawlOptions,
        shards: int,
        *,
        control: RunControl | None = None,
        start: StartProcess = start_process,
    ) -> None:
        self._limits, self._shards, self._control = options.limits, shards, control
        self.processes = ShardProcesses(options, shards, start=start)
        self._renewing: set[int] = set()  # shards whose processes end to begin again
        self._detector = CompletionDetector(options.limits, page_resources=options.rules.page_resources)
        self._started = 0.0
        self.is_stopping = False

    def start(self) -> None:
        self._started = time.monotonic()
        for shard in range(self._shards):
            self.processes.add(shard)

    def close(self) -> None:
        """Nothing is left to do."""

    def stop(self) -> None:
        self.is_stopping = True

    def kill(self) -> None:
        self.is_stopping = True
        self.processes.kill()

    def total(self) -> CrawlProgress:
        return self.processes.total()

    def on_exit(self, handle: ShardHandle) -> None:
        if handle.shard in self._renewing and not (handle.failure or self.is_stopping):
            self._renewing.discard(handle.shard)
            handle.restarts.mark_healthy()
            self.processes.start(handle)
        elif handle.failure or not self.is_stopping:
            self.processes.restart(handle)

    def apply(self, reloaded: ReloadedSettings) -> None:
        """Go on with other settings: from now on nothing is begun with those of before."""
        options = reloaded.options
        self._limits, probe = options.limits, self._detector.probe
        self._detector = CompletionDetector(options.limits, page_resources=options.rules.page_resources)
        self._detector.continue_from(probe)
        self.processes.change_options(options)
        if reloaded.renews_processes:
            for handle in self.processes:
                self._renewing.add(handle.shard)
                handle.stop(grace=RENEWAL_GRACE)

    def grant_pages(self) -> None:
        """Grant pages to shards that have due work; when none are left, take them back from those that have not."""
        limit = self._limits.pages
        if limit is None or not self.processes.have_reported:
            return
        left = limit - sum(handle.promised or 0 for handle in self.processes)
        size = max(1, min(LARGEST_GRANT, left // (2 * self._shards)))
        for handle in self.processes:
            if left > 0 and handle.wants_pages(size):
                granted = min(size, left)
                left -= granted
                handle.grant((handle.promised or 0) + granted)
        hungry = (handle for handle in self.processes if handle.progress.has_due_work)
        if left <= 0 and any(handle.unused_pages <= 0 for handle in hungry):
            for handle in self.processes:
                handle.revoke_unused()

    def find_end(self) -> CrawlEnd | None:
        if self._control:
            self._control.poll(stop=self.stop, apply=self.apply)
        states = [ShardState((handle.shard, handle.starts), handle.progress) for handle in self.processes]
        end = self._detector.find_end(
            states if self.processes.have_reported else None,
            seconds=time.monotonic() - self._started,
            bytes_=self.processes.total().bytes,
        )
        self.processes.send_probe(self._detector.probe)
        return end


class ShardState(msgspec.Struct, frozen=True):
    """The progress of a shard, and which process reports it."""

    process: tuple[object, ...]
    progress: CrawlProgress


class CompletionDetector:
    """Finds the end of a crawl. `probe` is to be sent to all shards: each answers with what it finds after it.

    When two probes find all shards idle, and no process has done anything in between, no message can be on its way.
    """

    def __init__(self, limits: CrawlLimits, *, page_resources: bool = False) -> None:
        self._limits, self._fetches_resources = limits, page_resources
        self.probe = 0
        self._last_work: tuple[object, ...] | None = None

    def continue_from(self, probe: int) -> None:
        """Go on with the probes of another detector."""
        if probe > self.probe:
            self.probe, self._last_work = probe, None

    def find_end(self, shards: Sequence[ShardState] | None, *, seconds: float, bytes_: int) -> CrawlEnd | None:
        """Return why the crawl is over, or None. `shards`: all of them; None when one has not reported yet."""
        limits = self._limits
        if limits.seconds is not None and seconds >= limits.seconds:
            return "seconds"
        if limits.bytes is not None and bytes_ >= limits.bytes:
            return "bytes"
        if shards is None:
            return None
        progress = [shard.progress for shard in shards]
        if limits.pages is not None and sum(one.pages for one in progress) >= limits.pages:
            has_more = self._fetches_resources or any(one.revisits_left for one in progress)
            are_idle = all(one.is_exhausted and (one.is_idle or not one.revisits_left) for one in progress)
            return "pages" if not has_more or self._is_quiet(shards, are_idle=are_idle) else None
        if not self._is_quiet(shards, are_idle=all(one.is_idle for one in progress)):
            return None
        return "finished" if all(one.next_due is None for one in progress) else "waiting"

    def _is_quiet(self, shards: Sequence[ShardState], *, are_idle: bool) -> bool:
        if not are_idle:
            self._last_work = None
            return False
        if any(shard.progress.probe < self.probe for shard in shards):
            return False
        work = tuple((shard.process, shard.progress.work) for shard in shards)
        is_quiet = self._last_work == work
        self._last_work = work
        self.probe += 1
        return is_quiet
