"""Where the files of a crawl lie, and what may never change in its life: its name, and which shard has which domain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from webmill.collection import Collection
from webmill.errors import Misconfigured
from webmill.infra import atomic

MAX_SHARDS = 256


class CrawlLayout(msgspec.Struct, frozen=True):
    """How a crawl is divided."""

    shards: Annotated[int, msgspec.Meta(ge=1, le=MAX_SHARDS)]
    name: str = ""
    version: int = 1
    on_nodes: bool = False  # its frontier is in Redis


def load_or_create_layout(folder: CrawlFolder, processes: int | None) -> int:
    """Return the number of shards of a crawl on one machine. A new crawl gets as many as `processes`."""
    if not folder.layout.exists():
        shards = processes or 1
        if shards > MAX_SHARDS:
            raise Misconfigured(f"{shards} processes: at most {MAX_SHARDS}")
        write_layout(folder, CrawlLayout(shards, folder.collection.name))
        return shards
    layout = read_layout(folder)
    if layout.on_nodes:
        raise Misconfigured(
            f"the crawl in {folder.collection.root} keeps its frontier in Redis: give --frontier redis://…"
        )
    if processes is not None and processes != layout.shards:
        raise Misconfigured(
            f"this crawl was begun with {layout.shards} processes, and its domains are divided among them: "
            f"leave --processes out, or give --processes {layout.shards}"
        )
    return layout.shards


def read_layout(folder: CrawlFolder) -> CrawlLayout:
    path, name = folder.layout, folder.collection.name
    try:
        layout = msgspec.json.decode(path.read_bytes(), type=CrawlLayout)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{path}: {error}: put the file back as it was, or begin in another folder") from error
    if layout.name and layout.name != name:
        raise Misconfigured(f"this crawl is called {layout.name}: give --name {layout.name}, or crawl into another DIR")
    return layout


def write_layout(folder: CrawlFolder, layout: CrawlLayout) -> None:
    atomic.write_bytes(folder.layout, msgspec.json.encode(layout) + b"\n")


class CrawlFolder(msgspec.Struct, frozen=True):
    """The paths of a crawl's own files."""

    collection: Collection

    @property
    def path(self) -> Path:
        return self.collection.root / "frontier"

    @property
    def seeds(self) -> Path:
        return self.path / "seeds.txt"

    @property
    def layout(self) -> Path:
        return self.path / "crawl.json"

    @property
    def host_schedule(self) -> Path:
        return self.path / "gates.sqlite"

    def shard(self, shard: int) -> Path:
        return self.path / f"shard-{shard:02d}"

    def inbox(self, shard: int) -> Path:
        return self.path / f"mail-{shard:02d}.sqlite"
