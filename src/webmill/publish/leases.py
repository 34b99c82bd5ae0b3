"""Leases: who is at work in this storage, so that gc and publishers do not disturb each other.

A publisher writes its lease, then reads the head of the history (its floor), then looks for a running gc. gc writes
its own lease, then looks for publishers: whatever the interleaving, one of them sees the other. Then gc writes its
"retire" record. That is the fence for a publisher whose lease was thought to be over, and who comes back: a "retire"
above its floor makes it check every blob again before it commits.

So safety depends on no clock. A wrong judgement (a paused process, a clock that jumped) costs a publisher a second
check; it never costs a blob. Ages are differences of times that the store itself gave.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import msgspec

from webmill.errors import BadInput, Conflict, NotFound, Unavailable, WebmillError
from webmill.infra import waiting
from webmill.infra.storage.base import Absent, Matches, Stat, Storage
from webmill.publish import history
from webmill.publish.holder import Holder, is_running
from webmill.publish.keys import LEASES, check_run
from webmill.publish.types import decode, encode

log = logging.getLogger(__name__)

TTL = timedelta(minutes=15)  # a lease is renewed at a third of it
PATIENCE = 60.0  # seconds a publisher waits for gc
_POLL = 0.2
_GC = f"{LEASES}gc.json"
_CLOCK = f"{LEASES}clock.json"
_PUBLISHERS = f"{LEASES}run-"


class RunLease(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    run: str
    floor: int = 0  # the head of the history when it was taken
    holder: Holder | None = None  # None: the run is not one process; only time tells
    released: bool = False


def lease_key(run: str) -> str:
    return f"{_PUBLISHERS}{check_run(run)}.json"


# --- publishers ---


def acquire(
    storage: Storage,
    run: str,
    *,
    holder: Holder | None = None,
    ttl: timedelta = TTL,
    patience: float = PATIENCE,
    sleep: Callable[[float], None] = waiting.sleep,
) -> RunLease:
    """Take the lease of a run: until `release`, gc removes nothing. `Unavailable` when gc does not end in time."""
    try:
        floor = _floor(storage, RunLease(run=run, holder=holder), ttl=ttl, patience=patience, sleep=sleep)
        lease = RunLease(run=run, floor=floor, holder=holder)
        storage.write(lease_key(run), encode(lease))
    except WebmillError:
        try_release(storage, run)  # or gc would wait for it as long as this process lives
        raise
    return lease


def _floor(
    storage: Storage, lease: RunLease, *, ttl: timedelta, patience: float, sleep: Callable[[float], None]
) -> int:
    waited = 0.0
    while True:
        storage.write(lease_key(lease.run), encode(lease))
        last = history.read_head(storage)
        mine = _read_with_stat(storage, lease_key(lease.run))
        if not mine:
            continue  # we were paused between the two, and gc has removed it
        if not _gc_is_running(storage, now=modified_at(mine[1]), ttl=ttl):
            return last.commit.sequence if last else 0
        if waited >= patience:
            raise Unavailable("gc is at work in this storage: try again when it is done", retry_after=30)
        sleep(_POLL)
        waited += _POLL


def try_release(storage: Storage, run: str) -> None:
    try:
        release(storage, run)
    except WebmillError as error:
        log.warning("cannot delete a lease: %s", error)


def renew(storage: Storage, run: str) -> None:
    """Renew the lease; any process of the run may. One that gc has removed is not revived: its run will be fenced."""
    lease = find_lease(storage, run)
    if lease:
        storage.write(lease_key(run), encode(lease))


def find_lease(storage: Storage, run: str) -> RunLease | None:
    """Return the lease of a run. A damaged one has the floor 0, so that everything is checked again."""
    found = _read_with_stat(storage, lease_key(run))
    return msgspec.structs.replace(found[0], run=run) if found else None


def release(storage: Storage, run: str) -> None:
    storage.delete(lease_key(run))


def _gc_is_running(storage: Storage, *, now: datetime, ttl: timedelta) -> bool:
    """Whether gc is at work. One that is paused for longer than its lease loses it, and will notice."""
    found = _read_with_stat(storage, _GC)
    if not found or found[0].released:
        return False
    if _may_collect(*found, now=now, ttl=ttl):
        return True
    try:
        over = msgspec.structs.replace(found[0], released=True)
        storage.write(_GC, encode(over), condition=Matches(found[1].etag))
    except Conflict:
        return True  # it lives
    return False


def _may_collect(lease: RunLease, stat: Stat, *, now: datetime, ttl: timedelta) -> bool:
    alive = is_running(lease.holder) if lease.holder else None
    return not lease.released and alive is not False and now - modified_at(stat) < ttl


# --- gc ---


class GcLease:
    """The lease of the one gc at work. `check` raises `Conflict` when another one has taken over."""

    def __init__(self, storage: Storage, lease: RunLease, stat: Stat) -> None:
        self._storage, self._lease, self._etag = storage, lease, stat.etag

    def check(self) -> None:
        """Renew the lease."""
        self._etag = self._storage.write(_GC, encode(self._lease), condition=Matches(self._etag)).etag

    def now(self) -> datetime:
        """Return the store's time of our last renewal."""
        return modified_at(self._storage.stat(_GC))

    def release(self) -> None:
        """Release by a conditional write: a delete has no condition, and could hit the lease of the next gc."""
        over = msgspec.structs.replace(self._lease, released=True)
        try:
            self._storage.write(_GC, encode(over), condition=Matches(self._etag))
        except Conflict:
            pass


@contextmanager
def hold_gc_lease(storage: Storage, *, holder: Holder | None, ttl: timedelta = TTL) -> Iterator[GcLease]:
    """Hold the lease of gc. `Conflict` when another gc is at work."""
    lease = RunLease(run=secrets.token_hex(8), holder=holder)
    found = _read_with_stat(storage, _GC)
    if found and _may_collect(*found, now=store_time(storage), ttl=ttl):
        raise Conflict("another gc is at work in this storage: wait for it, or stop it")
    condition = Matches(found[1].etag) if found else Absent()
    held = GcLease(storage, lease, storage.write(_GC, encode(lease), condition=condition))
    try:
        yield held
    finally:
        held.release()


def list_publishers(storage: Storage, *, now: datetime, ttl: timedelta = TTL) -> tuple[list[RunLease], list[str]]:
    """Return the leases of publishers that may be at work, and the keys of those that are over."""
    working: list[RunLease] = []
    over: list[str] = []
    for key in [stat.key for stat in storage.list(_PUBLISHERS)]:
        found = _read_with_stat(storage, key)
        if found and _is_live(*found, now=now, ttl=ttl):
            working.append(found[0])
        elif found:
            over.append(key)
    return working, over


def _is_live(lease: RunLease, stat: Stat, *, now: datetime, ttl: timedelta) -> bool:
    """Whether the publisher may be at work. A process that can be seen counts more than any clock."""
    alive = is_running(lease.holder) if lease.holder else None
    return now - modified_at(stat) < ttl if alive is None else alive


def _read_with_stat(storage: Storage, key: str) -> tuple[RunLease, Stat] | None:
    """Return a lease with its stat, both of the same value."""
    try:
        stat = storage.stat(key)
        return decode(storage.read(key, etag=stat.etag), RunLease, source=key), stat
    except NotFound:
        return None
    except Conflict:
        return _read_with_stat(storage, key)
    except BadInput:
        return RunLease(run="damaged"), stat  # of an unknown holder, until its time is over


def store_time(storage: Storage) -> datetime:
    storage.write(_CLOCK, b"{}")
    return modified_at(storage.stat(_CLOCK))


def modified_at(stat: Stat) -> datetime:
    """Return when it was written, by the clock of the store."""
    if stat.modified is None:
        raise BadInput("the storage gives no modification time", reason="no_time", source=stat.key)
    return stat.modified
