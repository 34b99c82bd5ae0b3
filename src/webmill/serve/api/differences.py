"""What changed between two versions, part by part. Shards that both share are not read."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator

import msgspec

from webmill.errors import NotFound
from webmill.infra.storage.base import Readable
from webmill.publish.changes import ChangeKind
from webmill.publish.diff import CHANGES, Change, diff_items, pair_up, unshared_items
from webmill.publish.shards import find_item, shown_items
from webmill.publish.types import ItemIndex, PublishedItem, Version
from webmill.serve.api.published import NOTHING_PUBLISHED, PublishedVersions

PAGE = 25
MOST_ITEMS = 20_000  # read for one request


class ItemPair(msgspec.Struct, frozen=True):
    """An item in the old and in the new version; of one that moved, two items."""

    change: Change | ChangeKind
    old: PublishedItem | None
    new: PublishedItem | None

    @property
    def item(self) -> PublishedItem:
        item = self.new or self.old
        assert item
        return item


class Differences(msgspec.Struct, frozen=True, kw_only=True):
    """Changes between two versions. `after`: where the next part continues, None at the end. `counts`: of all changes,
    None if they are too many to count.
    """

    old: Version
    new: Version
    pairs: list[ItemPair]
    after: str | None
    counts: dict[str, int] | None


def choose_versions(published: PublishedVersions, old: str, new: str) -> tuple[str, str]:
    """Return the two names; an empty new one is the live version, an empty old one the version before."""
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
    """Return the changes after id `after`, of kind `change` if given. A part that takes too long is shorter."""
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


def find_difference(
    published: PublishedVersions, old: str, new: str, id_: str, *, moved_to: str = ""
) -> ItemPair | None:
    """Return the change of one item, or None if it is the same in both versions. `moved_to`: its id in the new one."""
    was, now = (
        find_item(published.storage, published.index(published.find(name)), one)
        for name, one in ((old, id_), (new, moved_to or id_))
    )
    return ItemPair("moved", was, now) if moved_to and was and now else _pair(was, now)


def _pairs(storage: Readable, old: ItemIndex, new: ItemIndex, *, after: str) -> Iterator[tuple[str, ItemPair | None]]:
    for was, now in pair_up(*(shown_items(storage, items) for items in unshared_items(storage, old, new))):
        item = was or now
        assert item
        if not after or item.id > after:
            yield item.id, _pair(was, now)


def _pair(was: PublishedItem | None, now: PublishedItem | None) -> ItemPair | None:
    found = next(diff_items([was] if was else [], [now] if now else []), None)
    return ItemPair(found.change, was, now) if found else None


def _from(index: ItemIndex, after: str) -> ItemIndex:
    """Return the index without the shards before this id."""
    if not after or not index.shards:
        return index
    at = bisect_right(index.shards, after, key=lambda shard: shard.first)
    return ItemIndex(index.count, shards=index.shards[max(0, at - 1) :])


def _counts(
    published: PublishedVersions, before: Version, now: Version, old: ItemIndex, new: ItemIndex
) -> dict[str, int] | None:
    """Return the number of changes per kind: as recorded for consecutive versions, else counted."""
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
