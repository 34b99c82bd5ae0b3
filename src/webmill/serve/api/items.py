"""The items of an index by their place in it: any page of millions costs a few shards."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import accumulate

import msgspec

from webmill.index.lookup.query import url_range
from webmill.index.order import successor
from webmill.infra.storage.base import Readable
from webmill.publish.shards import read_shard
from webmill.publish.types import ItemIndex, PublishedItem

_ADDRESS = re.compile(r"https?://|\*\.|[^/\s,()]+\.[^/\s,()]", re.IGNORECASE)


class IdRange(msgspec.Struct, frozen=True):
    """Ids with `start <= id < end`, in the order of UTF-8; an empty `end` is none."""

    start: bytes = b""
    end: bytes = b""


class ItemLookup:
    def __init__(self, storage: Readable, index: ItemIndex) -> None:
        self._storage = storage
        self._items = index.items or ()
        self._shards = index.shards or ()
        self._ends = list(accumulate(shard.count for shard in self._shards))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else len(self._items)

    def read(self, start: int, count: int) -> list[PublishedItem]:
        """From this place on; fewer at the end."""
        if not self._shards:
            return list(self._items[start : start + count])
        found: list[PublishedItem] = []
        at = bisect_right(self._ends, start)
        skip = start - (self._ends[at - 1] if at else 0)
        while len(found) < skip + count and at < len(self._shards):
            found += read_shard(self._storage, self._shards[at])
            at += 1
        return found[skip : skip + count]

    def position_of(self, key: bytes) -> int:
        """How many ids are below it."""
        if not self._shards:
            return bisect_left(self._items, key, key=_key)
        at = bisect_right(self._shards, key, key=lambda shard: shard.first.encode()) - 1
        if at < 0:
            return 0
        before = self._ends[at - 1] if at else 0
        return before + bisect_left(read_shard(self._storage, self._shards[at]), key, key=_key)

    def bounds(self, span: IdRange) -> tuple[int, int]:
        """The places that the span begins and ends at."""
        return self.position_of(span.start), self.position_of(span.end) if span.end else len(self)


def id_ranges(text: str) -> list[IdRange]:
    """What a person may mean by the beginning of something: ids as they are, or addresses (`*.example.org` too)."""
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
