"""Reads the published versions of a site, with a small cache: the content of a version never changes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar, cast

from webmill.errors import NotFound
from webmill.forgotten import forgotten_in
from webmill.infra.storage.base import Storage
from webmill.publish import history
from webmill.publish.changes import SUMMARY, ChangeSummary, PageChange, part_key
from webmill.publish.facets import FacetValue
from webmill.publish.keys import check_version
from webmill.publish.manifest import read_file, read_manifest, read_version_index
from webmill.publish.types import ItemIndex, PublishProblem, Version, VersionManifest, decode
from webmill.publish.version import STATS, VersionStats
from webmill.publish.version_items import SourceStatus

T = TypeVar("T")

NOTHING_PUBLISHED = "nothing is published here yet; run `webmill publish documents`"
KEPT = 64  # files of versions, decoded
KEPT_ROWS = 200_000  # items and shards in them


class PublishedVersions:
    """The published versions. Thread-safe."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], tuple[object, int]] = OrderedDict()

    # --- versions ---

    def versions(self) -> list[Version]:
        """Return all versions, oldest first."""
        last = history.read_last_record(self.storage)
        return history.versions_at(self.storage, last) if last else []

    def live(self) -> Version:
        """Return the live version, or raise `NotFound` if nothing is published."""
        try:
            return history.live_version(self.storage)
        except NotFound:
            raise NotFound(NOTHING_PUBLISHED) from None

    def find(self, name: str) -> Version:
        """Return a version by name; an empty name is the live version."""
        if not name:
            return self.live()
        check_version(name)
        for version in self.versions():
            if version.version == name:
                return version
        raise NotFound(f"there is no version {name}; it may have been removed")

    # --- files of a version ---

    def manifest(self, version: Version) -> VersionManifest:
        return self._cached(version, "", lambda: read_manifest(self.storage, version), rows=lambda one: len(one.files))

    def index(self, version: Version, key: str = "") -> ItemIndex:
        """Return an index of items; of all items if no key is given."""
        name = key or "all items"
        return self._cached(version, name, lambda: read_version_index(self.storage, version, key), rows=_rows)

    def counts(self, version: Version) -> VersionStats:
        return self._read_json(version, STATS, VersionStats)

    def facets(self, version: Version) -> dict[str, list[FacetValue]]:
        """Return the values of each facet, without domains that were taken down."""
        found = self._read_json(version, "meta/facets.json", dict[str, list[FacetValue]])
        forgotten = forgotten_in(self.storage)
        if not forgotten or "domain" not in found:
            return found
        shown = [one for one in found["domain"] if not forgotten.covers(f"http://{one.value}/")]
        return {**found, "domain": shown}

    def sources(self, version: Version) -> list[SourceStatus]:
        return self._read_json(version, "meta/sources.json", list[SourceStatus])

    def problems(self, version: Version) -> list[PublishProblem]:
        return self._read_json(version, "aux/errors.json", list[PublishProblem])

    def change_summary(self, version: Version) -> ChangeSummary | None:
        """Return how many changes by text a version has; None if an earlier webmill published it."""
        if not any(entry.key == SUMMARY for entry in self.manifest(version).files):
            return None
        return self._read_json(version, SUMMARY, ChangeSummary)

    def changes(self, version: Version, part: int) -> list[PageChange]:
        """Return a part of the changes by text (`ChangeSummary.parts`)."""
        return self._read_json(version, part_key(part), list[PageChange])

    def _read_json(self, version: Version, key: str, type_: type[T]) -> T:
        def read() -> T:
            return decode(read_file(self.storage, version, key), type_, source=key)

        return self._cached(version, key, read, rows=_length)

    def _cached(self, version: Version, key: str, read: Callable[[], T], *, rows: Callable[[T], int]) -> T:
        name = (version.version, key)
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
                return cast("T", self._kept[name][0])
        value = read()  # two threads may read at once; the result is the same
        with self._lock:
            self._kept[name] = value, rows(value)
            while len(self._kept) > 1 and (len(self._kept) > KEPT or self._kept_rows() > KEPT_ROWS):
                self._kept.popitem(last=False)
        return value

    def _kept_rows(self) -> int:
        return sum(rows for _, rows in self._kept.values())


def _rows(index: ItemIndex) -> int:
    return len(index.items or ()) + len(index.shards or ())


def _length(value: object) -> int:
    """Return the number of rows; of facets, of all their values."""
    if isinstance(value, dict):
        return sum(map(len, value.values()))
    return len(value) if isinstance(value, list) else 1
