"""Metadata that tell where the content of an item is from. They stay what they were as long as the content does, so
that an item that was only seen again is the same item, and costs no write.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from webmill.publish.types import PublishedItem


class InheritedMetadata:
    """`previous`: the items of the version before, in the order of ids."""

    def __init__(self, names: Iterable[str], previous: Iterable[PublishedItem]) -> None:
        self._names = frozenset(names)
        self._previous = iter(previous)
        self._was: PublishedItem | None = next(self._previous, None)

    def onto(self, item: PublishedItem) -> PublishedItem:
        """Call it in the order of ids."""
        while self._was and self._was.id < item.id:  # by code points, which is the order of UTF-8 too
            self._was = next(self._previous, None)
        if self._was is None or (self._was.id, self._was.hash) != (item.id, item.hash):
            return item
        if self._names.isdisjoint(self._was.metadata):  # nobody knew, or it was told in other words
            return item
        if all(item.metadata.get(name) == self._was.metadata.get(name) for name in self._names):
            return item
        own = {name: value for name, value in item.metadata.items() if name not in self._names}
        was = {name: value for name, value in self._was.metadata.items() if name in self._names}
        return replace(item, metadata=own | was)
