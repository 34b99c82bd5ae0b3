"""The items of a new version: what this run found, and what is kept of the previous version where it failed."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec

from webmill.errors import BadInput, NotFound
from webmill.infra.storage.base import Readable
from webmill.publish.diff import unshared_items
from webmill.publish.facets import FacetValue, write_facets
from webmill.publish.inherited_metadata import InheritedMetadata
from webmill.publish.keys import blob_key
from webmill.publish.rows import Row, read_rows, write_rows
from webmill.publish.shards import write_index
from webmill.publish.types import IndexShard, ItemIndex, PublishedItem, PublishProblem, encode

_FRESH, _KEPT = 0, 1
Ranked: TypeAlias = tuple[bytes, int, bytes]
PutShard: TypeAlias = Callable[[bytes], str]  # stores a shard and returns its hash
ItemPair: TypeAlias = tuple[Iterator[PublishedItem], Iterator[PublishedItem]]
FacetValues: TypeAlias = Mapping[str, list[FacetValue]]


class SourceStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A source as `meta/sources.json` lists it. `since` is when its stale items were last seen."""

    source: str
    status: str  # fresh (maybe empty), stale (items are kept from before), missing (failed, nothing to keep)
    items: int
    stale: int = 0
    since: datetime | None = None


class CarryOver(msgspec.Struct, frozen=True):
    """Sources and single items that failed, and are carried over from the previous version."""

    sources: set[str]
    items: set[str]

    def stale(self, previous: Iterable[PublishedItem], *, at: datetime) -> Iterator[PublishedItem]:
        """Yield the items to carry over, marked stale since `at`, when the previous version was made."""
        for item in previous:
            if item.source in self.sources or item.id in self.items:
                yield item if item.stale_since else msgspec.structs.replace(item, stale_since=at)


class NewItems(Protocol):
    """The items of a new version: all of them (`VersionItems`), or what differs from before (`PatchedItems`)."""

    fresh: int
    merged: int
    problems: list[PublishProblem]
    damaged: set[str]

    @property
    def count(self) -> int: ...
    @property
    def facets(self) -> Mapping[str, Mapping[str, int]]: ...
    def rows(self) -> Iterator[Row]: ...
    def differing(self, storage: Readable, old: ItemIndex | None, new: ItemIndex) -> ItemPair: ...
    def sources(self, failed: set[str], *, expected: set[str]) -> list[SourceStatus]: ...
    def write_all(self, *, put: PutShard, inline: int) -> bytes: ...
    def write_facets(
        self, values: FacetValues, *, put: PutShard, folder: Path, inline: int
    ) -> Iterator[tuple[str, bytes]]: ...


class VersionItems:
    """All rows of the new version, sorted, in a temporary file; and counts of them."""

    def __init__(self, path: Path, *, facets: Iterable[str]) -> None:
        self.count = self.fresh = self.merged = 0
        self.problems: list[PublishProblem] = []
        self.damaged: set[str] = set()  # shards of the previous version, by hash
        self.facets: dict[str, Counter[str]] = {facet: Counter() for facet in facets}
        self._path = path
        self._items: Counter[str] = Counter()
        self._stale: Counter[str] = Counter()
        self._since: dict[str, datetime] = {}

    def rows(self) -> Iterator[Row]:
        return read_rows(self._path)

    def differing(self, storage: Readable, old: ItemIndex | None, new: ItemIndex) -> ItemPair:
        """Return the items of the index before and of this one that may differ, in the order of ids."""
        return unshared_items(storage, old, new)

    def fill(
        self, fresh: Iterable[Row], kept: Iterable[PublishedItem], *, inherited: InheritedMetadata | None = None
    ) -> None:
        write_rows(self._path, self._choose(fresh, kept, inherited))

    def report_damage(self, shard: IndexShard, error: BadInput | NotFound) -> None:
        """Report a damaged shard of the previous version: it must not prevent the next version."""
        self.damaged.add(shard.hash)
        message = f"a shard of the previous version cannot be read, so its items count as new: {error}"
        self.problems.append(PublishProblem(stage="index", url=blob_key(shard.hash), message=message))

    def sources(self, failed: set[str], *, expected: set[str]) -> list[SourceStatus]:
        return [self._source(name, failed) for name in sorted(self._items.keys() | failed | expected)]

    def write_all(self, *, put: PutShard, inline: int) -> bytes:
        return write_index(self.rows(), put=put, inline=inline)

    def write_facets(
        self, values: FacetValues, *, put: PutShard, folder: Path, inline: int
    ) -> Iterator[tuple[str, bytes]]:
        return write_facets(self.rows(), values, put=put, folder=folder, inline=inline)

    def _choose(
        self, fresh: Iterable[Row], kept: Iterable[PublishedItem], inherited: InheritedMetadata | None
    ) -> Iterator[Row]:
        """Yield one row for each id: a fresh item before a kept one, and of several fresh ones the first by bytes."""
        found: Iterator[Ranked] = ((key, _FRESH, line) for key, line in fresh)
        stale: Iterator[Ranked] = ((item.id.encode(), _KEPT, encode(item)) for item in kept)
        for key, group in groupby(heapq.merge(found, stale), key=lambda row: row[0]):
            _, rank, line = next(group)
            item = msgspec.json.decode(line, type=PublishedItem)
            self._count(item, rank)
            before = line
            if inherited and rank == _FRESH and (inheriting := inherited.inherit(item)) is not item:
                line = encode(inheriting)
            for _, other_rank, other in group:  # noqa: B031  what `next` left of it
                if other == before:
                    self.merged += 1
                elif other_rank == _FRESH:
                    self._report_duplicate(other)
                before = other
            yield key, line

    def _count(self, item: PublishedItem, rank: int) -> None:
        self.count += 1
        self.fresh += rank == _FRESH
        self._items[item.source] += 1
        if item.stale_since:
            self._stale[item.source] += 1
            self._since[item.source] = min(item.stale_since, self._since.get(item.source, item.stale_since))
        for facet, counts in self.facets.items():
            if facet in item.facets:
                counts[item.facets[facet]] += 1

    def _report_duplicate(self, other: bytes) -> None:
        item = msgspec.json.decode(other, type=PublishedItem)
        message = f"left out, since another item has the same id; its content is {item.hash}"
        self.problems.append(PublishProblem(stage="duplicate", source=item.source, item=item.id, message=message))

    def _source(self, name: str, failed: set[str]) -> SourceStatus:
        stale = self._stale[name]
        status = "stale" if stale else "missing" if name in failed else "fresh"
        return SourceStatus(
            source=name, status=status, items=self._items[name], stale=stale, since=self._since.get(name)
        )
