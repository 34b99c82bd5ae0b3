"""Which crawls there are, and where the files of one are: the paths of Common Crawl's bucket, which are ours too.

Common Crawl tells its crawls in `collinfo.json` of its index server; another webmill may serve one at its root; of a
folder or a bucket without one the folders of `crawl-data/` are the crawls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, get_args

import msgspec

from webmill.errors import BadInput, Misconfigured, NotFound
from webmill.infra.storage.base import Readable, Storage

COMMON_CRAWL = "https://data.commoncrawl.org"
COMMON_CRAWL_INDEX = "https://index.commoncrawl.org"
COLLINFO = "collinfo.json"
LATEST = "latest"
MAX_COLLINFO = 16 << 20
MAX_CRAWLS = 100_000
LAST = "\U0002fa1d"  # sorts behind every name that a crawl has in its folder, and may be in a key

Kind = Literal["warc", "wat", "wet", "index", "robotstxt", "non200responses", "table"]
_FILES: dict[Kind, str] = {"index": "cc-index", "table": "cc-index-table"}
_NAME = re.compile(r"[^./\x00-\x1f\x7f][^/\x00-\x1f\x7f]{0,99}")


class Crawl(msgspec.Struct, frozen=True, rename={"start": "from", "end": "to"}):
    """An entry of collinfo.json; what is not told is empty."""

    id: str
    name: str = ""
    start: str = ""
    end: str = ""


def read_collinfo(storage: Readable) -> list[Crawl]:
    """Newest first. NotFound; BadInput (bad_collinfo)."""
    stat = storage.stat(COLLINFO)
    if stat.size > MAX_COLLINFO:
        raise BadInput(f"{stat.size:,} bytes, at most {MAX_COLLINFO:,}", reason="bad_collinfo", source=COLLINFO)
    try:
        crawls = msgspec.json.decode(storage.read(COLLINFO), type=list[Crawl])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(str(error), reason="bad_collinfo", source=COLLINFO) from error
    named = [crawl for crawl in crawls if _NAME.fullmatch(crawl.id)]
    return sorted(named, key=_age, reverse=True)


def list_crawl_folders(storage: Storage) -> list[Crawl]:
    """The folders of `crawl-data/`, the last name first."""
    return [Crawl(name) for name in sorted(_folders(storage), reverse=True)]


def newest_crawl(crawls: list[Crawl]) -> str:
    if not crawls:
        raise NotFound("there is no crawl here: check --base-url, or make one (`webmill crawl`, `webmill index`)")
    return crawls[0].id


def paths_key(crawl: str, kind: Kind) -> str:
    """The list of a crawl's files of one kind."""
    if kind not in get_args(Kind):
        raise Misconfigured(f"no kind of file {kind!r}: use one of {', '.join(get_args(Kind))}")
    return f"crawl-data/{validate_crawl_name(crawl)}/{_FILES.get(kind, kind)}.paths.gz"


def cluster_key(crawl: str) -> str:
    """The summary of a crawl's index; its blocks are in the same folder."""
    return f"cc-index/collections/{validate_crawl_name(crawl)}/indexes/cluster.idx"


def validate_crawl_name(crawl: str) -> str:
    if not _NAME.fullmatch(crawl):
        raise Misconfigured(f"no name of a crawl: {crawl!r}; `webmill cc crawls` lists them")
    return crawl


def _age(crawl: Crawl) -> tuple[str, str]:
    """By its last day where it is told; names of Common Crawl sort by time too, but for its first, early ones."""
    return crawl.end or crawl.start, crawl.id


def _folders(storage: Storage) -> Iterator[str]:
    """One look per crawl, not one per file: behind the first file of a folder we ask for what follows the folder."""
    after = ""
    for _ in range(MAX_CRAWLS):
        stat = next(iter(storage.list("crawl-data/", start_after=after)), None)
        if stat is None:
            return
        name, slash, _ = stat.key.removeprefix("crawl-data/").partition("/")
        if slash:
            yield name
        after = f"crawl-data/{name}/{LAST}" if slash else stat.key
