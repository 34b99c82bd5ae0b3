"""The history: one record after the other, each created only if absent, so that it never branches.

Record N+1 can only be written by one who has seen record N. That is the point of no return of a publication, and also
the fence of gc: gc writes a "retire" record before it removes anything, so a publisher that was paused meanwhile cannot
commit what may be gone. Every record says what is live; `latest.json` is a copy of the last one, and whoever finds it
behind advances it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime

import msgspec

from webmill.errors import BadInput, Misconfigured, NotFound, Unavailable, WebmillError
from webmill.infra.storage.base import Readable, Storage
from webmill.publish import pointer
from webmill.publish.keys import BEGUN, BLOBS, HISTORY, LATEST, check_version, record_key, sha256
from webmill.publish.types import Commit, CommitKind, Version, decode_sealed, encode_sealed
from webmill.publish.write_once import write_once

log = logging.getLogger(__name__)


class HistoryRecord(msgspec.Struct, frozen=True):
    commit: Commit
    hash: str


def read_head(storage: Storage) -> HistoryRecord | None:
    """Return the last record; None before the first publication. Repair `latest.json` if its writer died too early."""
    pointed = _pointed(storage)
    last = _follow(storage, pointed or _last_listed(storage))
    if last and last != pointed:
        pointer.advance_pointer(storage, last.commit)
    return last


def read_last_record(storage: Storage) -> HistoryRecord | None:
    """Return the last record without repairing anything."""
    return _follow(storage, _pointed(storage) or _last_listed(storage))


def begin_history(storage: Storage, *, force: bool) -> None:
    """Mark the start of a first publication. `Misconfigured` where the history was lost, unless by `force`.

    Blobs without a history are either left by a first publication that did not finish, or all that is left of many.
    The mark, which stays until the first commit, tells them apart.
    """
    if read_head(storage):
        return
    if force or not has_lost_history(storage):
        storage.write(BEGUN, b"{}")
    elif not read_head(storage):  # or another first publication has finished meanwhile
        raise Misconfigured(
            "there are blobs but no history: wrong storage, or no permission to list it? Restore snapshots/ and "
            "latest.json from a copy; or start again at version 1 with --force"
        )


def has_lost_history(storage: Storage) -> bool:
    """Whether a storage without history had one: it has blobs, but not the mark of a first publication."""
    if not any(storage.list(BLOBS)):
        return False
    try:
        storage.stat(BEGUN)
    except NotFound:
        return True
    return False


def live_version(storage: Readable) -> Version:
    """Return the live version. Reads only: follows the records that `latest.json` is behind."""
    record = _read_pointed(storage)
    while following := _read(storage, record.commit.sequence + 1):
        record = following
    return record.commit.live


def append_record(
    storage: Storage,
    before: HistoryRecord | None,
    *,
    kind: CommitKind,
    at: datetime,
    live: Version,
    kept: tuple[Version, ...] = (),
) -> HistoryRecord:
    """Append a record and advance `latest.json`. `Conflict` when another one was written since `before`."""
    commit = Commit(
        sequence=before.commit.sequence + 1 if before else 1,
        kind=kind,
        at=at,
        live=live,
        parent=before.hash if before else None,
        kept=kept if kind == "retire" else None,
    )
    data = encode_sealed(commit)
    write_once(storage, record_key(commit.sequence), data, conflict="another publisher has committed meanwhile")
    try:
        pointer.advance_pointer(storage, commit)
    except Unavailable as error:  # it is committed: the next one advances the pointer
        log.warning("%s is behind the history: %s", LATEST, error)
    if not before:
        _remove_begun_mark(storage)
    return HistoryRecord(commit, sha256(data))


def _remove_begun_mark(storage: Storage) -> None:
    try:
        storage.delete(BEGUN)
    except WebmillError as error:  # it is committed, and the mark does no harm
        log.warning("cannot delete %s: %s", BEGUN, error)


def records(storage: Readable, last: HistoryRecord) -> Iterator[HistoryRecord]:
    """Yield records from the last one back to the last "retire", which lists all versions before it."""
    yield last
    while last.commit.kind != "retire" and last.commit.sequence > 1:
        last = _read_parent(storage, last)
        yield last


def versions_at(storage: Readable, last: HistoryRecord) -> list[Version]:
    """Return the versions kept at this record, in the order of publication. `until` is None for the live one."""
    found: dict[str, Version] = {}
    before: Version | None = None
    for record in reversed([*records(storage, last)]):
        commit = record.commit
        found.update({version.version: version for version in commit.kept or ()})
        if before and before.version != commit.live.version:
            found[before.version] = msgspec.structs.replace(before, until=commit.at)
        before = msgspec.structs.replace(commit.live, until=None)
        found[before.version] = before
    return sorted(found.values(), key=lambda version: version.sequence)


def list_versions(storage: Storage) -> list[Version]:
    """Return all kept versions, in the order of publication; none before the first."""
    last = read_head(storage)
    return versions_at(storage, last) if last else []


def find_version(storage: Storage, version: str) -> Version:
    """Return a kept version. `NotFound` when there is none of this name, or gc has retired it."""
    return _find(storage, read_head(storage), version)


def roll_back(storage: Storage, version: str, *, at: datetime) -> HistoryRecord:
    """Make an old version the live one, by a new record. `Conflict` when something was committed meanwhile."""
    last = read_head(storage)
    target = _find(storage, last, version)
    return append_record(storage, last, kind="rollback", at=at, live=msgspec.structs.replace(target, until=None))


def _find(storage: Storage, last: HistoryRecord | None, version: str) -> Version:
    check_version(version)
    for known in versions_at(storage, last) if last else ():
        if known.version == version:
            return known
    raise NotFound(f"no version {version}: there never was one, or gc has removed it; `webmill publish list` shows all")


def commits_since(storage: Readable, last: HistoryRecord | None, *, floor: int) -> Iterator[Commit]:
    """Yield the commits after `floor`, the last one first."""
    while last and last.commit.sequence > floor:
        yield last.commit
        last = _read_parent(storage, last) if last.commit.sequence > 1 else None


def read_record(storage: Readable, sequence: int) -> HistoryRecord:
    record = _read(storage, sequence)
    if not record:
        raise BadInput("a record of the history is missing", reason="broken_history", source=record_key(sequence))
    return record


def _read_parent(storage: Readable, record: HistoryRecord) -> HistoryRecord:
    """Return the record before this one, which must be the one that it names."""
    before = read_record(storage, record.commit.sequence - 1)
    if record.commit.parent not in (None, before.hash):
        message = f"is not what {record_key(record.commit.sequence)} says was before it"
        raise BadInput(message, reason="broken_history", source=record_key(before.commit.sequence))
    return before


def _read(storage: Readable, sequence: int) -> HistoryRecord | None:
    key = record_key(sequence)
    try:
        data = storage.read(key)
    except NotFound:
        return None
    return HistoryRecord(decode_sealed(data, Commit, source=key), sha256(data))


def _follow(storage: Readable, last: HistoryRecord | None) -> HistoryRecord | None:
    while last and (following := _read(storage, last.commit.sequence + 1)):
        last = following
    return last


def _pointed(storage: Readable) -> HistoryRecord | None:
    try:
        pointer.read_pointer(storage)
    except (NotFound, BadInput):
        return None
    return _read_pointed(storage)


def _read_pointed(storage: Readable) -> HistoryRecord:
    sequence = pointer.read_pointer(storage).sequence
    record = _read(storage, sequence)
    if not record:
        raise BadInput(f"names {record_key(sequence)}, which is missing", reason="broken_history", source=LATEST)
    return record


def _last_listed(storage: Storage) -> HistoryRecord | None:
    last = max((stat.key for stat in storage.list(HISTORY)), default=None)
    return read_record(storage, _sequence_of(last)) if last else None


def _sequence_of(key: str) -> int:
    name = key.removeprefix(HISTORY).removesuffix(".json")
    if not name.isdecimal() or record_key(int(name)) != key:
        raise BadInput("not a record of the history", reason="broken_history", source=key)
    return int(name)
