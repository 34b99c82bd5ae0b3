"""Which versions and blobs hold something that was taken down. Versions are immutable: these are closed at delivery.

A version is closed as files when its items, its changes or its differences name what was taken down; pages and APIs
show it without that. Blobs are closed that hold its content, or shards that list it. Content that another document has,
too, stays open: it is that document's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from webmill.errors import BadInput, NotFound
from webmill.forgotten import Forgotten
from webmill.infra.storage.base import Storage
from webmill.publish import history
from webmill.publish.changes import is_forgotten as is_forgotten_change
from webmill.publish.changes import read_all_changes
from webmill.publish.manifest import items_folder, read_entry, read_file, read_manifest, read_version_index
from webmill.publish.shards import is_forgotten, read_index, read_shard
from webmill.publish.types import ItemIndex, PublishedItem, PublishProblem, Version, decode

DIFF = "aux/diff.json"
ERRORS = "aux/errors.json"


class WithdrawnContent(msgspec.Struct):
    """`versions` by name, `blobs` by digest; `damaged` are versions that cannot be read: they are closed, too."""

    versions: set[str] = set()
    blobs: set[bytes] = set()
    damaged: list[str] = []


class _Id(msgspec.Struct, frozen=True):
    id: str


class _Diff(msgspec.Struct, frozen=True):
    added: list[_Id] = []
    changed: list[_Id] = []
    relabelled: list[_Id] = []
    removed: list[_Id] = []


def find_withdrawn(storage: Storage, forgotten: Forgotten) -> WithdrawnContent:
    """Return what holds something of it, of all kept versions. A shard that several share is read once, and once more
    where something was found: content that others have as well is theirs."""
    found = WithdrawnContent()
    last = history.read_last_record(storage)
    versions = history.versions_at(storage, last) if last and forgotten else []
    shards: dict[str, bool] = {}  # whether one of its items was taken down
    for version in versions:
        try:
            if _holds(storage, version, forgotten, found, shards):
                found.versions.add(version.version)
        except (BadInput, NotFound):
            found.versions.add(version.version)
            found.damaged.append(version.version)
    if found.blobs:
        for item in _all_items(storage, [one for one in versions if one.version not in found.damaged]):
            if not is_forgotten(forgotten, item):
                found.blobs.discard(bytes.fromhex(item.hash))
    return found


def _holds(
    storage: Storage, version: Version, forgotten: Forgotten, found: WithdrawnContent, shards: dict[str, bool]
) -> bool:
    closed = False
    for index in _indexes(storage, version):
        closed |= _holds_item(index.items or (), forgotten, found)
        for shard in index.shards or ():
            if shard.hash not in shards:
                shards[shard.hash] = _holds_item(read_shard(storage, shard), forgotten, found)
            if shards[shard.hash]:
                found.blobs.add(bytes.fromhex(shard.hash))
                closed = True
    closed |= any(is_forgotten_change(forgotten, one) for one in read_all_changes(storage, version))
    closed |= any(map(forgotten.covers_key, _diff_ids(storage, version)))
    return closed or any(forgotten.covers(one.url or "") for one in _problems(storage, version))


def _holds_item(items: Iterable[PublishedItem], forgotten: Forgotten, found: WithdrawnContent) -> bool:
    closed = [item for item in items if is_forgotten(forgotten, item)]
    found.blobs.update(bytes.fromhex(item.hash) for item in closed)
    return bool(closed)


def _indexes(storage: Storage, version: Version) -> Iterator[ItemIndex]:
    manifest = read_manifest(storage, version)
    folder = items_folder(manifest)
    for entry in manifest.files:
        if entry.key.startswith(folder):
            yield read_index(read_entry(storage, version, entry), source=entry.key)


def _all_items(storage: Storage, versions: Iterable[Version]) -> Iterator[PublishedItem]:
    seen: set[str] = set()
    for version in versions:
        index = read_version_index(storage, version)
        yield from index.items or ()
        for shard in index.shards or ():
            if shard.hash not in seen:
                seen.add(shard.hash)
                yield from read_shard(storage, shard)


def _diff_ids(storage: Storage, version: Version) -> Iterator[str]:
    try:
        diff = decode(read_file(storage, version, DIFF), _Diff, source=DIFF)
    except NotFound:
        return
    for ids in (diff.added, diff.changed, diff.relabelled, diff.removed):
        yield from (one.id for one in ids)


def _problems(storage: Storage, version: Version) -> list[PublishProblem]:
    try:
        return decode(read_file(storage, version, ERRORS), list[PublishProblem], source=ERRORS)
    except NotFound:
        return []
