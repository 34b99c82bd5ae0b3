"""The items of a version that differs from the live one in some items: only shards that hold one of them are read.

Every file gets the bytes that it would have if all items had been added. What is not looked at is not checked:
`webmill publish verify` does that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import NoReturn

import msgspec

from webmill.errors import BadInput, Misconfigured
from webmill.infra.storage.base import Readable
from webmill.publish.blobs import read_blob
from webmill.publish.facets import FacetValue, ItemFacets
from webmill.publish.index_patch import IndexPatch
from webmill.publish.inherited_metadata import inherit_metadata
from webmill.publish.manifest import ALL_ITEMS, items_folder, read_entry, read_manifest
from webmill.publish.shards import read_index
from webmill.publish.types import ItemIndex, PublishedItem, PublishProblem, Version, decode, encode
from webmill.publish.version_items import FacetValues, ItemPair, PutShard, SourceStatus

FACETS_FILE = "meta/facets.json"
CACHED_SHARDS = 1024  # about 13 MB; the shards of a facet are mostly those of all items
_items = msgspec.json.Decoder(PublishedItem)
_faceted = msgspec.json.Decoder(ItemFacets)


class PatchedItems:
    """The items of `previous`, with others for some ids (None: the item is removed). All of them count as fresh.

    `carried`: the names of metadata that an item keeps as long as its content is the same.
    """

    def __init__(
        self,
        storage: Readable,
        previous: Version,
        changes: dict[str, PublishedItem | None],
        *,
        facets: Iterable[str],
        carried: Iterable[str],
    ) -> None:
        self.merged = 0
        self.problems: list[PublishProblem] = []
        self.damaged: set[str] = set()
        self._storage, self._previous, self._changes = storage, previous, changes
        manifest = read_manifest(storage, previous)
        self._files = {entry.key: entry for entry in manifest.files}
        self._folder = items_folder(manifest)
        self._carried = frozenset(carried)
        self._read = lru_cache(CACHED_SHARDS)(partial(read_blob, storage))
        self._before: dict[bytes, bytes] = {}
        self._after: dict[bytes, bytes] = {}
        ids = sorted(id_.encode() for id_ in changes)
        self._patch = IndexPatch(self._index(self._folder + ALL_ITEMS), ids, self._change, read=self._read)
        self.count = self.fresh = self._patch.count
        self._source = next((item.source for item in changes.values() if item), "")
        self._old_values = self._read_values()
        self._moves = {facet: self._moves_of(facet) for facet in facets}
        self.facets = {facet: self._counts(facet) for facet in facets}

    def rows(self) -> NoReturn:
        raise Misconfigured("this layout needs all items of a version: publish it with --force")

    def differing(
        self,
        storage: Readable,  # noqa: ARG002  all are in memory
        old: ItemIndex | None,  # noqa: ARG002
        new: ItemIndex,  # noqa: ARG002
    ) -> ItemPair:
        """Return the items that were there before and those that are there now, of those that were changed."""
        return _in_order(self._before), _in_order(self._after)

    def sources(self, failed: set[str], *, expected: set[str]) -> list[SourceStatus]:
        """Return the one source of all items. A source that fails is for those who add all items."""
        if failed or expected:
            raise Misconfigured("a version with failed or expected sources is made of all its items")
        before = decode(self._file("meta/sources.json"), list[SourceStatus], source="meta/sources.json")
        if len(before) != 1 or before[0].stale or self._source not in ("", before[0].source):
            raise BadInput("the version before has other sources", reason="other_sources", source="meta/sources.json")
        return [msgspec.structs.replace(before[0], items=self.count)] if self.count else []

    def write_all(self, *, put: PutShard, inline: int) -> bytes:
        return self._patch.write(put=put, inline=inline)

    def write_facets(
        self,
        values: FacetValues,
        *,
        put: PutShard,
        folder: Path,  # noqa: ARG002  for temporary files, of which there are none
        inline: int,
    ) -> Iterator[tuple[str, bytes]]:
        """Yield (key, bytes) of each file of a facet's value."""
        for facet, found in values.items():
            old = {value.value: value for value in self._old_values.get(facet, ())}
            for value in found:
                yield value.key, self._facet_file(facet, value, old.get(value.value), put=put, inline=inline)

    def _facet_file(
        self, facet: str, value: FacetValue, old: FacetValue | None, *, put: PutShard, inline: int
    ) -> bytes:
        moved = self._moves[facet].get(value.value)
        if old and not moved:
            return self._file(old.key)
        index = self._index(old.key) if old else None
        return IndexPatch(index, sorted(moved or ()), self._move(moved or {}), read=self._read).write(
            put=put, inline=inline
        )

    def _change(self, id_: bytes, line: bytes | None) -> bytes | None:
        """Return the new line of an item, and remember both."""
        item = self._changes[id_.decode()]
        if line is not None:
            self._before[id_] = line
        if item is None:
            return None
        if line is not None:
            item = inherit_metadata(self._carried, item, _items.decode(line))
        self._after[id_] = encode(item)
        return self._after[id_]

    @staticmethod
    def _move(moved: dict[bytes, bytes | None]) -> Callable[[bytes, bytes | None], bytes | None]:
        return lambda id_, _: moved[id_]

    def _moves_of(self, facet: str) -> dict[str, dict[bytes, bytes | None]]:
        """Return by value of a facet what changes in its file."""
        moves: dict[str, dict[bytes, bytes | None]] = {}
        for id_ in self._before.keys() | self._after.keys():
            was, now = self._before.get(id_), self._after.get(id_)
            if was == now:
                continue
            if was is not None and (value := _faceted.decode(was).facets.get(facet)) is not None:
                moves.setdefault(value, {})[id_] = None
            if now is not None and (value := _faceted.decode(now).facets.get(facet)) is not None:
                moves.setdefault(value, {})[id_] = now
        return moves

    def _counts(self, facet: str) -> dict[str, int]:
        counts: Counter[str] = Counter({one.value: one.count for one in self._old_values.get(facet, ())})
        for line in self._before.values():
            if (value := _faceted.decode(line).facets.get(facet)) is not None:
                counts[value] -= 1
        for line in self._after.values():
            if (value := _faceted.decode(line).facets.get(facet)) is not None:
                counts[value] += 1
        return {value: count for value, count in counts.items() if count}

    def _read_values(self) -> dict[str, list[FacetValue]]:
        return decode(self._file(FACETS_FILE), dict[str, list[FacetValue]], source=FACETS_FILE)

    def _index(self, key: str) -> ItemIndex:
        return read_index(self._file(key), source=key)

    def _file(self, key: str) -> bytes:
        if key not in self._files:
            raise BadInput("the version before has no such file", reason="missing_file", source=key)
        return read_entry(self._storage, self._previous, self._files[key])


def _in_order(lines: dict[bytes, bytes]) -> Iterator[PublishedItem]:
    return (_items.decode(line) for _, line in sorted(lines.items()))
