"""Which byte ranges to ask for: the captures of a batch in the order of their files, neighbours in one request.

A request costs a server more than the bytes of a small gap: Common Crawl asks its users for few requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

import msgspec

from webmill.model import CaptureRef


class RangeLimits(msgspec.Struct, frozen=True, kw_only=True):
    gap: int = 128 << 10  # bytes between two captures that are fetched along rather than asked around
    most: int = 8 << 20  # bytes of one request, unless a single capture has more
    item: int = 64 << 20  # stored bytes of one capture; the index may name any number


class ByteRange(msgspec.Struct, frozen=True, kw_only=True):
    """`[start, end)` of a file, and which items of the batch lie in it."""

    filename: str
    start: int
    end: int
    items: tuple[int, ...]

    @property
    def length(self) -> int:
        return self.end - self.start


def plan_ranges(captures: Mapping[int, CaptureRef], *, limits: RangeLimits) -> Iterator[list[ByteRange]]:
    """The ranges of one file after the other, each in the order of the file. Keys are the numbers of the items."""
    placed = sorted(captures.items(), key=lambda pair: (pair[1].filename, pair[1].offset, pair[1].length, pair[0]))
    for _, group in groupby(placed, key=lambda pair: pair[1].filename):
        yield list(_merged(group, limits=limits))


def _merged(placed: Iterable[tuple[int, CaptureRef]], *, limits: RangeLimits) -> Iterator[ByteRange]:
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
