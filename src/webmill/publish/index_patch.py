"""An index with some items changed: the bytes that writing all items would give, with only a few shards read.

Where a shard begins depends on ids (shards.py), so a change reaches no further than the next shards that begin by the
rule. Shards that begin since the one before was full do not: they are cut again together with it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise
from typing import TypeAlias

import msgspec

from webmill.errors import BadInput
from webmill.publish.rows import Row
from webmill.publish.shards import begins_a_shard, cut_into_shards, format_index, store_shard, write_index
from webmill.publish.types import IndexShard, ItemIndex, encode

ReadBlob: TypeAlias = Callable[[str], bytes]
# Called with an id and the encoded item that it had, if there was one. Returns the new one; None: it is removed.
ChangeItem: TypeAlias = Callable[[bytes, bytes | None], bytes | None]
KeptShards: TypeAlias = tuple[IndexShard, ...]


class _ItemId(msgspec.Struct, gc=False):
    """The part of a `PublishedItem` by which it is sorted: nothing else is decoded."""

    id: str


_ids = msgspec.json.Decoder(_ItemId)


class IndexPatch:
    """An index whose items of these ids, which are sorted, are changed."""

    def __init__(self, index: ItemIndex | None, ids: Sequence[bytes], change: ChangeItem, *, read: ReadBlob) -> None:
        self._read, self._change = read, change
        self._parts: list[KeptShards | list[Row]] = []
        groups = group_shards(index.shards or ()) if index else []
        if not groups:
            rows = [(item.id.encode(), encode(item)) for item in (index.items if index else None) or ()]
            self._add_rows(self._changed(rows, ids))
            return
        ends = [bisect_left(ids, group[0].first.encode()) for group in groups[1:]] + [len(ids)]
        for group, (start, end) in zip(groups, pairwise([0, *ends]), strict=True):
            self._add(group, ids[start:end])

    @property
    def count(self) -> int:
        """Return how many items the index has now."""
        return sum(sum(shard.count for shard in part) if isinstance(part, tuple) else len(part) for part in self._parts)

    def write(self, *, put: Callable[[bytes], str], inline: int) -> bytes:
        """Return the bytes of the index file; `put` stores a shard."""
        if self.count <= inline:
            rows = chain.from_iterable(self._rows_of(part) if isinstance(part, tuple) else part for part in self._parts)
            return write_index(rows, put=put, inline=inline)
        shards: list[IndexShard] = []
        for part in self._parts:
            shards += part if isinstance(part, tuple) else [store_shard(rows, put) for rows in cut_into_shards(part)]
        return format_index(shards)

    def _add(self, group: KeptShards, ids: Sequence[bytes]) -> None:
        if not ids:
            self._parts.append(group)
            return
        rows = self._changed(self._rows_of(group), ids)
        if rows and self._parts and not begins_a_shard(rows[0][0]):  # its first item is gone: it joins those before it
            before = self._parts.pop()
            rows = [*(self._rows_of(before) if isinstance(before, tuple) else before), *rows]
        self._add_rows(rows)

    def _add_rows(self, rows: list[Row]) -> None:
        if rows:
            self._parts.append(rows)

    def _changed(self, rows: list[Row], ids: Sequence[bytes]) -> list[Row]:
        lines: dict[bytes, bytes | None] = dict(rows)
        for id_ in ids:
            lines[id_] = self._change(id_, lines.get(id_))
        return sorted((id_, line) for id_, line in lines.items() if line is not None)

    def _rows_of(self, shards: KeptShards) -> list[Row]:
        return [row for shard in shards for row in rows_of_shard(self._read(shard.hash), source=shard.hash)]


def group_shards(shards: Sequence[IndexShard]) -> list[KeptShards]:
    """Return the shards in groups that can be cut again without looking at the others."""
    groups: list[list[IndexShard]] = []
    for shard in shards:
        if not groups or begins_a_shard(shard.first.encode()):
            groups.append([])
        groups[-1].append(shard)
    return [tuple(group) for group in groups]


def rows_of_shard(data: bytes, *, source: str) -> Iterator[Row]:
    """Yield the id and the bytes of each item. JSON has no line break inside a value, so lines are items."""
    if not (data.startswith(b"[\n") and data.endswith(b"\n]\n")):
        raise BadInput("not an array with a line for each item", reason="bad_json", source=source)
    for line in data[2:-3].split(b",\n"):
        try:
            yield _ids.decode(line).id.encode(), line
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadInput(f"cannot be read: {error}", reason="bad_json", source=source) from error
