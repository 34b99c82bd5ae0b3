"""Plan the byte ranges to request for the captures of a batch, merging neighbours into one request.

A request costs a server more than the bytes of a small gap: Common Crawl asks its users to send few requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

import msgspec

from webmill.model import CaptureRef


class RangeLimits(msgspec.Struct, frozen=True, kw_only=True):
    gap: int = 128 << 10  # bytes between two captures that are fetched too, to save a request
    most: int = 8 << 20  # bytes of one request, unless a single capture is larger
    item: int = 64 << 20  # stored bytes of one capture; an index may state any number


class ByteRange(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes `[start, end)` of a file, and the items of the batch within them."""

    filename: str
    start: int
    end: int
    items: tuple[int, ...]

    @property
    def length(self) -> int:
        return self.end - self.start


def plan_ranges(captures: Mapping[int, CaptureRef], *, limits: RangeLimits) -> Iterator[list[ByteRange]]:
    """Yield the ranges of each file, in the order of the file. Keys are the numbers of the items."""
    placed = sorted(captures.items(), key=lambda pair: (pair[1].filename, pair[1].offset, pair[1].length, pair[0]))
    for _, group in groupby(placed, key=lambda pair: pair[1].filename):
        yield list(_merge(group, limits=limits))


def _merge(placed: Iterable[tuple[int, CaptureRef]], *, limits: RangeLimits) -> Iterator[ByteRange]:
    open_: ByteRange | None = None
    for number, capture in placed:
        if open_ and capture.offset <= open_.end + limits.gap and capture.end - open_.start <= limits.most:
            open_ = msgspec.structs.replace(open_, end=max(open_.end, capture.end), items=(*open_.items, number))
            continue
        if open_:
            yield open_
        open_ = ByteRange(filename=capture.filename, start=capture.offset, end=capture.end, items=(number,))
    if open_:
        yield open_


def total_bytes(ranges: Iterable[ByteRange]) -> int:
    return sum(part.length for part in ranges)
