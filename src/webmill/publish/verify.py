"""Verify that everything published is there and whole. Names what is damaged, and what refers to it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import msgspec

from webmill.errors import BadInput, Conflict, NotFound
from webmill.infra.storage.base import Readable, Storage, chunks_of
from webmill.publish import history, pointer
from webmill.publish.blobs import restore
from webmill.publish.keys import BLOBS, HISTORY, LATEST, blob_key, hash_of_key, record_key, version_folder
from webmill.publish.manifest import items_folder, read_entry, read_manifest
from webmill.publish.shards import read_index, read_shard, shown_items
from webmill.publish.types import Commit, ItemIndex, ManifestEntry, Version

_MOST_REFERRERS = 100  # named of one blob


class StorageFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Something damaged. `referrers`: "VERSION FILE ITEM" of what refers to a blob; at most a hundred of them.

    `version`: the version it belongs to. `sha256`: of what should be there.
    """

    key: str
    reason: str
    message: str
    referrers: tuple[str, ...] = ()
    version: str = ""
    sha256: str = ""


class VerifyReport(msgspec.Struct, frozen=True):
    """What was found. `whole`: versions without known damage, the oldest first; `live` may be one of them."""

    versions: int
    files: int
    blobs: int
    findings: tuple[StorageFinding, ...]
    whole: tuple[str, ...] = ()
    live: str = ""


def verify(storage: Storage, *, read_data: bool = False) -> VerifyReport:
    """Check the history, manifests, every file of every version, every shard, and that every blob is there.

    `read_data` also reads and hashes every blob: nothing else finds bit rot and truncated files. Others may publish
    meanwhile. Nothing is written. `Conflict` when gc has run meanwhile: verify again.
    """
    verification = _Verification(storage)
    last = verification.last_record()
    for version in verification.past(last) if last else ():
        verification.version(version)
    verification.blobs()
    if read_data:
        verification.data()
    if last and any(commit.kind == "retire" for commit in _commits_after(storage, last)):
        raise Conflict("gc has run meanwhile: verify again")
    findings = tuple(verification.findings())
    live = last.commit.live.version if last else ""
    return VerifyReport(
        verification.versions,
        verification.files,
        len(verification.wanted),
        findings,
        verification.whole(findings),
        live,
    )


def repair(storage: Storage, report: VerifyReport, *, mirrors: Sequence[Readable] = ()) -> list[str]:
    """Restore damaged blobs from the trash or a mirror, files of versions from a mirror, `latest.json` from the
    history. Return the keys that were repaired.
    """
    return [finding.key for finding in report.findings if _repair(storage, finding, mirrors)]


def _repair(storage: Storage, finding: StorageFinding, mirrors: Sequence[Readable]) -> bool:
    hash_ = hash_of_key(finding.key)
    if finding.key.startswith(BLOBS) and hash_:
        return restore(storage, hash_, mirrors=mirrors)
    if finding.key == LATEST:
        last = history.read_last_record(storage)
        if last:
            pointer.rewrite_pointer(storage, last.commit)
        return last is not None
    return bool(finding.sha256) and _copy_from_mirror(storage, finding, mirrors)


def _copy_from_mirror(storage: Storage, finding: StorageFinding, mirrors: Sequence[Readable]) -> bool:
    for mirror in mirrors:
        if _hash_of(mirror, finding.key) == finding.sha256:
            with mirror.open(finding.key) as file:
                storage.write(finding.key, file)
            return _hash_of(storage, finding.key) == finding.sha256
    return False


class _Verification:
    def __init__(self, storage: Storage) -> None:
        self.versions = self.files = 0
        self.wanted: set[bytes] = set()  # digests of all blobs that are referred to
        self._storage = storage
        self._shards: set[bytes] = set()  # those that have been read
        self._bad: dict[str, StorageFinding] = {}
        self._checked: list[Version] = []

    def findings(self) -> Iterator[StorageFinding]:
        blobs = {finding.key for finding in self._bad.values() if finding.key.startswith(BLOBS)}
        referrers = self._referrers(blobs) if blobs else {}
        for key, finding in sorted(self._bad.items()):
            yield msgspec.structs.replace(finding, referrers=tuple(referrers.get(key, ())))

    def whole(self, findings: Iterable[StorageFinding]) -> tuple[str, ...]:
        """Return the versions that no finding is about; none where a blob has too many referrers to know."""
        damaged = {finding.version for finding in findings}
        for finding in findings:
            damaged.update(referrer.partition(" ")[0] for referrer in finding.referrers)
            if len(finding.referrers) == _MOST_REFERRERS:
                return ()
        return tuple(version.version for version in self._checked if version.version not in damaged)

    def last_record(self) -> history.HistoryRecord | None:
        try:
            last = history.read_last_record(self._storage)
        except BadInput as error:
            self._note(error.source or HISTORY, error)
            return None
        if not last and history.has_lost_history(self._storage) and not history.read_last_record(self._storage):
            self._add(HISTORY, "broken_history", "there are blobs but no history")
        return last

    def past(self, last: history.HistoryRecord) -> Iterator[Version]:
        """Yield the versions of the history. Each record must be the one that the next one names."""
        following: Commit | None = None
        for record in _records_backwards(self._storage, last):
            if isinstance(record, BadInput):
                self._note(record.source or "", record)
                break
            if following and following.parent != record.hash:
                self._add(
                    record_key(record.commit.sequence), "broken_history", "not the record that the next one names"
                )
            following = record.commit
        self._pointer(last)
        try:
            yield from history.versions_at(self._storage, last)
        except BadInput as error:
            self._note(error.source or "", error)
            yield last.commit.live

    def _pointer(self, last: history.HistoryRecord) -> None:
        """Check `latest.json`. One that is behind the history is no damage: the next publisher advances it."""
        try:
            now = pointer.read_pointer(self._storage)
            if now.sequence > last.commit.sequence:
                return  # others publish meanwhile
            named = history.read_record(self._storage, now.sequence)
        except NotFound:
            self._add(LATEST, "bad_pointer", "missing")
        except BadInput as error:
            self._add(LATEST, "bad_pointer", error.message)
        else:
            if not pointer.points_to(now, named.commit):
                self._add(LATEST, "bad_pointer", f"differs from record {now.sequence}")

    def version(self, version: Version) -> None:
        self.versions += 1
        self._checked.append(version)
        try:
            manifest = read_manifest(self._storage, version)
        except BadInput as error:
            key = error.source or version.version
            self._add(key, error.reason, error.message, version=version.version, sha256=version.manifest_sha256)
            return
        folder = items_folder(manifest)
        for entry in manifest.files:
            self.files += 1
            self._entry(version, entry, is_index=entry.key.startswith(folder))

    def _entry(self, version: Version, entry: ManifestEntry, *, is_index: bool) -> None:
        key = version_folder(version.version) + entry.key
        whose = {"version": version.version, "sha256": entry.sha256}
        if not is_index:
            found = _hash_of(self._storage, key)
            if found != entry.sha256:
                reason = "corrupt_file" if found else "missing_file"
                self._add(key, reason, "missing, or not with the hash of the manifest", **whose)
            return
        try:
            self._index(read_index(read_entry(self._storage, version, entry), source=key))
        except BadInput as error:
            self._add(key, error.reason, error.message, **whose)

    def _index(self, index: ItemIndex) -> None:
        shown = partial(shown_items, self._storage)  # gc removes the content of what was taken down
        self.wanted.update(bytes.fromhex(item.hash) for item in shown(index.items or ()))
        for shard in index.shards or ():
            digest = bytes.fromhex(shard.hash)
            self.wanted.add(digest)
            if digest in self._shards:
                continue
            self._shards.add(digest)
            try:
                items = shown(read_shard(self._storage, shard))
                self.wanted.update(bytes.fromhex(item.hash) for item in items)
            except BadInput as error:
                self._note(blob_key(shard.hash), error)
            except NotFound:
                pass  # `blobs` reports it

    def blobs(self) -> None:
        missing = self.wanted.copy()
        for stat in self._storage.list(BLOBS):
            hash_ = hash_of_key(stat.key)
            if hash_ and bytes.fromhex(hash_) in missing:
                missing.discard(bytes.fromhex(hash_))
                if not stat.size:
                    self._add(stat.key, "corrupt_blob", "empty")
        for digest in missing:
            self._add(blob_key(digest.hex()), "missing_blob", "missing")

    def data(self) -> None:
        for digest in sorted(self.wanted - self._shards):
            key = blob_key(digest.hex())
            if key not in self._bad and (found := _hash_of(self._storage, key)) != digest.hex():
                self._add(
                    key, "corrupt_blob" if found else "missing_blob", "missing, or its bytes do not have this hash"
                )

    def _referrers(self, keys: set[str]) -> dict[str, list[str]]:
        """Return what refers to these keys: a second walk, only when something is damaged."""
        found: dict[str, list[str]] = {key: [] for key in keys}
        for version in self._checked:
            for place, hash_ in _references(self._storage, version):
                names = found.get(blob_key(hash_))
                if names is not None and len(names) < _MOST_REFERRERS:
                    names.append(f"{version.version} {place}")
        return found

    def _note(self, key: str, error: BadInput) -> None:
        self._add(key, error.reason, error.message)

    def _add(self, key: str, reason: str, message: str, *, version: str = "", sha256: str = "") -> None:
        found = StorageFinding(key=key, reason=reason, message=message, version=version, sha256=sha256)
        self._bad.setdefault(key, found)


def _commits_after(storage: Storage, last: history.HistoryRecord) -> Iterator[Commit]:
    return history.commits_since(storage, history.read_last_record(storage), floor=last.commit.sequence)


def _records_backwards(storage: Readable, last: history.HistoryRecord) -> Iterator[history.HistoryRecord | BadInput]:
    record = last
    yield record
    while record.commit.sequence > 1:
        try:
            record = history.read_record(storage, record.commit.sequence - 1)
        except BadInput as error:
            yield error
            return
        yield record


def _references(storage: Readable, version: Version) -> Iterator[tuple[str, str]]:
    """Yield ("FILE", shard) and ("FILE ITEM", blob) of what can be read."""
    try:
        manifest = read_manifest(storage, version)
    except BadInput:
        return
    folder = items_folder(manifest)
    for entry in manifest.files:
        if entry.key.startswith(folder):
            try:
                index = read_index(read_entry(storage, version, entry), source=entry.key)
            except BadInput:
                continue
            yield from ((f"{entry.key} {item.id}", item.hash) for item in index.items or ())
            for shard in index.shards or ():
                yield entry.key, shard.hash
                try:
                    yield from ((f"{entry.key} {item.id}", item.hash) for item in read_shard(storage, shard))
                except (BadInput, NotFound):
                    continue


def _hash_of(storage: Readable, key: str) -> str | None:
    digest = hashlib.sha256()
    try:
        with storage.open(key) as stream:
            for chunk in chunks_of(stream):
                digest.update(chunk)
    except NotFound:
        return None
    return digest.hexdigest()
