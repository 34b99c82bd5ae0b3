"""`/collinfo.json`: the list of crawls, in the format of Common Crawl's index server."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice
from threading import Lock
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from webmill.collection import Collection
from webmill.errors import BadInput, NotFound, WebmillError
from webmill.formats.cdx.cdxj import timestamp_of
from webmill.formats.timestamps import is_timestamp
from webmill.index.lookup.indexes import EVERYTHING, Generation
from webmill.infra.storage.base import Stat
from webmill.serve.site import Site, is_indexed

FEW_BLOCKS = 50  # up to this size every line is read for the period; of larger indexes the first line of each block

Period = tuple[str, str]


class Collinfo:
    """Lists the crawls. The period of an index is read once per version of its files, also when it is damaged."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._lock = Lock()  # one thread reads after a change
        self._periods: dict[str, tuple[Stat, Period | None]] = {}  # by crawl

    def reply(self, _: Request) -> Response:
        return JSONResponse(self._crawls(), headers={"Cache-Control": "max-age=60"})

    def _crawls(self) -> list[dict[str, str]]:
        """Return the indexed crawls, newest first."""
        with self._lock:
            found = [self._describe(crawl) for crawl in self._site.crawls() if is_indexed(crawl)]
        return sorted(found, key=lambda crawl: crawl.get("to", ""), reverse=True)

    def _describe(self, crawl: Collection) -> dict[str, str]:
        name = crawl.name
        address = f"{self._site.address}/{quote(name)}"
        about = {"id": name, "name": name, "timegate": f"{address}/timegate/", "cdx-api": f"{address}-index"}
        try:
            period = self._period(crawl)
        except WebmillError:  # just removed, or its disk does not answer
            period = None
        return about | {"from": _iso(period[0]), "to": _iso(period[1])} if period else about

    def _period(self, crawl: Collection) -> Period | None:
        generation = self._site.index_of(crawl).current()
        kept = self._periods.get(crawl.name)
        if kept is None or kept[0] != generation.stat:
            kept = self._periods[crawl.name] = (generation.stat, _try_read_period(generation))
        return kept[1]


def _try_read_period(generation: Generation) -> Period | None:
    """Return the period, or None if the index is damaged: queries report that."""
    try:
        return read_period(generation)
    except (BadInput, NotFound):
        return None


def read_period(generation: Generation) -> Period | None:
    blocks = list(islice(generation.all_blocks(), FEW_BLOCKS + 1))
    if len(blocks) <= FEW_BLOCKS:
        lines: Iterable[bytes] = chain.from_iterable(generation.batches_in(blocks, EVERYTHING))
    else:
        lines = (block.key for block in generation.all_blocks())
    first, last = b"", b""
    for line in lines:
        stamp = timestamp_of(line)
        if is_timestamp(stamp):
            first, last = min(first or stamp, stamp), max(last, stamp)
    return (first.decode(), last.decode()) if first else None


def _iso(timestamp: str) -> str:
    """Return the timestamp in the format of Common Crawl, also if it is not a date."""
    year, month, day, hour, minute, second = timestamp[:4], *(timestamp[at : at + 2] for at in range(4, 14, 2))
    return f"{year}-{month}-{day}T{hour}:{minute}:{second}"
