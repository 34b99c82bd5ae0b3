"""Removes versions that are not kept, and blobs that nobody can reach. Killed at any moment it has done no harm.

1. Take the lease of gc; go away again when a publisher is at work.
2. Write the "retire" record: what is kept, in one step, for everybody. From here on a publisher that began earlier
   cannot commit without looking at its blobs again, and one that begins now waits for us.
3. Look for publishers once more: one that began between 1 and 2 makes us stop here.
4. Mark what the kept versions reach; put back from the trash what they miss (there is nothing, unless 6 happened).
5. Move unreachable blobs to the trash, a copy first; empty the trash of what lies there for longer than the grace;
   remove the folders of versions that are not kept.
6. All the while renew our lease. When that fails, somebody took us for dead (we were paused for long), and a publisher
   may have begun: put back what went to the trash since the last renewal, and stop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import TypeVar

import msgspec

from webmill.errors import Conflict, Misconfigured, NotFound
from webmill.infra.storage.base import Readable, Storage
from webmill.publish import history, leases
from webmill.publish.blobs import restore
from webmill.publish.holder import Holder, this_process
from webmill.publish.manifest import read_entry, read_manifest
from webmill.publish.nouns import Version
from webmill.publish.places import BLOBS, SNAPSHOTS, TRASH, blob_key, hash_of_key, trash_key, version_of_key
from webmill.publish.shards import read_index, read_shard

GRACE = timedelta(hours=72)
T = TypeVar("T")
_BATCH = 64  # blobs between two renewals of the lease


class Report(msgspec.Struct, kw_only=True):
    """What was done. `waiting_for`: runs that are at work, for whose sake nothing was removed."""

    kept: list[str]
    retired: list[str]
    waiting_for: list[str] = []
    reachable: int = 0
    restored: int = 0
    trashed: int = 0
    trashed_bytes: int = 0
    purged: int = 0
    files: int = 0  # of versions that are not kept
    unknown: int = 0  # keys among the blobs that are none


def collect(
    storage: Storage,
    *,
    keep: int,
    now: datetime,
    grace: timedelta = GRACE,
    ttl: timedelta = leases.TTL,
    holder: Holder | None = None,
) -> Report:
    """Keeps the live version, the last `keep` ones, and all that were live within `grace`.

    `Conflict` when another gc is at work or something was committed meanwhile: try again. `Misconfigured` when there
    are blobs but no history.
    """
    if keep < 1:
        raise Misconfigured("at least one version must be kept")
    _check_history(storage)
    with leases.collecting(storage, holder=holder or this_process(), ttl=ttl) as lease:
        last = history.head(storage)
        if not last:
            return Report(kept=[], retired=[])
        every = history.versions(storage, last)
        kept = choose(every, keep=keep, since=now - grace)
        names = [version.version for version in kept]
        report = Report(kept=names, retired=[version.version for version in every if version.version not in names])
        if _is_someone_at_work(storage, lease, report, ttl=ttl):
            return msgspec.structs.replace(report, kept=[version.version for version in every], retired=[])
        history.append(storage, last, kind="retire", at=now, live=last.commit.live, kept=tuple(kept))
        if not _is_someone_at_work(storage, lease, report, ttl=ttl):
            _sweep(storage, lease, report, kept=kept, grace=grace, ttl=ttl)
        return report


def choose(versions: list[Version], *, keep: int, since: datetime) -> list[Version]:
    """`versions` in the order of publication. The live one has no `until`."""
    last = {version.version for version in versions[-keep:]}
    return [found for found in versions if found.version in last or found.until is None or found.until > since]


def reachable(storage: Readable, versions: Iterable[Version]) -> set[bytes]:
    """The digests of all blobs and shards that these versions reach. A shard that many share is read once.

    `BadInput` when anything on the way is missing or damaged: then nothing can be called unreachable.
    """
    marks: set[bytes] = set()
    for version in versions:
        for entry in read_manifest(storage, version).files:
            if entry.key.startswith("index/"):
                index = read_index(read_entry(storage, version, entry), source=entry.key)
                marks.update(bytes.fromhex(item.hash) for item in index.items or ())
                for shard in index.shards or ():
                    digest = bytes.fromhex(shard.hash)
                    if digest not in marks:
                        marks.update(bytes.fromhex(item.hash) for item in read_shard(storage, shard))
                        marks.add(digest)
    return marks


def _check_history(storage: Storage) -> None:
    """An empty answer where a history should be must not be read as "nothing is needed" (restic issue 4619)."""
    if not history.head(storage) and any(storage.list(BLOBS)):
        raise Misconfigured(
            "there are blobs but no version: is this the right place, may it be listed, was a first publication broken "
            "off? Nothing is removed; publish first"
        )


def _is_someone_at_work(storage: Storage, lease: leases.GcLease, report: Report, *, ttl: timedelta) -> bool:
    working, _ = leases.publishers(storage, now=lease.now(), ttl=ttl)
    report.waiting_for = [found.run for found in working]
    return bool(working)


def _sweep(
    storage: Storage, lease: leases.GcLease, report: Report, *, kept: list[Version], grace: timedelta, ttl: timedelta
) -> None:
    marks = reachable(storage, kept)
    report.reachable = len(marks)
    report.restored = _restore_missing(storage, marks)
    lease.check()
    for batch in _batches(_unreachable(storage, marks, report)):
        _trash(storage, lease, batch)
        report.trashed += len(batch)
    report.purged = _purge(storage, lease, marks, until=lease.now() - grace)
    report.files = _remove_folders(storage, lease, kept)
    for key in leases.publishers(storage, now=lease.now(), ttl=ttl)[1]:
        storage.delete(key)


def _restore_missing(storage: Storage, marks: set[bytes]) -> int:
    trashed = [hash_of_key(stat.key) for stat in storage.list(TRASH)]
    restored = 0
    for hash_ in trashed:
        if hash_ and bytes.fromhex(hash_) in marks and not _is_there(storage, blob_key(hash_)):
            restored += restore(storage, hash_)
    return restored


def _unreachable(storage: Storage, marks: set[bytes], report: Report) -> Iterator[str]:
    for stat in storage.list(BLOBS):
        hash_ = hash_of_key(stat.key)
        if not hash_:
            report.unknown += 1
        elif bytes.fromhex(hash_) not in marks:
            report.trashed_bytes += stat.size
            yield hash_


def _trash(storage: Storage, lease: leases.GcLease, hashes: list[str]) -> None:
    for hash_ in hashes:
        try:
            with storage.open(blob_key(hash_)) as blob:
                storage.write(trash_key(hash_), blob)
        except NotFound:
            continue
        storage.delete(blob_key(hash_))
    try:
        lease.check()
    except Conflict:
        for hash_ in hashes:
            restore(storage, hash_)
        raise Conflict("this gc was paused for so long that it was taken for dead: run it again") from None


def _purge(storage: Storage, lease: leases.GcLease, marks: set[bytes], *, until: datetime) -> int:
    """What is reachable stays while its blob is missing: then it is the only copy (and damaged, or it were back)."""
    purged = 0
    for batch in _batches(stat for stat in storage.list(TRASH) if stat.modified and stat.modified <= until):
        lease.check()
        for stat in batch:
            hash_ = hash_of_key(stat.key)
            if hash_ and (bytes.fromhex(hash_) not in marks or _is_there(storage, blob_key(hash_))):
                storage.delete(stat.key)
                purged += 1
    return purged


def _remove_folders(storage: Storage, lease: leases.GcLease, kept: list[Version]) -> int:
    """Of retired versions, and of publishers that never came to their commit. No name of a folder comes twice."""
    names = {None, *(version.version for version in kept)}  # None: our other folders
    files = 0
    keys = (stat.key for stat in storage.list(SNAPSHOTS))
    for batch in _batches(key for key in keys if version_of_key(key) not in names):
        lease.check()
        for key in batch:
            storage.delete(key)
            files += 1
    return files


def _is_there(storage: Readable, key: str) -> bool:
    try:
        storage.stat(key)
    except NotFound:
        return False
    return True


def _batches(found: Iterable[T]) -> Iterator[list[T]]:
    found = iter(found)
    while batch := list(islice(found, _BATCH)):
        yield batch
