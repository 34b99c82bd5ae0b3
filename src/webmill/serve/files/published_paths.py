"""Maps request paths to published files: a checked storage key and the expected hash."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from msgspec import Struct

from webmill.errors import NotFound
from webmill.infra.storage.base import Storage
from webmill.publish import history
from webmill.publish.keys import LATEST, MANIFEST, SNAPSHOTS, blob_key, hash_of_key, version_folder, version_of_key
from webmill.publish.manifest import read_manifest
from webmill.publish.types import Version

POINTER = b"public, max-age=10, stale-while-revalidate=30, stale-if-error=86400"
IMMUTABLE = b"public, max-age=31536000, immutable"
ABOUT_A_VERSION = b"public, max-age=60"
MOST_MANIFESTS = 64
NOT_PUBLISHED = "no published file has this path"


class PublishedFile(Struct, frozen=True):
    """A file and its Cache-Control `policy`. `sha256` is empty for the pointer, which changes."""

    key: str
    sha256: str
    policy: bytes


class PublishedPaths:
    """Resolves paths to published files. Thread-safe."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._lock = Lock()
        self._stamp = ""  # etag of the pointer when the versions were read
        self._versions: dict[str, Version] = {}
        self._manifests: OrderedDict[str, dict[str, str]] = OrderedDict()  # hashes by name, of each version

    def resolve(self, path: str) -> PublishedFile:
        """Return the published file at `path`, or raise `NotFound`."""
        if path == f"/{LATEST}":
            return PublishedFile(LATEST, "", POINTER)
        hash_ = hash_of_key(path)
        if hash_ and path == f"/{blob_key(hash_)}":
            return PublishedFile(blob_key(hash_), hash_, IMMUTABLE)
        version = version_of_key(path[1:])
        if not version or not path.startswith(f"/{SNAPSHOTS}"):
            raise NotFound(NOT_PUBLISHED)
        name = path.removeprefix(f"/{SNAPSHOTS}{version}/")
        with self._lock:
            sha256 = self._hashes(version).get(name)
        if not sha256:
            raise NotFound(NOT_PUBLISHED)
        policy = ABOUT_A_VERSION if name.startswith("aux/") else IMMUTABLE
        return PublishedFile(version_folder(version) + name, sha256, policy)

    def _hashes(self, version: str) -> dict[str, str]:
        """Return the hashes of a committed version by file name; unfinished versions are not found."""
        committed = self._find_version(version)
        if version not in self._manifests:
            found = {entry.key: entry.sha256 for entry in read_manifest(self._storage, committed).files}
            self._manifests[version] = found | {MANIFEST: committed.manifest_sha256}
            if len(self._manifests) > MOST_MANIFESTS:
                self._manifests.popitem(last=False)
        return self._manifests[version]

    def _find_version(self, version: str) -> Version:
        """Return a committed version. The history is read again only when the pointer has changed."""
        stamp = self._storage.stat(LATEST).etag
        if stamp != self._stamp:
            last = history.read_last_record(self._storage)
            found = history.versions_at(self._storage, last) if last else []
            self._versions = {one.version: one for one in found}
            self._stamp = stamp
        if version not in self._versions:
            raise NotFound(NOT_PUBLISHED)
        return self._versions[version]
