"""List crawls, and the paths of their files: those of Common Crawl's bucket, which webmill uses too.

Common Crawl lists its crawls in `collinfo.json` on its index server; another webmill may serve one at its root. For a
folder or bucket without it, the folders of `crawl-data/` are the crawls.
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
LAST = "\U0002fa1d"  # sorts after every name in the folder of a crawl, and is allowed in keys

Kind = Literal["warc", "wat", "wet", "index", "robotstxt", "non200responses", "table"]
_FILES: dict[Kind, str] = {"index": "cc-index", "table": "cc-index-table"}
_NAME = re.compile(r"[^./\x00-\x1f\x7f][^/\x00-\x1f\x7f]{0,99}")


class Crawl(msgspec.Struct, frozen=True, rename={"start": "from", "end": "to"}):
    """An entry of collinfo.json; missing values are empty."""

    id: str
    name: str = ""
    start: str = ""
    end: str = ""


def read_collinfo(storage: Readable) -> list[Crawl]:
    """Return the crawls of collinfo.json, newest first. Raise NotFound, or BadInput (bad_collinfo)."""
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
    """Return the folders of `crawl-data/` as crawls, in reverse order of their names."""
    return [Crawl(name) for name in sorted(_folders(storage), reverse=True)]


def newest_crawl(crawls: list[Crawl]) -> str:
    if not crawls:
        raise NotFound("no crawls found; check --base-url, or make a crawl (`webmill crawl`, `webmill index`)")
    return crawls[0].id


def paths_key(crawl: str, kind: Kind) -> str:
    """Return the key of the list of files of one kind."""
    if kind not in get_args(Kind):
        raise Misconfigured(f"{kind!r} is not a kind of file; use one of {', '.join(get_args(Kind))}")
    return f"crawl-data/{validate_crawl_name(crawl)}/{_FILES.get(kind, kind)}.paths.gz"


def cluster_key(crawl: str) -> str:
    """Return the key of the summary of a crawl's index, whose blocks are in the same folder."""
    return f"cc-index/collections/{validate_crawl_name(crawl)}/indexes/cluster.idx"


def validate_crawl_name(crawl: str) -> str:
    if not _NAME.fullmatch(crawl):
        raise Misconfigured(f"{crawl!r} is not the name of a crawl; `webmill cc crawls` lists them")
    return crawl


def _age(crawl: Crawl) -> tuple[str, str]:
    """Sort by the end date if known; names of Common Crawl sort by time too, except for the earliest."""
    return crawl.end or crawl.start, crawl.id


def _folders(storage: Storage) -> Iterator[str]:
    """Yield the crawl folders, listing once per crawl: after its first file, skip to what follows the folder."""
    after = ""
    for _ in range(MAX_CRAWLS):
        stat = next(iter(storage.list("crawl-data/", start_after=after)), None)
        if stat is None:
            return
        name, slash, _ = stat.key.removeprefix("crawl-data/").partition("/")
        if slash:
            yield name
        after = f"crawl-data/{name}/{LAST}" if slash else stat.key
