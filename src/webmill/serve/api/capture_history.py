"""The captures of one address over time. They are adjacent in an index, which is sorted by address and time."""

from __future__ import annotations

from collections import Counter

import msgspec

from webmill.errors import BadInput
from webmill.formats.cdx.cdxj import parse, prefix_of
from webmill.formats.timestamps import earliest, is_timestamp, latest
from webmill.index.lookup.indexes import CaptureIndex
from webmill.index.lookup.query import url_range
from webmill.model import check_position

MOST_LINES = 200_000  # read for one request
PAGE = 100


class HistoryLine(msgspec.Struct, frozen=True, kw_only=True):
    """A capture, or a damaged line. `change` compares it with the one before: first, same, changed."""

    url: str
    timestamp: str
    status: str = ""
    mime: str = ""
    size: int | None = None  # compressed, in the archive
    change: str = ""


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Captures of an address. `days` counts all by day (20240131), `total` those of the requested period."""

    days: Counter[str]
    captures: list[HistoryLine]
    total: int
    is_cut: bool  # there are more than were read

    @property
    def years(self) -> dict[str, int]:
        years: Counter[str] = Counter()
        for day, count in self.days.items():
            years[day[:4]] += count
        return dict(sorted(years.items()))


def read_history(index: CaptureIndex, url: str, *, period: str = "", start: int = 0, count: int = PAGE) -> History:
    """Return the captures of a URL from number `start` on. `period`: 2024, 202401, 20240131; empty for all."""
    first, last = (earliest(period).encode(), latest(period).encode()) if period else (b"", b"\xff")
    days: Counter[str] = Counter()
    captures: list[HistoryLine] = []
    total = 0
    before = b""
    for seen, line in enumerate(index.lines(url_range(url, "exact"))):
        if seen == MOST_LINES:
            return History(days=days, captures=captures, total=total, is_cut=True)
        timestamp = prefix_of(line).rpartition(b" ")[2]
        if is_timestamp(timestamp):
            days[timestamp[:8].decode()] += 1
        if first <= timestamp <= last:
            if start <= total < start + count:
                captures.append(_parse_line(line, before))
            total += 1
        before = line
    return History(days=days, captures=captures, total=total, is_cut=False)


def _parse_line(line: bytes, before: bytes) -> HistoryLine:
    try:
        capture = parse(line)
    except BadInput as error:
        timestamp = prefix_of(line).rpartition(b" ")[2].decode("ascii", "replace")
        return HistoryLine(url="", timestamp=timestamp, mime=f"damaged line: {error.reason}")
    return HistoryLine(
        url=capture.text("url"),
        timestamp=capture.timestamp,
        status=capture.text("status"),
        mime=capture.text("mime"),
        size=_size(capture.text("length")),
        change=_change(capture.text("digest"), before),
    )


def _size(length: str) -> int | None:
    try:
        return check_position(length, name="length")
    except BadInput:
        return None


def _change(digest: str, before: bytes) -> str:
    if not before:
        return "first"
    try:
        return "same" if digest and parse(before).text("digest") == digest else "changed"
    except BadInput:
        return "changed"
