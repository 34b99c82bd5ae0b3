"""Lookup in a sorted CDXJ file that is gzipped as a whole."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from webmill.formats.cdx.query import KeyRange
from webmill.index.columns import as_cdxj
from webmill.index.lines import GZIP_MAGIC, Batch, open_input, read_batches
from webmill.index.order import ensure_byte_order


def is_gzip(path: Path) -> bool:
    if not path.is_file():
        return False
    with open_input(path) as file:
        return file.read(len(GZIP_MAGIC)) == GZIP_MAGIC


class GzipIndex:
    """A sorted file that is gzipped as a whole. Every query reads it from the beginning to the end of the range."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def lines(self, wanted: KeyRange) -> Iterator[bytes]:
        return chain.from_iterable(self.batches(wanted))

    def batches(self, wanted: KeyRange) -> Iterator[Batch]:
        for batch in ensure_byte_order(as_cdxj(read_batches(self._path)), source=str(self._path)):
            found = batch[bisect_left(batch, wanted.start) : bisect_left(batch, wanted.end)]
            if found:
                yield found
            if batch[-1] >= wanted.end:
                return
