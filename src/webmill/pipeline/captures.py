"""Find captures in an index by address and time."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

import msgspec

from webmill.errors import BadInput
from webmill.formats.cdxj import parse
from webmill.formats.timestamps import from_datetime, to_datetime
from webmill.index.lookup import Index
from webmill.index.query import Query, answer, url_range

log = logging.getLogger(__name__)

# Days around the moment that are looked through before all time is: a page may have a million captures.
WINDOWS = (0, 1, 32)
CANDIDATES = 16  # of each window
REVISIT = "warc/revisit"


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """What an index says of a capture."""

    url: str
    timestamp: str
    filename: str
    offset: int
    length: int
    digest: str = ""
    mime: str = ""
    status: str = ""

    @property
    def is_revisit(self) -> bool:
        return self.mime == REVISIT


def nearest(index: Index, url: str, *, moment: str) -> Iterator[Line]:
    """The captures nearest in time, the nearest first; of those of one second, those that can be read and are of just
    this URL. An index does not tell http from https, or /a from /a/.
    """
    there = to_datetime(moment)
    seen: set[tuple[str, int]] = set()
    for start, end in (*_periods(there), (None, None)):
        query = Query(
            range=url_range(url, "exact"),
            start=start,
            end=end,
            sort="closest",
            closest=moment,
            limit=CANDIDATES,
        )
        found = lines_of(answer(index, query))
        for line in sorted(found, key=lambda line: (_distance(line, there), not line.length, line.url != url)):
            if (line.filename, line.offset) not in seen:
                seen.add((line.filename, line.offset))
                yield line


def before(index: Index, url: str, timestamp: str) -> Line | None:
    """The last capture of an address in an earlier second."""
    there = to_datetime(timestamp)
    end = _shifted(there, seconds=-1)
    for start, _ in (*_periods(there), (None, None)):
        if end and (not start or start <= end):
            query = Query(range=url_range(url, "exact"), start=start, end=end, sort="reverse", limit=1)
            if found := next(lines_of(answer(index, query)), None):
                return found
    return None


def after(index: Index, url: str, timestamp: str) -> Line | None:
    """The first capture of an address in a later second."""
    start = _shifted(to_datetime(timestamp), seconds=1)
    query = Query(range=url_range(url, "exact"), start=start, limit=1)
    return next(lines_of(answer(index, query)), None) if start else None


def _periods(there: datetime) -> Iterator[tuple[str, str]]:
    for days in WINDOWS:
        start, end = _shifted(there, days=-days), _shifted(there, days=days)
        if start and end:
            yield start, end


def _shifted(there: datetime, *, days: int = 0, seconds: int = 0) -> str | None:
    try:
        return from_datetime(there + timedelta(days=days, seconds=seconds))
    except OverflowError:
        return None  # before the year 1, after 9999


def _distance(line: Line, there: datetime) -> float:
    try:
        return abs((to_datetime(line.timestamp) - there).total_seconds())
    except BadInput:
        return float("inf")


def lines_of(raw: Iterable[bytes]) -> Iterator[Line]:
    """What cannot be told is left out, and told in the log."""
    for line in raw:
        try:
            yield _line(line)
        except BadInput as error:
            log.warning("a capture that cannot be shown: %s", error)


def _line(raw: bytes) -> Line:
    capture = parse(raw)
    offset, length = capture.text("offset"), capture.text("length")
    if not all(len(number) < 19 and number.isascii() and number.isdigit() for number in (offset, length)):
        raise BadInput(f"no place of a record: {raw[:200]!r}", reason="bad_place")
    return Line(
        url=capture.text("url"),
        timestamp=capture.timestamp,
        filename=capture.text("filename"),
        offset=int(offset),
        length=int(length),
        digest=capture.text("digest"),
        mime=capture.text("mime"),
        status=capture.text("status"),
    )
