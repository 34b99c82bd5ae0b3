"""A collection: a folder whose public part has the paths of Common Crawl's bucket. Only where what lies."""

from __future__ import annotations

from pathlib import Path

import msgspec


class Collection(msgspec.Struct, frozen=True):
    """`root` is the folder, `name` the crawl's name in it."""

    root: Path
    name: str

    # --- public: the paths of Common Crawl ---

    @property
    def crawl_data(self) -> Path:
        return self.root / "crawl-data" / self.name

    @property
    def segments(self) -> Path:
        return self.crawl_data / "segments"

    @property
    def zipnum(self) -> Path:
        return self.root / "cc-index" / "collections" / self.name / "indexes"

    @property
    def table(self) -> Path:
        return self.root / "cc-index" / "table" / "cc-main" / "warc" / f"crawl={self.name}" / "subset=warc"

    def paths_file(self, kind: str) -> Path:
        """`warc.paths.gz` and its kin."""
        return self.crawl_data / f"{kind}.paths.gz"

    # --- private ---

    @property
    def cdxj(self) -> Path:
        """One sorted CDXJ per WARC: the incremental state of the index."""
        return self.root / "cdxj"

    @property
    def rejected(self) -> Path:
        return self.root / "rejected"

    def key(self, path: Path) -> str:
        """The path of a file below the root, as an index and a bucket name it."""
        return path.relative_to(self.root).as_posix()


# What webmill itself puts into a collection beside WARC files.
OURS = frozenset({"cdxj", "cc-index", "documents", "blobs", "snapshots", "search", "frontier", "rejected"})
