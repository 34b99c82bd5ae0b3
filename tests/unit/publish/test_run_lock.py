"""The run lock: one run at a time."""

from __future__ import annotations

import os
from datetime import timedelta

import pytest

from tests.unit.publish.publications import START, Clock
from webmill.errors import Conflict
from webmill.infra.storage.memory import MemoryStorage
from webmill.publish import run_lock
from webmill.publish.holder import Holder, this_process

MINUTE = timedelta(minutes=1)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def storage(clock: Clock) -> MemoryStorage:
    return MemoryStorage(now=clock)


def test_one_run_has_the_lock_until_it_releases_it(storage: MemoryStorage) -> None:
    run_lock.acquire(storage, "a", at=START, lasts=MINUTE)
    with pytest.raises(Conflict, match="a has been under way"):
        run_lock.acquire(storage, "b", at=START, lasts=MINUTE)
    run_lock.release(storage, "b")  # not its own
    run_lock.renew(storage, "a")
    run_lock.release(storage, "a")
    run_lock.acquire(storage, "b", at=START, lasts=MINUTE)
    with pytest.raises(Conflict):
        run_lock.renew(storage, "a")


def test_a_holder_that_nobody_can_see_loses_it_after_the_time_it_said(storage: MemoryStorage, clock: Clock) -> None:
    run_lock.acquire(storage, "a", at=START, lasts=MINUTE, holder=Holder("another machine", 1, "1"))
    clock.pass_by(seconds=50)
    run_lock.renew(storage, "a")
    clock.pass_by(seconds=50)
    with pytest.raises(Conflict):
        run_lock.acquire(storage, "b", at=START, lasts=MINUTE)
    clock.pass_by(seconds=10)
    run_lock.acquire(storage, "b", at=START, lasts=MINUTE)
    with pytest.raises(Conflict, match="lost the run lock"):
        run_lock.renew(storage, "a")


def test_a_process_that_is_seen_keeps_it_and_one_that_is_gone_does_not(storage: MemoryStorage, clock: Clock) -> None:
    me = this_process()
    if me is None:
        pytest.skip("processes cannot be told apart here")
    run_lock.acquire(storage, "a", at=START, lasts=MINUTE, holder=me)
    clock.pass_by(days=7)  # paused, or the clock was set
    with pytest.raises(Conflict):
        run_lock.acquire(storage, "b", at=START, lasts=MINUTE)
    run_lock.release(storage, "a")
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    run_lock.acquire(storage, "c", at=START, lasts=timedelta(days=1), holder=Holder(me.machine, child, me.started))
    run_lock.acquire(storage, "d", at=START, lasts=MINUTE)


def test_of_two_that_take_it_at_the_same_moment_one_has_it(storage: MemoryStorage) -> None:
    class Slow(MemoryStorage):
        """Another one is faster between the look and the write."""

        def write(self, key, data, *, condition=None):  # type: ignore[no-untyped-def]
            if key.endswith("turn.json") and not self.done:
                self.done = True
                run_lock.acquire(self, "fast", at=START, lasts=MINUTE)
            return super().write(key, data, condition=condition)

        done = False

    slow = Slow()
    with pytest.raises(Conflict, match="same moment"):
        run_lock.acquire(slow, "slow", at=START, lasts=MINUTE)
    run_lock.renew(slow, "fast")


def test_a_damaged_lock_is_nobodys(storage: MemoryStorage) -> None:
    storage.write("snapshots/_leases/turn.json", b"}{")
    assert run_lock.time_until_due(storage, MINUTE, now=START) <= MINUTE
    run_lock.acquire(storage, "a", at=START, lasts=MINUTE)
    run_lock.renew(storage, "a")


def test_the_next_run_is_due_by_the_beginning_of_the_last_one(storage: MemoryStorage) -> None:
    every = timedelta(minutes=10)
    assert run_lock.time_until_due(storage, every, now=START) == timedelta(0)
    run_lock.acquire(storage, "a", at=START, lasts=MINUTE)
    # It may have been killed: `acquire` will tell.
    assert run_lock.time_until_due(storage, every, now=START + MINUTE) == timedelta(0)
    run_lock.release(storage, "a")
    assert run_lock.time_until_due(storage, every, now=START + MINUTE) == 9 * MINUTE
    assert run_lock.time_until_due(storage, every, now=START + 95 * MINUTE) == timedelta(0)
    assert run_lock.time_until_due(storage, every, now=START - timedelta(days=3)) == every
