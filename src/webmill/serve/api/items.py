"""Items of a version by position: any part of millions costs a few shards."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import accumulate

import msgspec

from webmill.index.lookup.query import url_range
from webmill.index.order import successor
from webmill.infra.storage.base import Readable
from webmill.publish.shards import read_shard, shown_items
from webmill.publish.types import ItemIndex, PublishedItem

_ADDRESS = re.compile(r"https?://|\*\.|[^/\s,()]+\.[^/\s,()]", re.IGNORECASE)


class IdRange(msgspec.Struct, frozen=True):
    """Ids with `start <= id < end` in UTF-8 order; an empty `end` is unbounded."""

    start: bytes = b""
    end: bytes = b""


class ItemLookup:
    """Finds the items of an index by position and by id."""

    def __init__(self, storage: Readable, index: ItemIndex) -> None:
        self._storage = storage
        self._items = index.items or ()
        self._shards = index.shards or ()
        self._ends = list(accumulate(shard.count for shard in self._shards))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else len(self._items)

    def read(self, start: int, count: int) -> list[PublishedItem]:
        """Return up to `count` items from position `start` on, without those that were taken down."""
        if not self._shards:
            return [*shown_items(self._storage, self._items[start : start + count])]
        found: list[PublishedItem] = []
        at = bisect_right(self._ends, start)
        skip = start - (self._ends[at - 1] if at else 0)
        while len(found) < skip + count and at < len(self._shards):
            found += read_shard(self._storage, self._shards[at])
            at += 1
        return [*shown_items(self._storage, found[skip : skip + count])]

    def position_of(self, key: bytes) -> int:
        """Return how many ids sort before `key`."""
        if not self._shards:
            return bisect_left(self._items, key, key=_key)
        at = bisect_right(self._shards, key, key=lambda shard: shard.first.encode()) - 1
        if at < 0:
            return 0
        before = self._ends[at - 1] if at else 0
        return before + bisect_left(read_shard(self._storage, self._shards[at]), key, key=_key)

    def bounds(self, span: IdRange) -> tuple[int, int]:
        """Return the positions where the range starts and ends."""
        return self.position_of(span.start), self.position_of(span.end) if span.end else len(self)


def id_ranges(text: str) -> list[IdRange]:
    """Return the ranges that a typed prefix may mean: of ids, or of addresses (also `*.example.org`)."""
    if not text:
        return [IdRange()]
    raw = text.encode(errors="replace")
    spans = [IdRange(raw, successor(raw) or b"")]
    if _ADDRESS.match(text):
        found = url_range(text if "*" in text else f"{text}*")
        spans.append(IdRange(found.start, found.end))
    return spans


def _key(item: PublishedItem) -> bytes:
    return item.id.encode()
