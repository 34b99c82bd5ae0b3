"""Result pages of a query, counted in blocks of ZipNum indexes, as pywb and Common Crawl count them.

Filters, sorting and limits apply within a page: a page of a rare status may be empty, and no block is read twice. With
several indexes, the pages of one follow those of another: each page is sorted, all of them together need not be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import msgspec

from webmill.errors import BadInput
from webmill.formats.cdx.query import KeyRange
from webmill.formats.cdx.zipnum import ZipnumBlock
from webmill.index.lines import Batch
from webmill.index.lookup.indexes import CaptureIndex, MergedIndex, ZipNumIndex

PAGE_SIZE = 5  # blocks, as Common Crawl's


class PageCount(msgspec.Struct, frozen=True):
    pages: int
    size: int  # of one, in blocks
    blocks: int


def count_pages(index: CaptureIndex, wanted: KeyRange, *, size: int = PAGE_SIZE) -> PageCount:
    """Return the number of pages; none if the only block that may hold a line of the range does not."""
    blocks = [_count_filled(part, wanted) for part in _parts(index)]
    return PageCount(sum(_pages(count, size) for count in blocks), size, sum(blocks))


def page_of(index: CaptureIndex, wanted: KeyRange, *, number: int, size: int = PAGE_SIZE) -> ZipNumPage:
    """Return an index of that page alone; page 0 always exists. BadInput (bad_page) past the last."""
    before = 0
    for part in _parts(index):
        pages = _pages(part.count_blocks(wanted), size)
        if before <= number < before + pages:
            return ZipNumPage(part, wanted, first=(number - before) * size, count=size)
        before += pages
    if number == 0:
        return ZipNumPage(_parts(index)[0], wanted, first=0, count=0)
    raise BadInput(f"Page {number} invalid: First Page is 0, Last Page is {max(before, 1) - 1}", reason="bad_page")


class ZipNumPage:
    """One result page: `count` blocks of those that may hold lines of `whole`."""

    def __init__(self, index: ZipNumIndex, whole: KeyRange, *, first: int, count: int) -> None:
        self._index = index
        self._whole = whole
        self._first = first
        self._count = count

    def lines(self, wanted: KeyRange) -> Iterator[bytes]:
        return chain.from_iterable(self.batches(wanted))

    def batches(self, wanted: KeyRange) -> Iterator[Batch]:
        return self._index.batches_in_blocks(wanted, self._whole, first=self._first, count=self._count)

    def blocks(self) -> Iterator[ZipnumBlock]:
        return self._index.slice_blocks(self._whole, first=self._first, count=self._count)


def _parts(index: CaptureIndex) -> Sequence[ZipNumIndex]:
    parts = index.indexes if isinstance(index, MergedIndex) else [index]
    zipnums = [part for part in parts if isinstance(part, ZipNumIndex)]
    if len(zipnums) != len(parts):
        raise BadInput("only a ZipNum index has pages", reason="no_pages")
    return zipnums


def _pages(blocks: int, size: int) -> int:
    return -(-blocks // size)


def _count_filled(index: ZipNumIndex, wanted: KeyRange) -> int:
    count = index.count_blocks(wanted)
    return count if count != 1 or next(index.batches(wanted), None) else 0
