"""What every queue promises (webmill.infra.queue.base), on every backend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.queue_benches import Bench, MemoryBench, RabbitBench, SqliteBench, SqsBench, messages
from webmill.errors import BadInput, Conflict
from webmill.infra.queue.base import Message

RABBIT = pytest.param("rabbitmq", marks=pytest.mark.server("rabbitmq"))
CLASSIC = pytest.param("classic", marks=pytest.mark.server("rabbitmq"))  # shared with other programs
SQS = pytest.param("sqs", marks=[pytest.mark.server("aws"), pytest.mark.xdist_group("aws")])


@pytest.fixture(params=["memory", "sqlite", RABBIT, CLASSIC, SQS])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    match request.param:
        case "memory":
            bench: Bench = MemoryBench()
        case "sqlite":
            bench = SqliteBench(tmp_path)
        case "sqs":
            bench = SqsBench(request.getfixturevalue("aws_url"))
        case "classic":
            bench = RabbitBench(request.getfixturevalue("amqp_url"), kind="classic")
        case _:
            bench = RabbitBench(request.getfixturevalue("amqp_url"))
    yield bench
    bench.close()


def test_what_is_published_is_received_in_order_and_forgotten_when_acked(bench: Bench) -> None:
    queue = bench.open()
    assert queue.publish(messages(3)) == 3
    assert bench.reaches(queue, ready=3)
    with queue.consume() as consumer:
        for number in range(3):
            delivery = bench.take(consumer)
            assert (delivery.id, delivery.body, delivery.attempts) == (f"id-{number}", f"body {number}".encode(), 1)
            delivery.ack()
        assert bench.finds_nothing(consumer)
    assert bench.reaches(queue)


def test_an_empty_body_and_an_empty_batch_are_fine(bench: Bench) -> None:
    queue = bench.open()
    assert queue.publish([]) == 0
    assert queue.publish([Message("nothing", b"")]) == 1
    with queue.consume() as consumer:
        assert bench.take(consumer).body == b""


def test_a_message_belongs_to_one_consumer_at_a_time(bench: Bench) -> None:
    queue = bench.open()
    queue.publish(messages(1))
    with queue.consume() as first, bench.open().consume() as second:
        delivery = bench.take(first)
        assert bench.finds_nothing(second)
        delivery.ack()


def test_consumers_share_the_work(bench: Bench) -> None:
    queue = bench.open()
    queue.publish(messages(20))
    seen = []
    with queue.consume() as first, bench.open().consume() as second:
        for _ in range(10):
            for consumer in (first, second):
                delivery = bench.take(consumer)
                seen.append(delivery.id)
                delivery.ack()
    assert sorted(seen) == sorted(message.id for message in messages(20))


def test_prefetch_holds_no_more_than_it_says(bench: Bench) -> None:
    queue = bench.open()
    queue.publish(messages(10))
    with queue.consume(prefetch=4) as greedy, bench.open().consume(prefetch=10) as rest:
        held = [bench.take(greedy) for _ in range(4)]
        others = [bench.take(rest) for _ in range(6)]
        assert bench.finds_nothing(rest)
        assert len({delivery.id for delivery in held + others}) == 10
        for delivery in held + others:
            delivery.ack()
    assert bench.reaches(queue)


def test_nothing_is_fetched_ahead_with_a_prefetch_of_one(bench: Bench) -> None:
    queue = bench.open()
    queue.publish(messages(2))
    with queue.consume() as idle, queue.consume() as first, bench.open().consume() as second:
        bench.take(first).ack()
        bench.take(second).ack()
        assert bench.finds_nothing(idle)
    assert bench.reaches(queue)


def test_what_was_fetched_ahead_goes_back_without_costing_an_attempt(bench: Bench) -> None:
    queue = bench.open(max_attempts=2)
    queue.publish(messages(6))
    for left in range(6, 0, -1):
        with queue.consume(prefetch=6) as consumer:
            delivery = bench.take(consumer)
            assert delivery.attempts == 1
            assert bench.reaches(queue, leased=left)
            delivery.ack()
    assert bench.reaches(queue)


def test_a_retried_message_comes_again_with_its_attempts_counted(bench: Bench) -> None:
    queue = bench.open()
    queue.publish(messages(1))
    with queue.consume() as consumer:
        for attempt in (1, 2, 3):
            delivery = bench.take(consumer)
            assert (delivery.id, delivery.body, delivery.attempts) == ("id-0", b"body 0", attempt)
            delivery.retry("the server was away")
        bench.take(consumer).ack()
    assert bench.reaches(queue)


def test_a_delayed_message_comes_after_its_delay(bench: Bench) -> None:
    queue = bench.open()
    queue.publish(messages(1))
    with queue.consume() as consumer:
        bench.take(consumer).retry("too many requests", delay=0.9)
        assert bench.finds_nothing(consumer)
        assert bench.reaches(queue, delayed=1)
        bench.wait(1)
        delivery = bench.take(consumer)
        assert (delivery.id, delivery.attempts) == ("id-0", 2)
        delivery.ack()
    assert bench.reaches(queue)


def test_a_buried_message_is_kept_with_its_reason(bench: Bench) -> None:
    queue = bench.open()
    queue.publish(messages(1))
    with queue.consume() as consumer:
        bench.take(consumer).retry("first trouble")
        bench.take(consumer).bury("no such file")
        assert bench.finds_nothing(consumer)
    assert bench.reaches(queue, buried=1)
    for _ in range(2):  # looking changes nothing
        (buried,) = queue.dead_letters()
        assert (buried.id, buried.body, buried.reason, buried.attempts) == ("id-0", b"body 0", "no such file", 2)
        assert (buried.first_error, buried.last_error) == ("first trouble", "no such file")
        assert buried.when > 1_600_000_000


def test_a_reason_is_never_empty_and_never_endless(bench: Bench) -> None:
    queue = bench.open()
    queue.publish(messages(2))
    with queue.consume() as consumer:
        bench.take(consumer).bury("")
        bench.take(consumer).bury("x" * 1_000_000)
    lengths = sorted(len(buried.reason) for buried in queue.dead_letters())
    assert 0 < lengths[0] < lengths[1] == 4096


def test_after_its_last_attempt_a_failing_message_is_buried_and_the_others_flow(bench: Bench) -> None:
    queue = bench.open(max_attempts=3)
    queue.publish(messages(2))
    attempts = []
    with queue.consume() as consumer:
        for _ in range(4):
            delivery = bench.take(consumer)
            if delivery.id == "id-1":
                delivery.ack()
            else:
                attempts.append(delivery.attempts)
                delivery.retry(f"failure {delivery.attempts}")
        assert bench.finds_nothing(consumer)
    assert attempts == [1, 2, 3]
    (buried,) = queue.dead_letters()
    assert (buried.attempts, buried.first_error, buried.reason) == (3, "failure 1", "failure 3")


def test_a_message_that_kills_its_workers_is_buried_with_a_reason(bench: Bench) -> None:
    queue = bench.open(max_attempts=3)
    queue.publish(messages(1))
    for attempt in (1, 2, 3):
        with bench.open(max_attempts=3).consume() as consumer:
            assert bench.take(consumer).attempts == attempt
            bench.end_leases(consumer)
    with queue.consume() as consumer:
        assert bench.finds_nothing(consumer)
    assert bench.reaches(queue, buried=1)
    (buried,) = queue.dead_letters()
    assert (buried.id, buried.body, buried.attempts) == ("id-0", b"body 0", 3)
    assert buried.reason == "lease expired 3 times: the worker died or hung"
    assert buried.first_error
    assert buried.last_error


def test_failures_and_deaths_count_together(bench: Bench) -> None:
    queue = bench.open(max_attempts=3)
    queue.publish(messages(1))
    with queue.consume() as consumer:
        bench.take(consumer).retry("a failure first")
        assert bench.take(consumer).attempts == 2
        bench.end_leases(consumer)
    with queue.consume() as consumer:
        assert bench.take(consumer).attempts == 3
        bench.end_leases(consumer)
    with queue.consume() as consumer:
        assert bench.finds_nothing(consumer)
    (buried,) = queue.dead_letters()
    assert (buried.attempts, buried.first_error) == (3, "a failure first")
    assert buried.reason == "lease expired 2 times: the worker died or hung"


@pytest.mark.parametrize("settle", ["ack", "retry", "bury", "extend"])
def test_nobody_settles_after_the_lease_is_over(bench: Bench, settle: str) -> None:
    queue = bench.open()
    queue.publish(messages(1))
    with queue.consume() as slow:
        late = bench.take(slow)
        bench.end_leases(slow)
        arguments = ["too late"] if settle in {"retry", "bury"} else []
        with pytest.raises(Conflict):
            getattr(late, settle)(*arguments)
        with bench.open().consume() as other:
            current = bench.take(other)
            with pytest.raises(Conflict):
                getattr(late, settle)(*arguments)
            assert (current.id, current.attempts) == ("id-0", 2)
            current.ack()
    assert bench.reaches(queue)


def test_a_delivery_is_settled_once(bench: Bench) -> None:
    queue = bench.open()
    queue.publish(messages(3))
    with queue.consume(prefetch=3) as consumer:
        acked, retried, buried = (bench.take(consumer) for _ in range(3))
        acked.ack()
        retried.retry("again")
        buried.bury("never")
        for delivery in (acked, retried, buried):
            with pytest.raises(Conflict):
                delivery.ack()
    assert bench.reaches(queue, ready=1, buried=1)


def test_an_extended_lease_lasts_also_for_what_was_fetched_ahead(bench: Bench) -> None:
    queue = bench.open()
    queue.publish(messages(3))
    with queue.consume(prefetch=3) as consumer:
        first = bench.take(consumer)
        for _ in range(5):
            bench.wait(50)
            first.extend()
        first.ack()
        bench.wait(50)
        second = bench.take(consumer)
        bench.wait(50)
        assert second.attempts == 1
        second.ack()
        bench.take(consumer).ack()
    assert bench.reaches(queue)


def test_requeued_messages_keep_their_id_and_get_fresh_attempts(bench: Bench) -> None:
    queue = bench.open(max_attempts=1)
    queue.publish(messages(3))
    with queue.consume() as consumer:
        for _ in range(3):
            bench.take(consumer).retry("down")
        assert bench.reaches(queue, buried=3)
        assert queue.requeue(["id-1", "id-unknown"]) == 1
        delivery = bench.take(consumer)
        assert (delivery.id, delivery.body, delivery.attempts) == ("id-1", b"body 1", 1)
        delivery.ack()
        assert bench.reaches(queue, buried=2)
        assert queue.requeue() == 2
        for _ in range(2):
            bench.take(consumer).ack()
    assert bench.reaches(queue)
    assert queue.requeue() == 0


def test_only_buried_messages_are_dropped(bench: Bench) -> None:
    queue = bench.open()
    queue.publish(messages(3))
    with queue.consume() as consumer:
        bench.take(consumer).bury("bad")
        bench.take(consumer).bury("bad")
    assert queue.drop(["id-0", "id-2", "id-9"]) == 1
    assert [buried.id for buried in queue.dead_letters()] == ["id-1"]
    assert bench.reaches(queue, ready=1, buried=1)


def test_a_message_over_the_limit_is_refused_with_its_whole_batch(bench: Bench) -> None:
    queue = bench.open(max_bytes=10)
    with pytest.raises(BadInput) as refused:
        queue.publish([Message("fits", b"x" * 10), Message("does-not", b"x" * 11)])
    assert refused.value.reason == "too_large"
    assert bench.reaches(queue)


@pytest.mark.parametrize("bad", ["", "x" * 256, "é" * 200])
def test_an_id_no_backend_could_carry_is_refused(bench: Bench, bad: str) -> None:
    with pytest.raises(BadInput) as refused:
        bench.open().publish([Message(bad, b"")])
    assert refused.value.reason == "bad_id"


def test_ids_and_bodies_come_back_byte_for_byte(bench: Bench) -> None:
    queue = bench.open()
    sent = {Message("ключ/日本 ✓", bytes(range(256))), Message("a'b\"c;--", b"\x00\xff"), Message("x" * 255, b"{}")}
    assert queue.publish(sent) == 3
    with queue.consume() as consumer:
        got = set()
        for _ in range(3):
            delivery = bench.take(consumer)
            got.add(Message(delivery.id, delivery.body))
            delivery.ack()
    assert got == sent


def test_an_id_given_twice_in_one_batch_is_one_message(bench: Bench) -> None:
    queue = bench.open()
    assert queue.publish([*messages(2), *messages(2)]) == 2
    assert bench.reaches(queue, ready=2)
