"""Garbage collection: removes versions that are not kept, and blobs that no version reaches. It may be killed any time.

1. Take the lease of gc: a publisher that begins from now on waits. Stop if one is at work already.
2. Write the "retire" record: what is kept, in one step, for everybody. A publisher that was taken for dead in 1, and
   is not, cannot commit any more without checking its blobs again.
3. Mark what the kept versions reach; put back from the trash what they miss (there is nothing, unless 5 happened).
4. Move unreachable blobs to the trash, a copy first; empty the trash of what lies there for longer than the grace;
   remove the folders of versions that are not kept.
5. All the while renew the lease. When that fails, we were paused for so long that a publisher took us for dead and has
   begun: put back what went to the trash since the last renewal, and stop. Stop also when a publisher waits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import TypeVar

import msgspec

from webmill.errors import BadInput, Conflict, Misconfigured, NotFound
from webmill.infra.storage.base import Readable, Stat, Storage
from webmill.publish import history, leases
from webmill.publish.blobs import restore
from webmill.publish.holder import Holder, this_process
from webmill.publish.keys import (
    BLOBS,
    RUNS,
    SNAPSHOTS,
    TRASH,
    blob_key,
    hash_of_key,
    trash_key,
    version_of_key,
)
from webmill.publish.manifest import items_folder, read_entry, read_manifest
from webmill.publish.shards import read_index, read_shard, shown_items
from webmill.publish.types import Commit, IndexShard, PublishedItem, Version

GRACE = timedelta(hours=72)
T = TypeVar("T")
_BATCH = 64  # blobs between two renewals of the lease


class GcReport(msgspec.Struct, kw_only=True):
    """What was removed. `waiting_for`: runs at work, for which gc has stopped; the next gc does the rest."""

    kept: list[str]
    retired: list[str]
    waiting_for: list[str] = []
    reachable: int = 0
    restored: int = 0
    trashed: int = 0
    trashed_bytes: int = 0
    purged: int = 0
    files: int = 0  # of versions that are not kept, and of abandoned runs
    unknown: int = 0  # keys among the blobs that are not blobs


def collect_garbage(
    storage: Storage,
    *,
    keep: int,
    now: datetime,
    grace: timedelta = GRACE,
    ttl: timedelta = leases.TTL,
    holder: Holder | None = None,
    without: Collection[str] = (),
) -> GcReport:
    """Keep the live version, the last `keep` ones and all that were live within `grace`; remove the rest, and those
    `without` which it is to be, unless one is live.

    `Conflict` when another gc is at work or something was committed meanwhile: try again. `Misconfigured` when there
    are blobs but no history.
    """
    if keep < 1:
        raise Misconfigured("at least one version must be kept: use --keep 1 or more")
    _check_history(storage)
    with leases.hold_gc_lease(storage, holder=holder or this_process(), ttl=ttl) as lease:
        last = history.read_head(storage)
        if not last:
            return GcReport(kept=[], retired=[])
        every = history.versions_at(storage, last)
        chosen = choose_kept_versions(every, keep=keep, since=now - grace)
        kept = [one for one in chosen if one.until is None or one.version not in without]
        names = [version.version for version in kept]
        report = GcReport(kept=names, retired=[version.version for version in every if version.version not in names])
        working, _ = leases.list_publishers(storage, now=lease.now(), ttl=ttl)
        if working:
            return GcReport(kept=[version.version for version in every], retired=[], waiting_for=_runs(working))
        retired = history.append_record(
            storage, last, kind="retire", at=now, live=last.commit.live, kept=tuple(kept)
        ).commit
        try:
            _sweep(_LeasedStorage(storage, lease, ttl=ttl), report, retired=retired, grace=grace)
        except _PublisherWaiting as waiting:
            report.waiting_for = waiting.runs
        return report


def preview_garbage(storage: Storage, *, keep: int, now: datetime, grace: timedelta = GRACE) -> GcReport:
    """Return what `collect_garbage` would do, by reading alone. Blobs that would leave the trash are not counted."""
    _check_history(storage)
    last = history.read_last_record(storage)
    every = history.versions_at(storage, last) if last else []
    kept = choose_kept_versions(every, keep=keep, since=now - grace)
    names = [version.version for version in kept]
    report = GcReport(kept=names, retired=[version.version for version in every if version.version not in names])
    marks = find_reachable(storage, kept)
    report.reachable = len(marks)
    report.trashed = sum(1 for _ in _unreachable(storage, marks, report))
    return report


def choose_kept_versions(versions: list[Version], *, keep: int, since: datetime) -> list[Version]:
    """Return the versions to keep, of all in the order of publication. The live one has no `until`."""
    last = {version.version for version in versions[-keep:]}
    return [one for one in versions if one.version in last or one.until is None or one.until > since]


def find_reachable(
    storage: Readable, versions: Iterable[Version], *, between: Callable[[], None] = lambda: None
) -> set[bytes]:
    """Return the digests of all blobs and shards that these versions reach. A shard that many share is read once. The
    content of what was taken down is not reached, though the versions still name it.

    `BadInput` when anything on the way is missing or damaged: then nothing can be called unreachable.
    `between` is called from time to time.
    """
    marks: set[bytes] = set()
    for version in versions:
        manifest = read_manifest(storage, version)
        folder = items_folder(manifest)
        for entry in manifest.files:
            if entry.key.startswith(folder):
                between()
                index = read_index(read_entry(storage, version, entry), source=entry.key)
                marks.update(bytes.fromhex(item.hash) for item in shown_items(storage, index.items or ()))
                new = (shard for shard in index.shards or () if bytes.fromhex(shard.hash) not in marks)
                for shards in _batches(new):
                    between()
                    for shard in shards:
                        items = shown_items(storage, _read_shard(storage, shard))
                        marks.update(bytes.fromhex(item.hash) for item in items)
                        marks.add(bytes.fromhex(shard.hash))
    return marks


def _read_shard(storage: Readable, shard: IndexShard) -> list[PublishedItem]:
    try:
        return read_shard(storage, shard)
    except NotFound as error:
        raise BadInput("a shard is missing", reason="missing_blob", source=blob_key(shard.hash)) from error


def _check_history(storage: Storage) -> None:
    """Refuse a storage with blobs but no history: it must not be read as "nothing is needed" (restic issue 4619)."""
    if not history.read_last_record(storage) and any(storage.list(BLOBS)):
        raise Misconfigured(
            "there are blobs but no version: wrong storage, no permission to list it, or an unfinished first "
            "publication? Nothing was removed; publish first, or restore snapshots/ and latest.json from a copy"
        )


class _PublisherWaiting(Exception):
    def __init__(self, runs: list[str]) -> None:
        self.runs = runs


class _LeasedStorage:
    """The storage, with the lease that is checked between two batches of deletes."""

    def __init__(self, storage: Storage, lease: leases.GcLease, *, ttl: timedelta) -> None:
        self.storage = storage
        self._lease, self._ttl = lease, ttl

    def check(self) -> None:
        """Renew the lease. `Conflict` when it is lost; `_PublisherWaiting` when a publisher waits for gc."""
        self._lease.check()
        working, _ = leases.list_publishers(self.storage, now=self.now(), ttl=self._ttl)
        if working:
            raise _PublisherWaiting(_runs(working))

    def now(self) -> datetime:
        return self._lease.now()

    def remove_dead_leases(self) -> None:
        for key in leases.list_publishers(self.storage, now=self.now(), ttl=self._ttl)[1]:
            self.storage.delete(key)


def _sweep(leased: _LeasedStorage, report: GcReport, *, retired: Commit, grace: timedelta) -> None:
    kept = retired.kept or ()
    marks = find_reachable(leased.storage, kept, between=leased.check)
    report.reachable = len(marks)
    report.restored = _restore_missing(leased.storage, marks)
    leased.check()
    for batch in _batches(_unreachable(leased.storage, marks, report)):
        report.trashed += len(batch)
        _trash(leased, batch)
    until = leased.now() - grace
    for stats in _batches(stat for stat in leased.storage.list(TRASH) if stat.modified and stat.modified <= until):
        leased.check()
        report.purged += _purge(leased.storage, stats, marks)
    for keys in _batches(_garbage(leased.storage, kept, until=until)):
        leased.check()
        report.files += len(keys)
        for key in keys:
            leased.storage.delete(key)
    leased.remove_dead_leases()


def _garbage(storage: Storage, kept: Iterable[Version], *, until: datetime) -> Iterator[str]:
    """Yield the files of retired versions, of publishers that never committed, of abandoned runs."""
    kept_names = {None, *(version.version for version in kept)}  # None: our other folders
    for stat in storage.list(SNAPSHOTS):
        is_old_run = stat.key.startswith(RUNS) and stat.modified and stat.modified <= until
        if is_old_run or version_of_key(stat.key) not in kept_names:
            yield stat.key


def _restore_missing(storage: Storage, marks: set[bytes]) -> int:
    trashed = [hash_of_key(stat.key) for stat in storage.list(TRASH)]
    restored = 0
    for hash_ in trashed:
        if hash_ and bytes.fromhex(hash_) in marks and not _exists(storage, blob_key(hash_)):
            restored += restore(storage, hash_)
    return restored


def _unreachable(storage: Storage, marks: set[bytes], report: GcReport) -> Iterator[str]:
    for stat in storage.list(BLOBS):
        hash_ = hash_of_key(stat.key)
        if not hash_:
            report.unknown += 1
        elif bytes.fromhex(hash_) not in marks:
            report.trashed_bytes += stat.size
            yield hash_


def _trash(leased: _LeasedStorage, hashes: list[str]) -> None:
    for hash_ in hashes:
        try:
            with leased.storage.open(blob_key(hash_)) as blob:
                leased.storage.write(trash_key(hash_), blob)
        except NotFound:
            continue
        leased.storage.delete(blob_key(hash_))
    try:
        leased.check()
    except Conflict:
        for hash_ in hashes:
            restore(leased.storage, hash_)
        raise Conflict("this gc was paused for so long that its lease ended: run it again") from None


def _purge(storage: Storage, stats: list[Stat], marks: set[bytes]) -> int:
    """Delete from the trash, but not a reachable blob that is missing: this would be its only, damaged copy."""
    purged = 0
    for stat in stats:
        hash_ = hash_of_key(stat.key)
        if hash_ and (bytes.fromhex(hash_) not in marks or _exists(storage, blob_key(hash_))):
            storage.delete(stat.key)
            purged += 1
    return purged


def _runs(working: list[leases.RunLease]) -> list[str]:
    return [lease.run for lease in working]


def _exists(storage: Readable, key: str) -> bool:
    try:
        storage.stat(key)
    except NotFound:
        return False
    return True


def _batches(found: Iterable[T]) -> Iterator[list[T]]:
    found = iter(found)
    while batch := list(islice(found, _BATCH)):
        yield batch
