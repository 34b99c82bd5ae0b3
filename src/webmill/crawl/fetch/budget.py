"""One memory budget for all answers that are being read.

Beyond it, answers are left waiting in the kernel, except one: that one can always go on to its end, so there is no
deadlock, and what is held is at most the budget, one answer, and one read (256 KiB) per connection.
"""

from __future__ import annotations

from typing import Protocol


class PausableReader(Protocol):
    def pause(self) -> None: ...
    def resume(self) -> None: ...


class MemoryBudget:
    def __init__(self, total: int) -> None:
        self._total = total
        self.used = 0
        self._favoured: PausableReader | None = None
        self._waiting: dict[PausableReader, None] = {}  # in the order of their coming

    def add(self, reader: PausableReader, size: int) -> None:
        self.used += size
        if self.used <= self._total or reader is self._favoured:
            return
        if self._favoured is None:
            self._favoured = reader
        else:
            self._waiting[reader] = None
            reader.pause()

    def release(self, reader: PausableReader, size: int) -> None:
        """Release all bytes of a reader: it is done with its answer."""
        self.used -= size
        self._waiting.pop(reader, None)
        if reader is self._favoured:
            self._favoured = None
        if self.used <= self._total:
            waiting, self._waiting = self._waiting, {}
            for each in waiting:
                each.resume()
        elif self._favoured is None and self._waiting:
            self._favoured = next(iter(self._waiting))
            del self._waiting[self._favoured]
            self._favoured.resume()
