"""Read a collection from Python: list the captures of a URL, and read what a capture holds.

with webmill.open_collection("news/") as collection:
    page = collection.read(collection.capture("https://example.org/", at="2024"))
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Self

import msgspec

from webmill.commoncrawl.catalog import cluster_key
from webmill.commoncrawl.crawl_storage import INTERACTIVE_RETRIES, list_crawls, open_crawl_storage
from webmill.errors import Misconfigured, NotFound
from webmill.formats.cdx.cdxj import IndexLine
from webmill.formats.cdx.query import split_url_pattern
from webmill.formats.compression.content_coding import DecodedBody, DecodeLimits, decode_body
from webmill.formats.html.charset import decode_page
from webmill.formats.timestamps import earliest
from webmill.formats.url.normalise import normalise
from webmill.index.lookup.indexes import CaptureIndex, ZipNumIndex
from webmill.index.lookup.query import Query, run_query, url_range
from webmill.infra.storage.base import Readable
from webmill.model import CaptureRef, Headers
from webmill.pipeline.capture_reader import CaptureReader, open_capture
from webmill.pipeline.captures import nearest_captures, parse_index_lines
from webmill.settings import CommonCrawlSettings, HttpSettings

MAX_BODY = 64 << 20  # bytes of a body, stored and decoded
END_OF_TIME = "99991231235959"


class ArchivedPage(msgspec.Struct, frozen=True, kw_only=True):
    """What a capture holds. `headers` are as the server sent them, `body` is without its codings.

    `flaw` says what is wrong with the body, `complete` whether it is all there nevertheless (formats.content_coding).
    """

    capture: CaptureRef  # as it was asked for
    original: CaptureRef  # where the body lies: of a revisit another one
    status: int
    headers: Headers
    content_type: str
    body: bytes
    complete: bool
    flaw: str | None

    @property
    def text(self) -> str:
        """The body as a browser would decode it: with its markup."""
        return decode_page(self.body, content_type=self.content_type or None).text


def open_collection(
    place: str | Path, *, crawl: str | None = None, contact: str = "", rate: float = CommonCrawlSettings().rate
) -> OpenCollection:
    """Open a collection to read: a folder, `s3://BUCKET/PREFIX` or `https://…` with the paths of Common Crawl.

    Without `crawl` the newest is opened. Requests name the `contact`, and there are at most `rate` per second.
    """
    base = str(place).rstrip("/") or str(place)
    http, commoncrawl = HttpSettings(contact=contact), CommonCrawlSettings(rate=rate)
    name = crawl or next((one.id for one in list_crawls(base, http=http, commoncrawl=commoncrawl)), None)
    if name is None:
        raise NotFound("there is no crawl here; create one with `webmill crawl`")
    files = open_crawl_storage(base, http=http, commoncrawl=commoncrawl, policy=INTERACTIVE_RETRIES)
    index = ZipNumIndex(files, cluster_key(name))
    try:
        index.current()
    except NotFound as error:
        raise NotFound(f"no index of {name} here; create it with `webmill index` ({error})") from error
    return OpenCollection(index, files)


class OpenCollection:
    """One crawl of a collection: its index, and the storage that holds its archives. Threads may share it."""

    def __init__(self, index: CaptureIndex, files: Readable) -> None:
        self._parts: tuple[CaptureIndex, Readable] | None = (index, files)

    def captures(
        self, url: str, *, since: str | None = None, until: str | None = None, limit: int | None = None
    ) -> Iterator[CaptureRef]:
        """Yield the captures by URL, then by time; the arguments are those of `lines`."""
        return (line.capture for line in self.lines(url, since=since, until=until, limit=limit))

    def lines(
        self, url: str, *, since: str | None = None, until: str | None = None, limit: int | None = None
    ) -> Iterator[IndexLine]:
        """Yield the index line of each capture, by URL, then by time.

        `https://example.org/news/*` asks for all below, `*.example.org` for a domain. `since` and `until` are periods,
        included whole: `2024`, `2024-03`, 14 digits.
        """
        _normalise_url(split_url_pattern(url)[0])
        query = Query(range=url_range(url), start=since, end=until, limit=limit)
        return parse_index_lines(run_query(self._opened()[0], query))

    def capture(self, url: str, *, at: str | None = None) -> CaptureRef:
        """Return the capture nearest to the beginning of `at`; without it, the newest. `NotFound`: there is none."""
        address, index = _normalise_url(url), self._opened()[0]
        found = next(nearest_captures(index, address, moment=earliest(at) if at else END_OF_TIME), None)
        if found is None:
            raise NotFound(f"no capture of {address} in this collection")
        return found.capture

    def read(self, capture: CaptureRef, *, limit: int = MAX_BODY) -> ArchivedPage:
        """Read a capture. Of a body over `limit` bytes only the beginning is returned, with a flaw.

        `NotFound`: it cannot be read, or is a revisit whose original is not here.
        """
        with closing(open_capture(*self._opened(), capture)) as archived:
            body = _read_body(archived, limit)
            return ArchivedPage(
                capture=capture,
                original=archived.original,
                status=archived.status,
                headers=archived.headers,
                content_type=archived.content_type,
                body=body.data,
                complete=body.complete,
                flaw=body.flaw,
            )

    def close(self) -> None:
        """Connections go with the storage."""
        self._parts = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _opened(self) -> tuple[CaptureIndex, Readable]:
        if self._parts is None:
            raise Misconfigured("this collection is closed: open it again")
        return self._parts


def _normalise_url(url: str) -> str:
    """Normalise a URL; its scheme may be left out, since an index ignores it."""
    return normalise(url if "://" in url else f"http://{url}")


def _read_body(archived: CaptureReader, limit: int) -> DecodedBody:
    stored = bytearray()
    for piece in archived.stored():
        stored += piece
        if len(stored) > limit:
            break
    decoded = decode_body(archived.headers, bytes(stored[:limit]), limits=DecodeLimits(output=limit))
    if len(stored) > limit:
        return DecodedBody(decoded.data, complete=False, flaw="decode_limit")
    if "WARC-Truncated" in archived.record.headers:  # its crawler had a limit, too
        return DecodedBody(decoded.data, complete=False, flaw="truncated")
    return decoded
