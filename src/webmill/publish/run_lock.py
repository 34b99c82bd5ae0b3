"""Whose turn it is to run: one run at a time in a storage, on whichever machine, and not before it is due.

The turn is one small value that is changed by compare-and-swap. Its holder renews it; one that is seen to be dead, or
was not heard of for as long as it said itself, is replaced. Whoever sleeps through that finds out with `renew`. Nothing
depends on a turn but that boards are not read twice: publications are safe by the history alone.
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
    """`seconds`: how long it lasts after it was last renewed, when nobody can see its holder."""

    run: str
    began: datetime
    seconds: float
    holder: Holder | None = None
    released: bool = False


def acquire(storage: Storage, run: str, *, at: datetime, lasts: timedelta, holder: Holder | None = None) -> RunLock:
    """`Conflict` while another run is under way. A process has one run at a time: what it held before is over."""
    turn = RunLock(run=check_run(run), began=at, seconds=lasts.total_seconds(), holder=holder)
    found = _look(storage)
    if found and not _is_ours(found[0], holder) and _is_held(*found, now=store_time(storage)):
        raise Conflict(f"run {found[0].run} is under way here since {found[0].began:%Y-%m-%d %H:%M:%S}: wait for it")
    try:
        storage.write(_KEY, encode(turn), condition=Matches(found[1].etag) if found else Absent())
    except Conflict as error:
        raise Conflict("another run has begun here at the same moment: wait for it") from error
    return turn


def renew(storage: Storage, run: str) -> None:
    """`Conflict` when the turn has passed to another run."""
    _rewrite(storage, run, released=False)


def release(storage: Storage, run: str) -> None:
    """The run is over. No error when it has lost its turn before."""
    try:
        _rewrite(storage, run, released=True)
    except Conflict:
        pass


def time_until_due(storage: Storage, every: timedelta, *, now: datetime) -> timedelta:
    """How long to wait so that runs begin `every` so often, whoever begins them. A run that was killed does not count.

    Never longer than `every`, whatever a clock that was set says.
    """
    found = _look(storage)
    if not found or not found[0].released:
        return timedelta(0)
    return min(every, max(timedelta(0), found[0].began + every - now))


def _rewrite(storage: Storage, run: str, *, released: bool) -> None:
    found = _look(storage)
    if not found or found[0].run != run or found[0].released:
        raise Conflict(f"run {run} has lost its turn: it was not heard of for too long")
    turn = msgspec.structs.replace(found[0], released=released)
    storage.write(_KEY, encode(turn), condition=Matches(found[1].etag))


def _is_ours(turn: RunLock, holder: Holder | None) -> bool:
    return holder is not None and turn.holder == holder


def _is_held(turn: RunLock, stat: Stat, *, now: datetime) -> bool:
    """A holder that is seen is believed: as long as its process is there, it is its turn."""
    alive = is_running(turn.holder) if turn.holder else None
    if turn.released or alive is False:
        return False
    return alive is True or now - modified_at(stat) < timedelta(seconds=turn.seconds)


def _look(storage: Storage) -> tuple[RunLock, Stat] | None:
    """A damaged one is nobody's, but has an etag: it is replaced."""
    try:
        stat = storage.stat(_KEY)
        return decode(storage.read(_KEY, etag=stat.etag), RunLock, source=_KEY), stat
    except NotFound:
        return None
    except Conflict:
        return _look(storage)
    except BadInput:
        return RunLock(run="damaged", began=modified_at(stat), seconds=0, released=True), stat
