"""What changed between any two versions, a page at a time. Shards that both have are not read."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator

import msgspec

from webmill.errors import NotFound
from webmill.infra.storage.base import Readable
from webmill.publish.diff import CHANGES, Change, diff_items, pair_up, unshared_items
from webmill.publish.shards import find_item
from webmill.publish.types import ItemIndex, PublishedItem, Version
from webmill.serve.api.published import NOTHING_PUBLISHED, PublishedVersions

PAGE = 25
MOST_ITEMS = 20_000  # items that one page may cost


class ItemPair(msgspec.Struct, frozen=True):
    change: Change
    old: PublishedItem | None
    new: PublishedItem | None

    @property
    def item(self) -> PublishedItem:
        item = self.new or self.old
        assert item
        return item


class Differences(msgspec.Struct, frozen=True, kw_only=True):
    """`after`: where the next page begins; None at the end. `counts`: of all changes; None when they are too many."""

    old: Version
    new: Version
    pairs: list[ItemPair]
    after: str | None
    counts: dict[str, int] | None


def choose_versions(published: PublishedVersions, old: str, new: str) -> tuple[str, str]:
    """Of those that are not named: the live one, and the one before it."""
    every = [version.version for version in published.versions()]
    if not every:
        raise NotFound(NOTHING_PUBLISHED)
    new = new or published.live().version
    if not old:
        at = every.index(new) if new in every else 0
        old = every[max(0, at - 1)]
    return old, new


def find_differences(
    published: PublishedVersions, old: str, new: str, *, change: str = "", after: str = "", limit: int = PAGE
) -> Differences:
    """`change`: only those. A page that would take too long to fill is shorter, or empty, with a next one."""
    before, now = published.find(old), published.find(new)
    indexes = published.index(before), published.index(now)
    pairs: list[ItemPair] = []
    following: str | None = None
    parts = [_from(index, after) for index in indexes]
    for seen, (id_, pair) in enumerate(_pairs(published.storage, *parts, after=after), 1):
        if pair and change in ("", pair.change):
            pairs.append(pair)
        if len(pairs) > limit:
            pairs.pop()
            following = pairs[-1].item.id
            break
        if seen == MOST_ITEMS:
            following = id_
            break
    counts = _counts(published, before, now, *indexes)
    return Differences(old=before, new=now, pairs=pairs, after=following, counts=counts)


def find_difference(published: PublishedVersions, old: str, new: str, id_: str) -> ItemPair | None:
    """Of one item; None when it is the same in both."""
    was, now = (find_item(published.storage, published.index(published.find(name)), id_) for name in (old, new))
    return _pair(was, now)


def _pairs(storage: Readable, old: ItemIndex, new: ItemIndex, *, after: str) -> Iterator[tuple[str, ItemPair | None]]:
    for was, now in pair_up(*unshared_items(storage, old, new)):
        item = was or now
        assert item
        if not after or item.id > after:
            yield item.id, _pair(was, now)


def _pair(was: PublishedItem | None, now: PublishedItem | None) -> ItemPair | None:
    found = next(diff_items([was] if was else [], [now] if now else []), None)
    return ItemPair(found.change, was, now) if found else None


def _from(index: ItemIndex, after: str) -> ItemIndex:
    """Without the shards that lie before this id."""
    if not after or not index.shards:
        return index
    at = bisect_right(index.shards, after, key=lambda shard: shard.first)
    return ItemIndex(index.count, shards=index.shards[max(0, at - 1) :])


def _counts(
    published: PublishedVersions, before: Version, now: Version, old: ItemIndex, new: ItemIndex
) -> dict[str, int] | None:
    """Noted when a version was made, of the one before it; else counted, when they are not too many."""
    if published.manifest(now).parent == before.version:
        noted = published.counts(now)
        return {change: getattr(noted, change) for change in CHANGES}
    found: Counter[str] = Counter()
    for seen, (_, pair) in enumerate(_pairs(published.storage, old, new, after=""), 1):
        if seen > MOST_ITEMS:
            return None
        if pair:
            found[pair.change] += 1
    return {change: found[change] for change in CHANGES}
