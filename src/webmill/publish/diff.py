"""What changed between two versions: a merge of two sorted streams. Shards that both have are not read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec

from webmill.infra.storage.base import Readable
from webmill.publish.shards import read_items, shown_items
from webmill.publish.types import ItemIndex, PublishedItem

Change: TypeAlias = Literal["added", "changed", "relabelled", "removed"]
CHANGES: tuple[Change, ...] = ("added", "changed", "relabelled", "removed")


class Difference(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """`changed`: other content. `relabelled`: the same content with another source, facets or metadata.

    Turning stale or fresh is no change: nothing is known to have happened to the item.
    """

    change: Change
    id: str
    old: str | None = None
    new: str | None = None


def diff_indexes(storage: Readable, old: ItemIndex | None, new: ItemIndex) -> Iterator[Difference]:
    """Yield what changed, in the order of ids; nothing of what was taken down."""
    return diff_items(*(shown_items(storage, items) for items in unshared_items(storage, old, new)))


def unshared_items(
    storage: Readable, old: ItemIndex | None, new: ItemIndex
) -> tuple[Iterator[PublishedItem], Iterator[PublishedItem]]:
    """Return the items of the shards that only one of the two indexes has.

    A shard that both have holds the same items in both, and an id is in one shard only: without it the rest is still
    sorted and still pairs up.
    """
    if old is None:
        return iter(()), read_items(storage, new)
    shared = {shard.hash for shard in old.shards or ()} & {shard.hash for shard in new.shards or ()}
    return read_items(storage, drop_shards(old, shared)), read_items(storage, drop_shards(new, shared))


def drop_shards(index: ItemIndex, shared: set[str]) -> ItemIndex:
    if index.shards is None:
        return index
    return ItemIndex(index.count, shards=tuple(shard for shard in index.shards if shard.hash not in shared))


def diff_items(old: Iterable[PublishedItem], new: Iterable[PublishedItem]) -> Iterator[Difference]:
    for was, now in pair_up(old, new):
        if now is None:
            assert was
            yield Difference("removed", was.id, old=was.hash)
        elif was is None:
            yield Difference("added", now.id, new=now.hash)
        else:
            yield from _changes(was, now)


def pair_up(
    old: Iterable[PublishedItem], new: Iterable[PublishedItem]
) -> Iterator[tuple[PublishedItem | None, PublishedItem | None]]:
    """Yield pairs of old and new item, both sorted by id; None for the one that is missing."""
    olds, news = iter(old), iter(new)
    was, now = next(olds, None), next(news, None)
    while was or now:
        order = _compare(was, now)
        yield was if order <= 0 else None, now if order >= 0 else None
        if order <= 0:
            was = next(olds, None)
        if order >= 0:
            now = next(news, None)


def _compare(was: PublishedItem | None, now: PublishedItem | None) -> int:
    if was is None or now is None:
        return 1 if was is None else -1
    # Text compares by code points, which is the order of UTF-8 too.
    return (was.id > now.id) - (was.id < now.id)


def _changes(was: PublishedItem, now: PublishedItem) -> Iterator[Difference]:
    if was.hash != now.hash:
        yield Difference("changed", was.id, old=was.hash, new=now.hash)
    elif (was.source, was.facets, was.metadata) != (now.source, now.facets, now.metadata):
        yield Difference("relabelled", was.id, old=was.hash, new=now.hash)
