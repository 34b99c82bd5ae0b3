"""Where the frontier of a crawl is: its shards, their letter boxes, and whether somebody crawls with it now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from webmill.collection import Collection
from webmill.crawl.archive import NoArchive
from webmill.crawl.folder import CrawlFolder
from webmill.crawl.frontier.base import Frontier
from webmill.crawl.frontier_admin.tools import Tools
from webmill.crawl.layout import CrawlLayout
from webmill.crawl.options import CrawlBackends, CrawlOptions, Politeness
from webmill.crawl.politeness.host_schedule import HostSchedule
from webmill.crawl.scheduler.inbox import ShardInbox
from webmill.errors import Conflict, Misconfigured, NotFound
from webmill.infra.clock import Anchor, SteadyClock
from webmill.infra.lock import exclusive

PATIENCE = 0.3  # for one who only looks whether a crawl runs


class Place(msgspec.Struct, frozen=True):
    options: CrawlOptions
    tools: Tools

    @property
    def folder(self) -> Path:
        return self.options.folder.path

    @property
    def root(self) -> Path:
        return self.options.folder.collection.root

    def shards(self) -> int:
        path = self.folder / "crawl.json"
        try:
            layout = msgspec.json.decode(path.read_bytes(), type=CrawlLayout)
        except FileNotFoundError:
            raise NotFound(f"no crawl in {self.root}: begin one with `webmill crawl {self.root} URL`") from None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Misconfigured(f"{path}: {error}: put the file back as it was") from error
        if layout.on_nodes and not self.tools.is_shared:
            raise Misconfigured(f"the crawl in {self.root} keeps its frontier in Redis: give --frontier redis://…")
        return layout.shards

    @contextmanager
    def alone_if_possible(self, *, doing: str, patience: float = PATIENCE) -> Iterator[bool]:
        """Holds the crawl's lock; False when a crawl runs, which has it, here or elsewhere."""
        with ExitStack() as held:
            try:
                held.enter_context(exclusive(self.folder, "crawl", doing=doing, patience=patience))
                is_alone = not self.tools.is_used_elsewhere()
            except Conflict:
                is_alone = False
            yield is_alone

    @contextmanager
    def alone(self, *, doing: str) -> Iterator[None]:
        with self.alone_if_possible(doing=doing) as is_alone:
            if not is_alone:
                raise Conflict(f"a crawl is running in {self.root}: stop it (Ctrl-C there), then run this again")
            yield

    @contextmanager
    def frontier(self, shard: int) -> Iterator[Frontier]:
        """For one who holds the lock."""
        frontier = self.options.backends.open_frontier(self.options.folder.shard(shard))
        try:
            yield frontier
        finally:
            frontier.close()

    @contextmanager
    def frontiers(self) -> Iterator[list[Frontier]]:
        with ExitStack() as stack:
            yield [stack.enter_context(self.frontier(shard)) for shard in range(self.shards())]

    @contextmanager
    def gates(self) -> Iterator[HostSchedule]:
        gates = self.options.backends.open_host_schedule(self.options.folder.host_schedule)
        try:
            yield gates
        finally:
            gates.close()

    @contextmanager
    def box(self, shard: int) -> Iterator[ShardInbox]:
        box = self.options.backends.open_inbox(self.options.folder.inbox(shard))
        try:
            yield box
        finally:
            box.close()


def place_of(root: Path, backends: CrawlBackends, tools: Tools, *, name: str = "") -> Place:
    """With as much of a crawl's options as its files need."""
    collection = Collection(root, name or root.name or "crawl")
    return Place(
        CrawlOptions(
            folder=CrawlFolder(collection), archive=NoArchive(), backends=backends, politeness=Politeness(user_agent="")
        ),
        tools,
    )


def clock_of(gates: HostSchedule, frontiers: Iterable[Frontier]) -> SteadyClock:
    """The crawl's own: not behind where any of its shards has been."""
    clock = gates.clock(None)
    for frontier in frontiers:
        note = frontier.notes().get("clock")
        clock = gates.clock(msgspec.json.decode(note, type=Anchor) if note else None)
    return clock
