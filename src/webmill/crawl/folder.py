"""Where the files of a crawl lie: `frontier/` of a collection."""

from __future__ import annotations

from pathlib import Path

import msgspec

from webmill.collection import Collection


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
