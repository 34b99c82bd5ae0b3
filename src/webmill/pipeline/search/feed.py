"""Bring a search index up to the live version: only what changed since the version that it has is read.

    cursor "A"        everything up to version A is in the index, and nothing else
    cursor "A>B"      on the way from A to B: some of B's changes may be in it

The way is noted before the first change. Killed on it, the next update goes that way to its end, whatever has been
published since: an item that was changed and changed back is in no difference between the two ends. When a version
that the cursor names is gone, the index is compared with the live version, item by item.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator

import msgspec

from webmill.errors import BadInput, NotFound
from webmill.formats.preferences.notes import read_summary
from webmill.formats.preferences.statements import SEARCH
from webmill.infra.storage.base import Storage
from webmill.pipeline.progress import ProgressReporter
from webmill.pipeline.search.documents import item_mark, to_indexed
from webmill.publish import history
from webmill.publish.diff import pair_up, unshared_items
from webmill.publish.manifest import read_version_index
from webmill.publish.shards import read_items
from webmill.publish.types import ItemIndex, PublishedItem, Version
from webmill.search.base import UNKNOWN_VERSION, IndexedDocument, SearchEngine, key_of

log = logging.getLogger(__name__)

BATCH = 2_000  # documents
BATCH_TEXT = 32 << 20  # characters of text in memory at once


WantItem = Callable[[PublishedItem], bool]


def is_searchable(item: PublishedItem) -> bool:
    """Tell whether the site of a page lets search find it, as far as it says."""
    usage = item.metadata.get("usage")
    return not isinstance(usage, str) or read_summary(usage).get(SEARCH) is not False


def any_item(_: PublishedItem) -> bool:
    return True


class _VersionGone(Exception):
    """A version between the two was deleted. What an engine does not find is another error."""


class FeedReport(msgspec.Struct, kw_only=True):
    version: str
    changed: int = 0
    removed: int = 0
    skipped: list[str] = []  # ids whose blobs could not be read
    compared: bool = False  # with all of the version, since the one before it is gone


def update(
    storage: Storage,
    engine: SearchEngine,
    *,
    progress: ProgressReporter,
    wants: WantItem = is_searchable,
    version: Version | None = None,
) -> FeedReport:
    """Update the index to the live version, or to `version`. Raise `NotFound` if nothing has been published. Items that
    are not wanted are not in it."""
    live = version or history.live_version(storage)
    fed = FeedReport(version=live.version)
    here, _, way = (engine.cursor() or "").partition(">")
    try:
        if way:
            _move_to(storage, engine, here, way, fed, progress=progress, wants=wants)
        if (way or here) != live.version:
            _move_to(storage, engine, way or here, live.version, fed, progress=progress, wants=wants)
    except _VersionGone:  # what is in the index is known by looking only
        _compare_all(storage, engine, live, fed, progress=progress, wants=wants)
    return fed


def reconcile(
    storage: Storage, engine: SearchEngine, *, progress: ProgressReporter, wants: WantItem = is_searchable
) -> FeedReport:
    """Compare with all of the live version: what was lost, doubled or left over on the way is mended."""
    live = history.live_version(storage)
    fed = FeedReport(version=live.version)
    _compare_all(storage, engine, live, fed, progress=progress, wants=wants)
    return fed


def _move_to(
    storage: Storage,
    engine: SearchEngine,
    here: str,
    way: str,
    fed: FeedReport,
    *,
    progress: ProgressReporter,
    wants: WantItem,
) -> None:
    """Bring the index from one version to another. Raise `_VersionGone` if one of them was deleted."""
    try:
        old = read_version_index(storage, history.find_version(storage, here)) if here else None
        new = read_version_index(storage, history.find_version(storage, way))
    except NotFound as error:
        raise _VersionGone from error
    engine.apply((), (), cursor=f"{here}>{way}")
    changes = ((was, now if now and wants(now) else None) for was, now in _changes(storage, old, new))
    _apply(storage, engine, (pair for pair in changes if pair != (None, None)), way, fed, progress=progress)


def _changes(
    storage: Storage, old: ItemIndex | None, new: ItemIndex
) -> Iterator[tuple[PublishedItem | None, PublishedItem | None]]:
    try:
        yield from (pair for pair in pair_up(*unshared_items(storage, old, new)) if pair[0] != pair[1])
    except NotFound as error:  # gc took a shard meanwhile
        raise _VersionGone from error


def _compare_all(
    storage: Storage,
    engine: SearchEngine,
    live: Version,
    fed: FeedReport,
    *,
    progress: ProgressReporter,
    wants: WantItem,
) -> None:
    """Compare the index with a whole version. Memory holds the key and mark of everything in the index."""
    fed.compared = True
    engine.apply((), (), cursor=f"{UNKNOWN_VERSION}>{live.version}")
    _apply(storage, engine, _differences(storage, engine, live, wants), live.version, fed, progress=progress)


def _differences(
    storage: Storage, engine: SearchEngine, live: Version, wants: WantItem
) -> Iterator[tuple[PublishedItem | None, PublishedItem | None]]:
    there = dict(engine.keys())
    for item in read_items(storage, read_version_index(storage, live)):
        if wants(item) and there.pop(key_of(item.id), None) != item_mark(item):
            yield None, item
    for key in there:
        yield PublishedItem(key, "", ""), None


def differences(storage: Storage, engine: SearchEngine, *, wants: WantItem = is_searchable) -> tuple[int, int]:
    """Return how many documents `reconcile` would add, and remove."""
    found = [now is not None for _, now in _differences(storage, engine, history.live_version(storage), wants)]
    return sum(found), len(found) - sum(found)


def _apply(
    storage: Storage,
    engine: SearchEngine,
    changes: Iterable[tuple[PublishedItem | None, PublishedItem | None]],
    end: str,
    fed: FeedReport,
    *,
    progress: ProgressReporter,
) -> None:
    documents: list[IndexedDocument] = []
    removed: list[str] = []
    size = 0
    with progress("search", unit="documents") as bar:
        for was, now in changes:
            if now is None:
                assert was
                removed.append(was.id)
            else:
                try:
                    documents.append(to_indexed(storage, now, version=end))
                    size += len(documents[-1].text or "")
                except (BadInput, NotFound) as error:
                    log.warning("a blob is not in the search index", extra={"id": now.id, "why": str(error)})
                    fed.skipped.append(now.id)
                    removed.append(now.id)
            if len(documents) + len(removed) >= BATCH or size >= BATCH_TEXT:
                bar.advance(_flush(engine, documents, removed, fed, cursor=None))
                size = 0
        bar.advance(_flush(engine, documents, removed, fed, cursor=end))


def _flush(
    engine: SearchEngine, documents: list[IndexedDocument], removed: list[str], fed: FeedReport, *, cursor: str | None
) -> int:
    engine.apply(documents, removed, cursor=cursor)
    count = len(documents) + len(removed)
    fed.changed += len(documents)
    fed.removed += len(removed)
    documents.clear()
    removed.clear()
    return count
