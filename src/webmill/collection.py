"""The layout of a collection: a folder whose public part has the paths of Common Crawl's bucket."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from webmill.errors import Misconfigured, NotFound, WrongUse

ARCHIVE_ENDINGS = (".warc", ".warc.gz", ".warc.zst", ".arc", ".arc.gz")

STATE_FOLDER = ".webmill"  # tasks, receipts, locks

# Folders that webmill itself makes in a collection, beside those of WARC files.
OWN_FOLDERS = frozenset(
    {
        "cdxj",
        "cc-index",
        "documents",
        "extract",
        "blobs",
        "snapshots",
        "search",
        "search-history",
        "meaning",
        "frontier",
        "rejected",
        "publish",
        "corpus",
    }
)

_NAME = re.compile("[^./\x00-\x1f\x7f\ud800-\udfff][^/\x00-\x1f\x7f\ud800-\udfff]{0,99}")


class Collection(msgspec.Struct, frozen=True):
    """One crawl in a collection: `root` is the folder, `name` the name of the crawl."""

    root: Path
    name: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise Misconfigured(f"{self.name!r} cannot name a crawl; use up to 100 characters without a slash")

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
        """Return the path of `warc.paths.gz` or another list of files."""
        return self.crawl_data / f"{kind}.paths.gz"

    # --- private ---

    @property
    def cdxj(self) -> Path:
        """The folder with one sorted CDXJ file per WARC: the incremental state of the index."""
        return self.root / "cdxj"

    @property
    def unfinished_tables(self) -> Path:
        """The folder for unfinished tables: on the same disk, but not where readers look."""
        return self.root / "cc-index"

    @property
    def rejected(self) -> Path:
        return self.root / "rejected"

    def key(self, path: Path) -> str:
        """Return the path of a file below the root, as an index and a bucket name it."""
        return path.relative_to(self.root).as_posix()

    def owns(self, key: str) -> bool:
        """Return whether archives at or below this path belong to this crawl: not in own folders, not another
        crawl's."""
        first, _, rest = key.partition("/")
        return first not in OWN_FOLDERS and (first != "crawl-data" or not rest or rest.partition("/")[0] == self.name)


def list_archived_crawls(root: Path) -> list[Collection]:
    """Return the crawls below `crawl-data`, sorted by name."""
    return [Collection(root, path.name) for path in sorted((root / "crawl-data").glob("[!.]*")) if path.is_dir()]


def default_crawl_name(root: Path) -> str:
    """Return the name of the only crawl below crawl-data/, or the folder's own name if there is none."""
    crawls = [crawl.name for crawl in list_archived_crawls(root)]
    if len(crawls) > 1:
        raise WrongUse(f"{root} has several crawls; choose one with --name {' | '.join(crawls)}")
    return crawls[0] if crawls else root.name


def list_crawls(root: Path) -> list[Collection]:
    """Return all crawls. Archives may be anywhere: a folder without crawls is one crawl of the folder's name."""
    crawls = list_archived_crawls(root)
    if not root.name and not crawls:
        raise NotFound(f"{root} is not a collection")
    return crawls or [Collection(root, root.name)]


def is_archive_name(key: str) -> bool:
    """Return whether a path names an archive, by its ending."""
    return key.lower().endswith(ARCHIVE_ENDINGS)


class PublishFolders(msgspec.Struct, frozen=True):
    """The folders of a collection for publishing. Versions are at the root: `blobs`, `snapshots`, `latest.json`."""

    root: Path

    @property
    def documents(self) -> Path:
        return self.root / "documents"

    @property
    def extract_state(self) -> Path:
        """The state of extraction: which archives were made into documents, and how far."""
        return self.root / STATE_FOLDER / "extract"

    @property
    def publish_state(self) -> Path:
        """What the live version was made of: the incremental state of publishing. It can be rebuilt."""
        return self.root / STATE_FOLDER / "publish" / "newest.sqlite"

    @property
    def curate_state(self) -> Path:
        """What curate knows of the files of documents on this machine. It can be lost."""
        return self.root / STATE_FOLDER / "curate"

    @property
    def folder(self) -> Path:
        """The state that publishers on this machine share. All of it can be rebuilt."""
        return self.root / "publish"

    @property
    def search(self) -> Path:
        """The index of the embedded search engine."""
        return self.root / "search"

    @property
    def search_history(self) -> Path:
        """The indexes of past versions, by their names."""
        return self.root / "search-history"

    @property
    def meaning(self) -> Path:
        """The vectors of documents, a folder for each sentence model."""
        return self.root / "meaning"

    @property
    def corpus(self) -> Path:
        """What curate measured and decided."""
        return self.root / "corpus"

    @property
    def queue(self) -> Path:
        return self.folder / "queue.sqlite"

    @property
    def gates(self) -> Path:
        """The database of host schedules, shared with a crawl of this folder: when each host may be requested next."""
        return self.root / "frontier" / "gates.sqlite"

    @property
    def cache(self) -> Path:
        """The cache of unchanged pages and their validators."""
        return self.folder / "cache.sqlite"
