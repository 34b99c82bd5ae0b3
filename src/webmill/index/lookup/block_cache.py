"""A cache of decompressed blocks: decompressing one costs more than all the rest of a lookup."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock

CACHE_BYTES = 8 << 20


class BlockCache:
    """The blocks used last, of any number of indexes, up to a size. Thread-safe; two threads may read a block twice."""

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._texts: OrderedDict[Hashable, bytes] = OrderedDict()
        self._lock = Lock()
        self.size = 0

    def get(self, key: Hashable, read: Callable[[], bytes]) -> bytes:
        with self._lock:
            text = self._texts.get(key)
            if text is not None:
                self._texts.move_to_end(key)
                return text
        text = read()
        with self._lock:
            if key not in self._texts:
                self._texts[key] = text
                self.size += len(text)
            while self.size > self._max_bytes:
                self.size -= len(self._texts.popitem(last=False)[1])
        return text
