"""The files of a version: written one by one, listed with size and hash, sealed by the manifest, and read back."""

from __future__ import annotations

import hashlib
from datetime import datetime
from pathlib import Path

from webmill.errors import BadInput, NotFound
from webmill.infra.files import os_errors
from webmill.infra.storage.base import Readable, Storage, chunks_of
from webmill.publish.keys import MANIFEST, sha256, version_folder
from webmill.publish.shards import read_index
from webmill.publish.types import ItemIndex, Layout, ManifestEntry, Version, VersionManifest, decode, encode

# Where the indexes of items are. The layout "uring" has lists for its clients in `index/`, so ours are beside them.
ITEM_FOLDERS: dict[Layout, str] = {"webmill": "index/", "uring": "items/"}
ALL_ITEMS = "all.json"  # in that folder


class VersionFiles:
    """The folder of a version that is being written. Nobody else knows its name before the commit."""

    def __init__(self, storage: Storage, version: str) -> None:
        self.version = version
        self._storage = storage
        self._folder = version_folder(version)
        self._entries: list[ManifestEntry] = []

    def write(self, key: str, data: bytes | Path) -> None:
        size = self._storage.write(self._folder + key, data).size
        self._entries.append(ManifestEntry(key, size, hash_data(data)))

    def write_manifest(self, *, sequence: int, parent: str | None, at: datetime, count: int, run: str) -> Version:
        files = tuple(sorted(self._entries, key=lambda entry: entry.key))
        data = encode(VersionManifest(version=self.version, parent=parent, created_at=at, count=count, files=files))
        self._storage.write(self._folder + MANIFEST, data)
        return Version(
            version=self.version,
            sequence=sequence,
            published_at=at,
            count=count,
            manifest_sha256=sha256(data),
            manifest_bytes=len(data),
            run=run,
        )


def read_manifest(storage: Readable, version: Version) -> VersionManifest:
    key = version_folder(version.version) + MANIFEST
    data = _read_checked(storage, key, sha=version.manifest_sha256, size=version.manifest_bytes)
    return decode(data, VersionManifest, source=key)


def read_file(storage: Readable, version: Version, key: str) -> bytes:
    """Return a file of a version, with its hash checked. `NotFound` when the version has no such file."""
    for entry in read_manifest(storage, version).files:
        if entry.key == key:
            return read_entry(storage, version, entry)
    raise NotFound(f"version {version.version} has no file {key}")


def read_entry(storage: Readable, version: Version, entry: ManifestEntry) -> bytes:
    return _read_checked(storage, version_folder(version.version) + entry.key, sha=entry.sha256, size=entry.bytes)


def read_version_index(storage: Readable, version: Version, key: str = "") -> ItemIndex:
    """Return an index of items: that of a facet's value, or of all items if no key is given."""
    manifest = read_manifest(storage, version)
    wanted = key or items_folder(manifest) + ALL_ITEMS
    for entry in manifest.files:
        if entry.key == wanted:
            return read_index(read_entry(storage, version, entry), source=version_folder(version.version) + wanted)
    raise NotFound(f"version {version.version} has no file {wanted}")


def items_folder(manifest: VersionManifest) -> str:
    """Return the folder whose files are all indexes of items (`ItemIndex`)."""
    theirs = ITEM_FOLDERS["uring"]
    return theirs if any(entry.key == theirs + ALL_ITEMS for entry in manifest.files) else ITEM_FOLDERS["webmill"]


def _read_checked(storage: Readable, key: str, *, sha: str, size: int) -> bytes:
    try:
        data = storage.read(key)
    except NotFound as error:
        raise BadInput("a file of a version is missing", reason="missing_file", source=key) from error
    if len(data) != size or sha256(data) != sha:
        raise BadInput(f"its {len(data)} bytes do not have the hash of the manifest", reason="corrupt_file", source=key)
    return data


def hash_data(data: bytes | Path) -> str:
    if isinstance(data, bytes):
        return sha256(data)
    digest = hashlib.sha256()
    with os_errors(str(data)), data.open("rb") as file:
        for chunk in chunks_of(file):
            digest.update(chunk)
    return digest.hexdigest()
