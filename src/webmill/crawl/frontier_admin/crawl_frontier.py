"""The frontier of a crawl in a folder: its shards, their inboxes, and whether the crawl runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from webmill.collection import Collection
from webmill.crawl.frontier.base import Frontier
from webmill.crawl.frontier_admin.backend import FrontierBackend
from webmill.crawl.layout import CrawlFolder, decode_layout, refuse_lost_layout
from webmill.crawl.options import CrawlBackends
from webmill.crawl.scheduler.inbox import ShardInbox
from webmill.errors import Conflict, Misconfigured, NotFound
from webmill.infra.clock import Anchor, SteadyClock
from webmill.infra.host_schedule.fixed_delays import HostSchedule
from webmill.infra.lock import exclusive

LOCK_WAIT = 0.3  # seconds, to find out whether a crawl runs


class CrawlFrontier(msgspec.Struct, frozen=True):
    paths: CrawlFolder
    backends: CrawlBackends
    backend: FrontierBackend

    @property
    def folder(self) -> Path:
        return self.paths.path

    @property
    def root(self) -> Path:
        return self.paths.collection.root

    def shards(self) -> int:
        path = self.folder / "crawl.json"
        try:
            layout = decode_layout(path.read_bytes(), source=str(path))
        except FileNotFoundError:
            refuse_lost_layout(self.paths)
            raise NotFound(f"no crawl in {self.root}: begin one with `webmill crawl {self.root} URL`") from None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Misconfigured(f"{path}: {error}: put the file back as it was") from error
        if layout.on_nodes and not self.backend.is_shared:
            raise Misconfigured(f"the crawl in {self.root} keeps its frontier in Redis: give --frontier redis://…")
        return layout.shards

    def shards_here(self) -> list[int]:
        """Return the shards whose files are in this folder, not on another node."""
        return [shard for shard in range(self.shards()) if self.backend.is_here(self.paths.shard(shard))]

    @contextmanager
    def try_exclusively(self, *, doing: str, patience: float = LOCK_WAIT) -> Iterator[bool]:
        """Hold the lock of the crawl. False: a crawl runs, here or elsewhere, and has it."""
        with ExitStack() as held:
            try:
                held.enter_context(exclusive(self.folder, "crawl", doing=doing, patience=patience))
                is_alone = not self.backend.is_used_elsewhere()
            except Conflict:
                is_alone = False
            yield is_alone

    def refuse_unless_running(self) -> None:
        """NotFound: no crawl is running."""
        with self.try_exclusively(doing="looking for a crawl") as is_alone:
            if is_alone:
                raise NotFound(f"no crawl is running in {self.root}")

    @contextmanager
    def exclusively(self, *, doing: str) -> Iterator[None]:
        with self.try_exclusively(doing=doing) as is_alone:
            if not is_alone:
                raise Conflict(f"a crawl is running in {self.root}: stop it (Ctrl-C there), then run this again")
            yield

    @contextmanager
    def frontier(self, shard: int) -> Iterator[Frontier]:
        """Open the frontier of a shard. Only for one who holds the lock."""
        frontier = self.backends.open_frontier(self.paths.shard(shard))
        try:
            yield frontier
        finally:
            frontier.close()

    @contextmanager
    def frontiers(self) -> Iterator[list[Frontier]]:
        with ExitStack() as stack:
            yield [stack.enter_context(self.frontier(shard)) for shard in range(self.shards())]

    @contextmanager
    def host_schedule(self) -> Iterator[HostSchedule]:
        schedule = self.backends.open_host_schedule(self.paths.host_schedule)
        try:
            yield schedule
        finally:
            schedule.close()

    @contextmanager
    def inbox(self, shard: int) -> Iterator[ShardInbox]:
        inbox = self.backends.open_inbox(self.paths.inbox(shard))
        try:
            yield inbox
        finally:
            inbox.close()


def crawl_frontier(root: Path, backends: CrawlBackends, tools: FrontierBackend, *, name: str = "") -> CrawlFrontier:
    """Return the frontier of the crawl in `root`."""
    collection = Collection(root, name or root.name or "crawl")
    return CrawlFrontier(CrawlFolder(collection), backends, tools)


def crawl_clock(schedule: HostSchedule, frontiers: Iterable[Frontier]) -> SteadyClock:
    """Return the clock of a crawl: not behind where any of its shards has been."""
    clock = schedule.clock(None)
    for frontier in frontiers:
        note = frontier.notes().get("clock")
        clock = schedule.clock(msgspec.json.decode(note, type=Anchor) if note else None)
    return clock
