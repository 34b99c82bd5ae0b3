"""The run lock: one run at a time in a storage, on whichever machine, and not before it is due.

The lock is one small value (`turn.json`) changed by compare-and-swap. Its holder renews it; a holder that is dead, or
was silent for longer than it said itself, is replaced. Whoever sleeps through that finds out with `renew`. The lock
only keeps boards from being read twice: publications are safe by the history alone.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from webmill.errors import BadInput, Conflict, NotFound
from webmill.infra.storage.base import Absent, Matches, Stat, Storage
from webmill.publish.holder import Holder, is_running
from webmill.publish.keys import LEASES, check_run
from webmill.publish.leases import modified_at, store_time
from webmill.publish.types import decode, encode

_KEY = f"{LEASES}turn.json"


class RunLock(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`seconds`: how long it lasts after its last renewal if its holder cannot be seen."""

    run: str
    began: datetime
    seconds: float
    holder: Holder | None = None
    released: bool = False


def acquire(storage: Storage, run: str, *, at: datetime, lasts: timedelta, holder: Holder | None = None) -> RunLock:
    """Take the lock. `Conflict` while another run is under way. An older run of the same process is over."""
    lock = RunLock(run=check_run(run), began=at, seconds=lasts.total_seconds(), holder=holder)
    found = _read_with_stat(storage)
    if found and not _is_ours(found[0], holder) and _is_held(*found, now=store_time(storage)):
        raise Conflict(
            f"run {found[0].run} has been under way here since {found[0].began:%Y-%m-%d %H:%M:%S}: wait for it"
        )
    try:
        storage.write(_KEY, encode(lock), condition=Matches(found[1].etag) if found else Absent())
    except Conflict as error:
        raise Conflict("another run started here at the same moment: wait for it") from error
    return lock


def renew(storage: Storage, run: str) -> None:
    """Renew the lock. `Conflict` when another run has it."""
    _rewrite(storage, run, released=False)


def release(storage: Storage, run: str) -> None:
    """Release the lock. No error when it was lost before."""
    try:
        _rewrite(storage, run, released=True)
    except Conflict:
        pass


def time_until_due(storage: Storage, every: timedelta, *, now: datetime) -> timedelta:
    """Return how long to wait so that runs start at this interval, whoever starts them. A killed run does not count.

    Never longer than `every`, even if a clock was set back.
    """
    found = _read_with_stat(storage)
    if not found or not found[0].released:
        return timedelta(0)
    return min(every, max(timedelta(0), found[0].began + every - now))


def _rewrite(storage: Storage, run: str, *, released: bool) -> None:
    found = _read_with_stat(storage)
    if not found or found[0].run != run or found[0].released:
        raise Conflict(f"run {run} lost the run lock: it was not renewed in time")
    lock = msgspec.structs.replace(found[0], released=released)
    storage.write(_KEY, encode(lock), condition=Matches(found[1].etag))


def _is_ours(lock: RunLock, holder: Holder | None) -> bool:
    return holder is not None and lock.holder == holder


def _is_held(lock: RunLock, stat: Stat, *, now: datetime) -> bool:
    """Whether the lock is held: by a process that runs, or one that cannot be seen and has renewed it in time."""
    alive = is_running(lock.holder) if lock.holder else None
    if lock.released or alive is False:
        return False
    return alive is True or now - modified_at(stat) < timedelta(seconds=lock.seconds)


def _read_with_stat(storage: Storage) -> tuple[RunLock, Stat] | None:
    """Return the lock and its stat. A damaged one counts as released, and can be replaced by its etag."""
    try:
        stat = storage.stat(_KEY)
        return decode(storage.read(_KEY, etag=stat.etag), RunLock, source=_KEY), stat
    except NotFound:
        return None
    except Conflict:
        return _read_with_stat(storage)
    except BadInput:
        return RunLock(run="damaged", began=modified_at(stat), seconds=0, released=True), stat
