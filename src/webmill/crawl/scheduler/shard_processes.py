"""The processes of a crawl on this machine: one for each shard, with what it has reported and was granted."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from webmill.crawl.options import CrawlOptions
from webmill.crawl.progress import COUNTS, CrawlProgress, sum_progress
from webmill.crawl.scheduler.shard_process import main
from webmill.errors import Misconfigured
from webmill.infra.supervisor import ProcessGroup, RestartPolicy, Restarts, SpawnedProcess, SupervisedProcess

log = logging.getLogger(__name__)

TICK = 0.1  # seconds
STOP_GRACE = 10.0  # seconds for requests that are under way when a process is asked to end
RENEWAL_GRACE = 2.0  # the same when it is to begin again with other settings: nobody waits for what takes long
STOP_PATIENCE = 60.0  # seconds for a process to end by itself
RESTARTS = RestartPolicy(max_deaths=5)  # of one shard in a row, without a page between them
PAST_COUNTS = ("fetched", "robots", "page_resources", "bytes", "links", "revisits", "seconds")


class ShardProcess(SupervisedProcess, Protocol):
    """The process of a shard, with messages to it and from it."""

    @property
    def has_ended(self) -> bool: ...

    @property
    def lived(self) -> float: ...

    def send(self, message: object) -> None: ...

    def receive(self) -> list[Any]: ...


StartProcess = Callable[[CrawlOptions, int, int], ShardProcess]


def start_process(options: CrawlOptions, shard: int, shards: int) -> SpawnedProcess:
    return SpawnedProcess(f"webmill-crawl-{shard:02d}", main, options, shard, shards)


class ShardHandle:
    """One shard and the process that runs it now."""

    def __init__(self, shard: int) -> None:
        self.shard = shard
        self.progress = CrawlProgress(shard=shard)
        self.past = CrawlProgress(shard=shard)  # what processes that died had counted
        self.promised: int | None = None  # pages in all; None until the process has reported how many it has
        self._revoked: int | None = None  # how often it had given pages back when it was asked to; None: it was not
        self.failure = ""  # what it said before it ended
        self.may_come_back = False  # what failed may pass
        self.restarts = Restarts(RESTARTS)
        self.starts = 0
        self.process: ShardProcess | None = None

    def begin(self, process: ShardProcess) -> None:
        """Note that a new process runs the shard."""
        self.past = sum_progress([self.past, self.progress])
        self.progress = CrawlProgress(shard=self.shard, pages=self.progress.pages, waiting=self.progress.waiting)
        self.promised = self._revoked = None
        self.failure, self.starts, self.process = "", self.starts + 1, process

    def send(self, *message: object) -> None:
        if self.process:
            self.process.send(message)

    def stop(self, *, grace: float = STOP_GRACE) -> None:
        """Ask the process to end."""
        self.send("stop", grace)

    def receive(self) -> None:
        """Take the process's messages."""
        for kind, value in self.process.receive() if self.process else ():
            if kind in ("failed", "lost"):
                self.failure, self.may_come_back = value, kind == "lost"
            else:
                self._update(value)

    def _update(self, progress: CrawlProgress) -> None:
        if self.promised is None:
            self.promised = progress.pages
        elif self._revoked is not None and progress.revoked > self._revoked:
            self.promised, self._revoked = progress.granted, None
        if progress.pages > self.progress.pages:
            self.restarts.mark_healthy()
        self.progress = progress

    # --- pages ---

    @property
    def unused_pages(self) -> int:
        """Return how many pages it was granted and has no use for yet."""
        return (self.promised or 0) - self.progress.pages - self.progress.in_hand

    @property
    def is_returning_pages(self) -> bool:
        return self._revoked is not None

    def wants_pages(self, size: int) -> bool:
        """Tell whether it could use a grant of `size` pages."""
        is_able = self.promised is not None and not self.is_returning_pages
        return is_able and self.progress.has_due_work and self.unused_pages < size / 2

    def grant(self, total: int) -> None:
        """Allow it `total` pages."""
        self.promised = total
        self.send("grant", total)

    def revoke_unused(self) -> None:
        """Ask it to give back pages that it has no use for."""
        is_able = self.promised is not None and not self.is_returning_pages
        if is_able and self.unused_pages > 0 and not self.progress.has_due_work:
            self._revoked = self.progress.revoked
            self.send("revoke")


class ShardProcesses:
    """The shards that run on this machine, of `shards` in all. A shard that is removed leaves its counts in `past`."""

    def __init__(self, options: CrawlOptions, shards: int, *, start: StartProcess = start_process) -> None:
        self._options, self._shards, self._start = options, shards, start
        self._group: ProcessGroup[ShardProcess] = ProcessGroup()
        self._handles: list[ShardHandle] = []
        self._past = CrawlProgress(shard=-1)

    def __iter__(self) -> Iterator[ShardHandle]:
        return iter(list(self._handles))

    def __len__(self) -> int:
        return len(self._handles)

    @property
    def have_reported(self) -> bool:
        return all(handle.promised is not None for handle in self._handles)

    def change_options(self, options: CrawlOptions) -> None:
        """Start processes with other options from now on."""
        self._options = options

    def add(self, shard: int, *, starts: int = 0) -> None:
        """Start a shard that was not here. `starts` counts its earlier processes."""
        handle = ShardHandle(shard)
        handle.starts = starts
        self._handles.append(handle)
        self.start(handle)

    def start(self, handle: ShardHandle) -> None:
        handle.begin(self._group.add(self._start(self._options, handle.shard, self._shards)))

    def remove(self, handle: ShardHandle) -> None:
        """Forget a shard whose process has ended."""
        self._handles.remove(handle)
        self._past = sum_progress([self._past, handle.past, handle.progress])

    def poll(self) -> list[ShardHandle]:
        """Take messages for a tick, and return the shards whose processes have ended."""
        self._group.wait(TICK)
        ended = []
        for handle in self:
            handle.receive()
            if handle.process and handle.process.has_ended:
                self._reap(handle)
                ended.append(handle)
        return ended

    def restart(self, handle: ShardHandle) -> None:
        """Start a shard again whose process died, or could not go on for now. `Misconfigured` when that is hopeless."""
        if handle.failure and not (handle.may_come_back and not handle.restarts.are_exhausted):
            raise Misconfigured(handle.failure)
        if handle.restarts.are_exhausted:
            deaths = RESTARTS.max_deaths
            raise Misconfigured(f"shard {handle.shard} died {deaths} times in a row: see the log for why")
        why = handle.failure or "unknown"
        log.error("a process died", extra={"shard": handle.shard, "deaths": handle.restarts.deaths, "why": why})
        self.start(handle)

    def stop(self, *, grace: float, on_tick: Callable[[], None]) -> None:
        """Ask all processes to stop, wait for them while they report, and kill those that take too long.

        `grace`: seconds that are left to requests under way.
        """
        for handle in self._handles:
            handle.stop(grace=grace)
        deadline = time.monotonic() + STOP_PATIENCE
        while self._group and time.monotonic() < deadline:
            if self.poll():
                deadline = time.monotonic() + STOP_PATIENCE
            on_tick()
        for handle in self._handles:
            if handle.process:
                self._reap(handle)

    def kill(self) -> None:
        """Kill all processes at once, which costs nothing that was acknowledged."""
        self._group.kill()

    def total(self) -> CrawlProgress:
        """Return the sum of all shards: counts of dead processes are added, the state is that of the living."""
        living = sum_progress(handle.progress for handle in self._handles)
        past = sum_progress([self._past, *(handle.past for handle in self._handles)])
        for name in PAST_COUNTS:
            setattr(living, name, getattr(living, name) + getattr(past, name))
        for name in COUNTS:
            setattr(living, name, dict(Counter(getattr(living, name)) + Counter(getattr(past, name))))
        return living

    def send_probe(self, probe: int) -> None:
        for handle in self._handles:
            if handle.progress.probe < probe:
                handle.send("probe", probe)

    def _reap(self, handle: ShardHandle) -> None:
        assert handle.process
        self._group.reap(handle.process, STOP_PATIENCE if handle.process.has_ended else 0.0)
        handle.restarts.on_exit(lived=handle.process.lived)
        handle.process = None
