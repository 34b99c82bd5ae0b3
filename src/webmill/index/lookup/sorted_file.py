"""Binary search over sorted lines: in bytes, a mapped file, or pages of a stored value."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

from webmill.errors import BadInput
from webmill.infra.storage.base import Readable, Stat

PAGE = 16 << 10
FOR_LINES = 16  # times the longest line that is compared whole: how far the next one is looked for
CACHED_PAGES = 256  # the upper levels of the search stay cached between queries


CheckPage = Callable[[int, bytes], bytes]  # by its number: returns the page, or raises what is wrong with it


class SortedBytes(Protocol):
    """Sorted lines: `bytes`, `mmap` or `Pages`."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> bytes: ...

    def find(self, sub: bytes, start: int, end: int, /) -> int: ...


class Pages:
    """One value of a storage, read page by page on demand. `Conflict` when it is replaced meanwhile.

    It is read, not mapped: truncating a mapped file kills the process. Threads may share it.
    """

    def __init__(
        self,
        storage: Readable,
        stat: Stat,
        *,
        page: int = PAGE,
        cached: int = CACHED_PAGES,
        check: CheckPage = lambda _, data: data,
    ) -> None:
        self.stat, self._check = stat, check
        self._storage = storage
        self._size = page
        self._page = lru_cache(maxsize=cached)(self._read)

    def __len__(self) -> int:
        return self.stat.size

    def __getitem__(self, part: slice, /) -> bytes:
        start, end, _ = part.indices(self.stat.size)
        first = start // self._size
        pages = [self._page(number) for number in range(first, -(-end // self._size))]
        return b"".join(pages)[start - first * self._size : max(start, end) - first * self._size]

    def find(self, sub: bytes, start: int, end: int, /) -> int:
        """Find a single byte, which cannot span two pages."""
        assert len(sub) == 1
        end = min(end, self.stat.size)
        while start < end:
            base = start - start % self._size
            at = self._page(base // self._size).find(sub, start - base, end - base)
            if at >= 0:
                return base + at
            start = base + self._size
        return -1

    def _read(self, number: int) -> bytes:
        start = number * self._size
        length = min(self._size, self.stat.size - start)
        data = self._storage.read(self.stat.key, start=start, length=length, etag=self.stat.etag or None)
        return self._check(number, data)


def lower_bound(view: SortedBytes, key: bytes, *, low: int = 0, max_line: int) -> int:
    """Return the offset of the first line not below `key`. `low` is the start of a line; all before it are below."""
    return bracket_key(view, key, low=low, max_line=max_line)[1]


def bracket_key(view: SortedBytes, key: bytes, *, low: int = 0, max_line: int) -> tuple[int, int]:
    """Return the offsets of the last line below `key` (`low` if there is none) and of the first that is not below it.

    Of a line longer than `max_line`, only the beginning is compared.
    """
    return partition_point(view, lambda line: line < key, low=low, max_line=max_line)


def partition_point(
    view: SortedBytes, is_below: Callable[[bytes], bool], *, low: int = 0, high: int | None = None, max_line: int
) -> tuple[int, int]:
    """Return the same offsets where `is_below` turns from True to False."""
    below, high = low, len(view) if high is None else high
    while low < high:
        middle = (low + high) // 2
        start = line_start(view, middle, most=FOR_LINES * max_line)
        if start >= high:
            high = middle
            continue
        line = line_at(view, start, max_line=max_line)
        if is_below(line):
            below, low = start, start + len(line)
        else:
            high = middle
    return below, low


def line_start(view: SortedBytes, position: int, *, most: int | None = None) -> int:
    """Return the start of the first line at `position` or later; the end if there is none.

    BadInput: there is none in the next `most` bytes. A server may call a petabyte of anything an index.
    """
    if position == 0:
        return 0
    end = len(view) if most is None else min(len(view), position - 1 + most)
    found = view.find(b"\n", position - 1, end) + 1
    if not found and end < len(view):
        source = view.stat.key if isinstance(view, Pages) else None
        raise BadInput(f"no line ends within {most:,} bytes", reason="line_too_long", source=source, offset=position)
    return found or len(view)


def line_at(view: SortedBytes, start: int, *, max_line: int) -> bytes:
    end = view.find(b"\n", start, start + max_line) + 1
    return view[start : end or start + max_line]
