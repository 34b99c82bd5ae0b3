"""A queue that hands messages out in order: one that waits for its next attempt holds the others back."""

from __future__ import annotations

from pathlib import Path

import pytest

from webmill.infra.queue.base import Message
from webmill.infra.queue.sqlite import SqliteQueue


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def opened(path: Path, clock: Clock, attempts: int = 3) -> SqliteQueue:
    return SqliteQueue(path / "queue.sqlite", in_order=True, max_attempts=attempts, lease=60.0, clock=clock)


def taken(queue: SqliteQueue) -> str | None:
    delivery = queue.consume().receive(timeout=0)
    if delivery:
        delivery.ack()
    return delivery.id if delivery else None


def test_a_failed_message_holds_back_the_others_until_it_is_due(tmp_path: Path, clock: Clock) -> None:
    queue = opened(tmp_path, clock)
    queue.publish(Message(id_, b"") for id_ in "abc")
    delivery = queue.consume().receive(timeout=0)
    assert delivery
    assert queue.consume().receive(timeout=0) is None, "the first is not settled"
    delivery.retry("not now", delay=10.0)
    assert taken(queue) is None
    assert queue.next_due() == 1010.0
    clock.now += 11
    assert [taken(queue) for _ in range(4)] == ["a", "b", "c", None]
    assert queue.next_due() is None


def test_a_message_that_is_given_up_lets_the_others_pass_and_comes_first_when_it_is_retried(
    tmp_path: Path, clock: Clock
) -> None:
    queue = opened(tmp_path, clock, attempts=1)
    queue.publish(Message(id_, b"") for id_ in "abc")
    delivery = queue.consume().receive(timeout=0)
    assert delivery
    delivery.retry("never", delay=10.0)
    assert taken(queue) == "b"
    assert queue.requeue() == 1
    assert [taken(queue) for _ in range(3)] == ["a", "c", None]


def test_what_a_killed_process_had_is_ready_and_has_cost_an_attempt(tmp_path: Path, clock: Clock) -> None:
    queue = opened(tmp_path, clock)
    queue.publish(Message(id_, b"") for id_ in "ab")
    assert queue.consume().receive(timeout=0)
    queue.close()  # as a kill would leave it: leased
    queue = opened(tmp_path, clock)
    assert taken(queue) is None
    queue.release_leased()
    delivery = queue.consume().receive(timeout=0)
    assert delivery
    assert (delivery.id, delivery.attempts) == ("a", 2)


def test_delays_can_be_ended(tmp_path: Path, clock: Clock) -> None:
    queue = opened(tmp_path, clock)
    queue.publish([Message("a", b"")])
    delivery = queue.consume().receive(timeout=0)
    assert delivery
    delivery.retry("not now", delay=1000.0)
    queue.release_leased()
    assert taken(queue) is None, "a delay is no lease"
    queue.end_delays()
    assert taken(queue) == "a"
