"""A collection: a folder whose public part has the paths of Common Crawl's bucket. Only where what lies."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from webmill.errors import Misconfigured, NotFound, WrongUse

STATE_FOLDER = ".webmill"  # tasks, receipts, locks: ours

# What webmill itself puts into a collection beside WARC files.
OWN_FOLDERS = frozenset(
    {"cdxj", "cc-index", "documents", "extract", "blobs", "snapshots", "search", "frontier", "rejected", "publish"}
)

_NAME = re.compile("[^./\x00-\x1f\x7f\ud800-\udfff][^/\x00-\x1f\x7f\ud800-\udfff]{0,99}")


class Collection(msgspec.Struct, frozen=True):
    """`root` is the folder, `name` the crawl's name in it."""

    root: Path
    name: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise Misconfigured(f"no name for a crawl: {self.name!r}; use up to 100 characters without a slash")

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
    def tables_aside(self) -> Path:
        """For tables in the making: outside of what their readers look through, on the same disk."""
        return self.root / "cc-index"

    @property
    def rejected(self) -> Path:
        return self.root / "rejected"

    def key(self, path: Path) -> str:
        """The path of a file below the root, as an index and a bucket name it."""
        return path.relative_to(self.root).as_posix()

    def owns(self, key: str) -> bool:
        """Whether archives at or below this path belong here: not in our own folders, not to a crawl beside it."""
        first, _, rest = key.partition("/")
        return first not in OWN_FOLDERS and (first != "crawl-data" or not rest or rest.partition("/")[0] == self.name)


def list_archived_crawls(root: Path) -> list[Collection]:
    """Those below `crawl-data`, by name."""
    return [Collection(root, path.name) for path in sorted((root / "crawl-data").glob("[!.]*")) if path.is_dir()]


def default_crawl_name(root: Path) -> str:
    """Return the name of the one crawl below crawl-data/; else the folder's own."""
    crawls = [crawl.name for crawl in list_archived_crawls(root)]
    if len(crawls) > 1:
        raise WrongUse(f"{root} has several crawls: choose with --name {' | '.join(crawls)}")
    return crawls[0] if crawls else root.name


def list_crawls(root: Path) -> list[Collection]:
    """Return all crawls. Archives may lie anywhere: a folder without crawls is one crawl by its own name."""
    crawls = list_archived_crawls(root)
    if not root.name and not crawls:
        raise NotFound(f"{root} is no collection")
    return crawls or [Collection(root, root.name)]


class PublishFolders(msgspec.Struct, frozen=True):
    """A collection as its publishers see it. Versions lie at the root: `blobs`, `snapshots`, `latest.json`."""

    root: Path

    @property
    def documents(self) -> Path:
        return self.root / "documents"

    @property
    def extract_state(self) -> Path:
        """Which of the collection's own archives were made into documents, and how far."""
        return self.root / STATE_FOLDER / "extract"

    @property
    def folder(self) -> Path:
        """What the publishers of this machine share. All of it can be made again."""
        return self.root / "publish"

    @property
    def search(self) -> Path:
        """The embedded engine's index."""
        return self.root / "search"

    @property
    def queue(self) -> Path:
        return self.folder / "queue.sqlite"

    @property
    def gates(self) -> Path:
        """When which host may be asked next: the schedule of the crawl of this folder, whether there is one or not."""
        return self.root / "frontier" / "gates.sqlite"

    @property
    def cache(self) -> Path:
        """Pages that did not change, and what servers said about them."""
        return self.folder / "cache.sqlite"
