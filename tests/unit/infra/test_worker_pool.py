"""Threads that process the messages of a queue."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self

import pytest

from webmill.errors import Conflict, Unavailable
from webmill.infra.queue.base import Consumer, Delivery, Message
from webmill.infra.queue.leases import LeasedMessage
from webmill.infra.queue.memory import MemoryQueue
from webmill.infra.queue.worker_pool import WorkerPool

PATIENCE = 60.0


def filled_queue(count: int) -> MemoryQueue:
    queue = MemoryQueue()
    queue.publish(Message(str(number), b"") for number in range(count))
    return queue


def run_pool(
    queue: MemoryQueue,
    process: Callable[[LeasedMessage], None],
    *,
    threads: int = 1,
    heartbeat: float = 60.0,
    is_suspect: Callable[[Delivery], bool] = lambda _: False,
) -> None:
    pool = WorkerPool(queue, process, threads=threads, heartbeat=heartbeat, is_suspect=is_suspect)
    pool.run(stop=threading.Event(), is_over=lambda: True)


class CountingDelivery:
    """Counts how often its lease was extended."""

    id, body, attempts = "0", b"", 1

    def __init__(self, *, lost: bool = False) -> None:
        self.extensions, self.thrice, self._lost = 0, threading.Event(), lost

    def extend(self) -> None:
        self.extensions += 1
        if self.extensions >= 3:
            self.thrice.set()
        if self._lost:
            raise Conflict("another worker has it")


class OneDelivery:
    """A queue that hands out one delivery."""

    def __init__(self, delivery: CountingDelivery) -> None:
        self._left = [delivery]

    def consume(self) -> Consumer:
        return self  # type: ignore[return-value]

    def receive(self, *, timeout: float) -> CountingDelivery | None:
        return self._left.pop() if self._left else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_a_lease_is_extended_while_its_message_is_processed_and_not_longer() -> None:
    delivery, counts = CountingDelivery(), []

    def process(_: LeasedMessage) -> None:
        assert delivery.thrice.wait(PATIENCE)
        counts.append(delivery.extensions)

    run_pool(OneDelivery(delivery), process, heartbeat=0.001)  # type: ignore[arg-type]
    assert counts[0] >= 3
    assert delivery.extensions <= counts[0] + 2  # one that was on its way, and one before it was removed


def test_the_worker_learns_that_its_lease_was_lost() -> None:
    delivery = CountingDelivery(lost=True)

    def process(message: LeasedMessage) -> None:
        assert delivery.thrice.wait(PATIENCE)
        with pytest.raises(Conflict):
            message.check()

    run_pool(OneDelivery(delivery), process, heartbeat=0.001)  # type: ignore[arg-type]


def test_the_failure_of_one_thread_ends_all_and_is_raised() -> None:
    queue, processed = filled_queue(5), []

    def process(message: LeasedMessage) -> None:
        if message.delivery.id == "2":
            raise Unavailable("no more")
        processed.append(message.delivery.id)
        message.delivery.ack()

    with pytest.raises(Unavailable, match="no more"):
        run_pool(queue, process)
    assert processed == ["0", "1"]
    assert queue.stats().ready == 2


def test_every_message_is_processed_once_until_the_queue_is_empty() -> None:
    queue, processed = filled_queue(50), []

    def process(message: LeasedMessage) -> None:
        processed.append(message.delivery.id)
        message.delivery.ack()

    run_pool(queue, process, threads=3)
    assert sorted(processed, key=int) == [str(number) for number in range(50)]


def test_a_message_that_is_retried_by_the_last_thread_is_not_left_behind() -> None:
    """The other thread finds the queue empty and is told that it is over, while this one still has a message."""
    queue, attempts, asked = filled_queue(1), [], threading.Event()

    def process(message: LeasedMessage) -> None:
        attempts.append(message.delivery.attempts)
        if len(attempts) == 1:
            assert asked.wait(PATIENCE)
            message.delivery.retry("once more")
        else:
            message.delivery.ack()

    def is_over() -> bool:
        asked.set()
        return True

    WorkerPool(queue, process, threads=2, heartbeat=60.0).run(stop=threading.Event(), is_over=is_over)
    assert attempts == [1, 2]


def test_messages_are_processed_side_by_side() -> None:
    queue, together = filled_queue(3), threading.Barrier(3)

    def process(message: LeasedMessage) -> None:
        together.wait(PATIENCE)
        message.delivery.ack()

    run_pool(queue, process, threads=3)
    assert queue.stats().waiting == 0


def test_a_suspect_message_waits_for_the_others_and_is_processed_alone() -> None:
    queue, active, seen = filled_queue(12), [], []

    def process(message: LeasedMessage) -> None:
        active.append(message.delivery.id)
        seen.append(tuple(active))
        message.delivery.ack()
        active.remove(message.delivery.id)

    run_pool(queue, process, threads=4, is_suspect=lambda delivery: int(delivery.id) % 3 == 0)
    assert {one for one in seen if int(one[-1]) % 3 == 0} == {("0",), ("3",), ("6",), ("9",)}
    assert len(seen) == 12
