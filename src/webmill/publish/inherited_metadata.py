"""Metadata that say where the content of an item was first seen. They stay as long as the content does, so that an
item that was only seen again is unchanged and costs no write.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from webmill.publish.types import PublishedItem


class InheritedMetadata:
    """Copies the metadata of these names from the previous version, whose items come in the order of ids."""

    def __init__(self, names: Iterable[str], previous: Iterable[PublishedItem]) -> None:
        self._names = frozenset(names)
        self._previous = iter(previous)
        self._current: PublishedItem | None = next(self._previous, None)

    def inherit(self, item: PublishedItem) -> PublishedItem:
        """Return the item with the metadata it had before if its content is the same. Call in the order of ids."""
        while self._current and self._current.id < item.id:  # by code points, which is the order of UTF-8 too
            self._current = next(self._previous, None)
        return inherit_metadata(self._names, item, self._current) if self._current else item


def inherit_metadata(names: frozenset[str], item: PublishedItem, before: PublishedItem) -> PublishedItem:
    """Return the item with the metadata of these names that it had before, if it is the same item and content."""
    if (before.id, before.hash) != (item.id, item.hash) or names.isdisjoint(before.metadata):
        return item
    if all(item.metadata.get(name) == before.metadata.get(name) for name in names):
        return item
    others = {name: value for name, value in item.metadata.items() if name not in names}
    inherited = {name: value for name, value in before.metadata.items() if name in names}
    return replace(item, metadata=others | inherited)
