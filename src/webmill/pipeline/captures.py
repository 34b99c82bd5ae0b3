"""Find captures in an index by address and time."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from webmill.errors import BadInput
from webmill.formats.cdx.cdxj import IndexLine, read_index_line
from webmill.formats.timestamps import from_datetime, seconds_between, to_datetime
from webmill.index.lookup.indexes import CaptureIndex
from webmill.index.lookup.query import Query, run_query, url_range
from webmill.model import CaptureRef

log = logging.getLogger(__name__)

# Days around the moment that are looked through before all time is: a page may have a million captures.
WINDOWS = (0, 1, 32)
MAX_CANDIDATES = 16  # of each window


def nearest_captures(index: CaptureIndex, url: str, *, moment: str) -> Iterator[IndexLine]:
    """Yield the captures nearest in time, the nearest first; of those of one second, first what can be read and is of
    just this URL. An index does not tell http from https, or /a from /a/.
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
            limit=MAX_CANDIDATES,
        )
        found = parse_index_lines(run_query(index, query))
        for line in sorted(found, key=lambda line: _rank(line.capture, there, url)):
            if line.capture.place not in seen:
                seen.add(line.capture.place)
                yield line


def _rank(capture: CaptureRef, there: datetime, url: str) -> tuple[float, bool, bool]:
    return seconds_between(capture.timestamp, there), not capture.length, capture.url != url


def capture_before(index: CaptureIndex, url: str, timestamp: str) -> CaptureRef | None:
    """Return the last capture of a URL in an earlier second."""
    there = to_datetime(timestamp)
    end = _shift(there, seconds=-1)
    for start, _ in (*_periods(there), (None, None)):
        if end and (not start or start <= end):
            query = Query(range=url_range(url, "exact"), start=start, end=end, sort="reverse", limit=1)
            if found := next(parse_index_lines(run_query(index, query)), None):
                return found.capture
    return None


def capture_after(index: CaptureIndex, url: str, timestamp: str) -> CaptureRef | None:
    """Return the first capture of a URL in a later second."""
    start = _shift(to_datetime(timestamp), seconds=1)
    query = Query(range=url_range(url, "exact"), start=start, limit=1)
    found = next(parse_index_lines(run_query(index, query)), None) if start else None
    return found.capture if found else None


def _periods(there: datetime) -> Iterator[tuple[str, str]]:
    for days in WINDOWS:
        start, end = _shift(there, days=-days), _shift(there, days=days)
        if start and end:
            yield start, end


def _shift(there: datetime, *, days: int = 0, seconds: int = 0) -> str | None:
    try:
        return from_datetime(there + timedelta(days=days, seconds=seconds))
    except OverflowError:
        return None  # before the year 1, after 9999


def parse_index_lines(raw: Iterable[bytes]) -> Iterator[IndexLine]:
    """Parse lines of an index. Lines that cannot be parsed are skipped and logged."""
    for line in raw:
        try:
            yield read_index_line(line)
        except BadInput as error:
            log.warning("skipped an index line: %s", error)
