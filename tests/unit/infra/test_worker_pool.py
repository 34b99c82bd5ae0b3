"""Threads that work a queue: what they hold is extended, what fails is told by the one who waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from webmill.errors import Conflict, Unavailable
from webmill.infra.queue.base import Message, Queue
from webmill.infra.queue.memory import MemoryQueue
from webmill.infra.queue.worker_pool import WorkerPool

PATIENCE = 60.0


class Extended:
    """A delivery that tells how often it was extended."""

    def __init__(self, *, lost: bool = False) -> None:
        self.count, self.thrice, self._lost = 0, threading.Event(), lost

    def extend(self) -> None:
        self.count += 1
        if self.count >= 3:
            self.thrice.set()
        if self._lost:
            raise Conflict("it is somebody else's")


def test_what_is_leased_is_extended_while_it_is_worked_and_not_longer() -> None:
    pool, delivery = WorkerPool(heartbeat=0.001), Extended()
    counts: list[int] = []

    def work() -> None:
        with pool.lease(delivery):  # type: ignore[arg-type]
            assert delivery.thrice.wait(PATIENCE)
        counts.append(delivery.count)

    pool.run([work])
    assert counts[0] >= 3
    assert delivery.count <= counts[0] + 1  # one that was on its way


def test_a_message_that_was_lost_is_told_to_who_works_it() -> None:
    pool, delivery = WorkerPool(heartbeat=0.001), Extended(lost=True)

    def work() -> None:
        with pool.lease(delivery) as held:  # type: ignore[arg-type]
            assert delivery.thrice.wait(PATIENCE)
            with pytest.raises(Conflict):
                held.check()

    pool.run([work])


def taking(pool: WorkerPool, queue: Queue, taken: list[str], *, fail_at: str = "") -> Callable[[], None]:
    def work() -> None:
        with queue.consume() as consumer:
            for delivery in pool.deliveries(consumer, stop=threading.Event(), is_over=lambda: True):
                if delivery.id == fail_at:
                    raise Unavailable("no more")
                taken.append(delivery.id)
                delivery.ack()

    return work


def test_the_failure_of_one_ends_all_and_is_raised() -> None:
    pool, queue, taken = WorkerPool(heartbeat=60.0), MemoryQueue(), []
    queue.publish(Message(str(number), b"") for number in range(5))
    with pytest.raises(Unavailable, match="no more"):
        pool.run([taking(pool, queue, taken, fail_at="2")])
    assert taken == ["0", "1"]
    with queue.consume() as consumer:  # who has seen the failure takes nothing more
        assert list(pool.deliveries(consumer, stop=threading.Event(), is_over=lambda: True)) == []


def test_all_that_there_is_is_taken_once_and_then_it_is_over() -> None:
    pool, queue, taken = WorkerPool(heartbeat=60.0), MemoryQueue(), []
    queue.publish(Message(str(number), b"") for number in range(50))
    pool.run([taking(pool, queue, taken)] * 3)
    assert sorted(taken, key=int) == [str(number) for number in range(50)]


def test_who_waits_does_other_things_meanwhile() -> None:
    looked = threading.Event()
    WorkerPool(heartbeat=60.0).run([lambda: assert_(looked.wait(PATIENCE))], also=looked.set)
    assert looked.is_set()


def assert_(held: bool) -> None:
    assert held
