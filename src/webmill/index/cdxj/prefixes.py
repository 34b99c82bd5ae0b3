"""Finds lines that begin with one of many prefixes, in a time that hardly depends on their number."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from webmill.index.lines import Batch
from webmill.index.order import is_sorted, successor


class Prefixes:
    """Sorted prefixes, none of which begins with another: only the greatest one not above a line can match it."""

    def __init__(self, prefixes: Iterable[bytes]) -> None:
        self.sorted: list[bytes] = []
        for prefix in sorted(set(prefixes)):
            if not self.sorted or not prefix.startswith(self.sorted[-1]):
                self.sorted.append(prefix)

    def partition(self, batch: Batch) -> tuple[Batch, Batch]:
        """Return the lines that begin with none of the prefixes, and those that do."""
        if not self.sorted:
            return batch, []
        if not is_sorted(batch):
            return self._by_line(batch, self.sorted)
        near = self.sorted[max(0, bisect_right(self.sorted, batch[0]) - 1) : bisect_right(self.sorted, batch[-1])]
        return self._by_line(batch, near) if len(near) > len(batch) else self._by_range(batch, near)

    def _by_range(self, batch: Batch, near: list[bytes]) -> tuple[Batch, Batch]:
        kept: Batch = []
        cut: Batch = []
        done = 0
        for prefix in near:
            start = bisect_left(batch, prefix, done)
            if start == len(batch):
                break
            if batch[start].startswith(prefix):
                above = successor(prefix)
                end = len(batch) if above is None else bisect_left(batch, above, start)
                kept += batch[done:start]
                cut += batch[start:end]
                done = end
        return (kept + batch[done:], cut) if cut else (batch, cut)

    def _by_line(self, batch: Batch, near: list[bytes]) -> tuple[Batch, Batch]:
        kept: Batch = []
        cut: Batch = []
        for line in batch:
            place = bisect_right(near, line) - 1
            (cut if place >= 0 and line.startswith(near[place]) else kept).append(line)
        return kept, cut
