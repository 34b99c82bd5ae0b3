"""What a path names among published files: a key, and what its bytes must hash to. Checked before it becomes a key."""

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
NOT_PUBLISHED = "nothing of that name was published"


class PublishedFile(Struct, frozen=True):
    """`sha256` is empty for the pointer, which changes. `policy` is how long it may be kept."""

    key: str
    sha256: str
    policy: bytes


class PublishedPaths:
    """For many threads."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._lock = Lock()
        self._stamp = ""  # of the pointer when the versions were read
        self._versions: dict[str, Version] = {}
        self._manifests: OrderedDict[str, dict[str, str]] = OrderedDict()  # hashes by name, of each version

    def resolve(self, path: str) -> PublishedFile:
        """`NotFound` for every name that is none of ours."""
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
        """Of a version that is in the history, and so is whole: those in the making are not shown."""
        committed = self._committed(version)
        if version not in self._manifests:
            found = {entry.key: entry.sha256 for entry in read_manifest(self._storage, committed).files}
            self._manifests[version] = found | {MANIFEST: committed.manifest_sha256}
            if len(self._manifests) > MOST_MANIFESTS:
                self._manifests.popitem(last=False)
        return self._manifests[version]

    def _committed(self, version: str) -> Version:
        """By reading alone, and the history only when it has grown: for a server, every name may be asked for."""
        stamp = self._storage.stat(LATEST).etag
        if stamp != self._stamp:
            last = history.read_last_record(self._storage)
            found = history.versions_at(self._storage, last) if last else []
            self._versions = {one.version: one for one in found}
            self._stamp = stamp
        if version not in self._versions:
            raise NotFound(NOT_PUBLISHED)
        return self._versions[version]
