"""What the files of a site said when a page of it was captured: its robots.txt, `tdmrep.json` and RSL documents, as
they are archived in the same collection.

Archives of other crawlers have no notes beside their captures; but many have the site's files, in the same archive or
another one (Common Crawl's `robotstxt`). The index says where: of each file the last capture that is not later than the
page, else the first one within a day after it, which is how long a robots.txt may be used. A collection that is not
indexed yet has none: index it first, as `webmill run` does.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import closing
from functools import lru_cache
from pathlib import Path

from webmill.errors import BadInput, NotFound, WebmillError
from webmill.formats.cdx.cdxj import IndexLine
from webmill.formats.preferences.capture import NO_SITE, SitePreferences
from webmill.formats.preferences.robots_usage import NO_ROBOTS_USAGE, RobotsUsage, read_robots_usage
from webmill.formats.preferences.rsl import RslContent, read_rsl
from webmill.formats.preferences.tdm import PATH as TDMREP
from webmill.formats.preferences.tdm import TdmLocation, read_tdm_file
from webmill.formats.timestamps import seconds_between, to_datetime
from webmill.formats.url.normalise import join, normalise, origin_of
from webmill.index.lookup.indexes import CaptureIndex
from webmill.index.lookup.newest import open_collection_index
from webmill.index.lookup.query import Query, run_query, url_range
from webmill.infra.address import scheme_of
from webmill.infra.storage.backends import open_readable
from webmill.infra.storage.base import Readable
from webmill.pipeline.capture_reader import open_capture
from webmill.pipeline.captures import parse_index_lines

log = logging.getLogger(__name__)

AGENT = "webmill"
ROBOTS = "/robots.txt"
MAX_BODY = 1 << 20  # bytes, as of each of the formats
MOST_CAPTURES = 1000  # of one file that are considered
MOST_SITES, MOST_FILES = 500, 500  # that are remembered
MOST_PARSED = 32
DAY = 86_400


class ArchivedSites:
    """Answers for one collection. For one thread."""

    def __init__(self, index: CaptureIndex, files: Readable) -> None:
        self._index, self._files = index, files
        self._captures: OrderedDict[str, list[IndexLine]] = OrderedDict()  # by URL, in the order of time
        self._bodies: OrderedDict[tuple[str, int], bytes] = OrderedDict()  # by place

    def find(self, url: str, timestamp: str) -> SitePreferences:
        """Return what the site of a URL said at this moment (14 digits); nothing where that is not archived."""
        try:
            origin = origin_of(normalise(url))
        except BadInput:
            return NO_SITE
        robots = self._body(f"{origin}{ROBOTS}", timestamp)
        usage = _robots_usage(robots) if robots else NO_ROBOTS_USAGE
        tdm = self._body(f"{origin}{TDMREP}", timestamp)
        return SitePreferences(
            robots=usage,
            tdm=_locations(tdm),
            rsl=tuple(one for body in self._licences(origin, usage, timestamp) for one in _contents(body)),
        )

    def _licences(self, origin: str, usage: RobotsUsage, timestamp: str) -> Iterator[bytes]:
        for one in usage.licenses:
            try:
                yield self._body(join(f"{origin}/", one), timestamp)
            except BadInput:
                continue

    def _body(self, url: str, timestamp: str) -> bytes:
        """Return the content of the capture that held at this moment; nothing where there is none."""
        try:
            line = _that_held(self._captures_of(url), timestamp)
            return self._read(line) if line else b""
        except WebmillError as error:
            log.info("an archived file of a site cannot be read", extra={"url": url, "why": str(error)})
            return b""

    def _captures_of(self, url: str) -> list[IndexLine]:
        if url not in self._captures:
            lines = parse_index_lines(
                run_query(self._index, Query(range=url_range(url, "exact"), limit=MOST_CAPTURES, sort="reverse"))
            )
            found = [line for line in lines if (line.status == "200" or line.is_revisit) and line.capture.length]
            self._captures[url] = sorted(found, key=lambda line: line.capture.timestamp)
            if len(self._captures) > MOST_SITES:
                self._captures.popitem(last=False)
        self._captures.move_to_end(url)
        return self._captures[url]

    def _read(self, line: IndexLine) -> bytes:
        place = line.capture.filename, line.capture.offset
        if place not in self._bodies:
            with closing(open_capture(self._index, self._files, line.capture)) as capture:
                body = bytearray()
                for piece in capture.content():
                    body += piece
                    if len(body) > MAX_BODY:
                        break
            self._bodies[place] = bytes(body)
            if len(self._bodies) > MOST_FILES:
                self._bodies.popitem(last=False)
        self._bodies.move_to_end(place)
        return self._bodies[place]


def open_archived_sites(source: str) -> ArchivedSites | None:
    """Open the index of the collection that archives are read from; None where it has none, or is elsewhere."""
    scheme, path = scheme_of(source)
    if scheme != "file":
        return None
    try:
        return ArchivedSites(open_collection_index(Path(path).resolve()), open_readable(path))
    except NotFound:
        return None


def _that_held(lines: list[IndexLine], timestamp: str) -> IndexLine | None:
    before = [line for line in lines if line.capture.timestamp <= timestamp]
    if before:
        return before[-1]
    first = next(iter(lines), None)
    if first is None:
        return None
    try:
        later = seconds_between(first.capture.timestamp, to_datetime(timestamp))
    except BadInput:
        return None
    return first if abs(later) <= DAY else None


@lru_cache(MOST_PARSED)
def _robots_usage(body: bytes) -> RobotsUsage:
    return read_robots_usage(body, agent=AGENT)


@lru_cache(MOST_PARSED)
def _locations(body: bytes) -> tuple[TdmLocation, ...]:
    return read_tdm_file(body) if body else ()


@lru_cache(MOST_PARSED)
def _contents(body: bytes) -> tuple[RslContent, ...]:
    return read_rsl(body) if body else ()
