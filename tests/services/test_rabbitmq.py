"""What only RabbitMQ can do to us: it dies, hangs, blocks, refuses, and keeps queues that somebody else declared."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import aiormq
import pytest

from tests.faults.matrix import record
from tests.services import Running, started
from tests.services.base import binary
from tests.services.rabbitmq import ENV, FOLDERS
from tests.thoroughness import WHOLE
from webmill.errors import Conflict, Misconfigured, Unavailable
from webmill.infra.queue.base import Message
from webmill.infra.queue.rabbitmq import RabbitQueue

KILLS = 4 if WHOLE else 2  # of the broker, which takes its time to come back
pytestmark = pytest.mark.server("rabbitmq")


@pytest.fixture(scope="module")
def broker() -> Iterator[Running]:
    """One that a test may kill and stop."""
    with started("rabbitmq") as server:
        yield server


@pytest.fixture
def name() -> str:
    return f"test-{secrets.token_hex(6)}"


@contextmanager
def opened(url: str, name: str, **settings: Any) -> Iterator[RabbitQueue]:
    queue = RabbitQueue(url, name=name, **{"new_queue_pause": 0, **settings})
    try:
        yield queue
    finally:
        queue.close()


def ask(url: str, question: Callable[[aiormq.abc.AbstractChannel], Any]) -> Any:
    """Do something to the broker behind the queue's back."""

    async def run() -> Any:
        connection = await aiormq.connect(url)
        try:
            return await question(await connection.channel())
        finally:
            await connection.close()

    return asyncio.run(run())


# --- queues that are not as they should be ---


@pytest.mark.parametrize(
    "weaker",
    [
        {"durable": True, "arguments": {"x-max-length": 5}},
        {"durable": True, "arguments": {"x-queue-type": "quorum"}},
        {"durable": True, "arguments": {"x-queue-type": "quorum", "x-delivery-limit": 4, "x-dead-letter-exchange": ""}},
    ],
    ids=["may drop messages", "no limit", "at-most-once dead letters"],
)
def test_a_queue_declared_with_weaker_promises_is_refused(amqp_url: str, name: str, weaker: dict[str, Any]) -> None:
    ask(amqp_url, lambda channel: channel.queue_declare(name, **weaker))
    with pytest.raises(Misconfigured, match=f"rabbitmqctl delete_queue {name}"):
        RabbitQueue(amqp_url, name=name)


@pytest.mark.parametrize(
    ("durable", "missing"),
    [(False, "when RabbitMQ restarts, the queue and all its messages are lost"), (True, "it is not replicated")],
)
def test_a_classic_queue_of_another_program_is_joined_and_what_it_lacks_is_said(
    amqp_url: str, name: str, durable: bool, missing: str, caplog: pytest.LogCaptureFixture
) -> None:
    ask(amqp_url, lambda channel: channel.queue_declare(name, durable=durable))
    with opened(amqp_url, name) as queue, queue.consume() as consumer:
        queue.publish([Message("a", b"body")])
        delivery = await_delivery(consumer)
        assert (delivery.id, delivery.body) == ("a", b"body")
        delivery.ack()
    (warning,) = caplog.records
    assert warning.levelname == "WARNING"
    assert missing in vars(warning)["sentence"]
    assert f"rabbitmqctl delete_queue {name}" in vars(warning)["sentence"]


def test_a_queue_of_ours_is_opened_without_a_warning(
    amqp_url: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        with opened(amqp_url, name):
            assert not caplog.records


def test_a_classic_queue_can_be_made_for_programs_that_come_later(amqp_url: str, name: str) -> None:
    with opened(amqp_url, name, type="classic") as queue:
        queue.publish([Message("a", b"")])
        answer = ask(amqp_url, lambda channel: channel.queue_declare(name))
        assert answer.message_count == 1
    with opened(amqp_url, name + "2"), pytest.raises(Misconfigured, match=f"rabbitmqctl delete_queue {name}2"):
        RabbitQueue(amqp_url, name=name + "2", type="classic")


def test_a_classic_queue_counts_no_deliveries_but_what_nobody_survives_is_buried(amqp_url: str, name: str) -> None:
    with opened(amqp_url, name, type="classic", max_attempts=2) as queue:
        queue.publish([Message("poison", b"body")])
        for attempt in (1, 2):
            with opened(amqp_url, name, max_attempts=2) as worker:
                assert await_delivery(worker.consume()).attempts == attempt
        with queue.consume() as consumer:
            assert consumer.receive(timeout=0.5) is None
        (buried,) = eventually(lambda: list(queue.dead_letters()))
        assert (buried.id, buried.body, buried.attempts) == ("poison", b"body", 2)
        assert buried.reason == "lease expired 2 times: the worker died or hung"


def test_publishing_to_a_queue_that_was_deleted_is_said(amqp_url: str, name: str) -> None:
    with opened(amqp_url, name) as queue:
        ask(amqp_url, lambda channel: channel.queue_delete(name))
        with pytest.raises(Misconfigured, match="deleted"):
            queue.publish([Message("lost?", b"")])


def test_a_wrong_password_is_not_retried(amqp_url: str, name: str) -> None:
    with pytest.raises(Misconfigured, match="password"):
        RabbitQueue(amqp_url.replace("guest:guest", "guest:wrong"), name=name)


def test_a_wrong_virtual_host_is_not_retried(amqp_url: str, name: str) -> None:
    with pytest.raises(Misconfigured, match="virtual host"):
        RabbitQueue(amqp_url + "no-such-host", name=name)


def test_a_broker_that_is_not_there_is_unavailable(name: str) -> None:
    with pytest.raises(Unavailable):
        RabbitQueue("amqp://guest:guest@127.0.0.1:9/", name=name)


def test_the_broker_itself_buries_what_nobody_survives(amqp_url: str, name: str) -> None:
    """No worker of ours is left to bury it: the limit of the queue does."""
    with opened(amqp_url, name, max_attempts=2) as queue:
        queue.publish([Message("poison", b"body")])
        for _ in range(2):
            with opened(amqp_url, name, max_attempts=2) as worker:
                await_delivery(worker.consume())
        (buried,) = eventually(lambda: list(queue.dead_letters()))
        assert (buried.id, buried.body, buried.attempts) == ("poison", b"body", 2)
        assert buried.reason == "lease expired 2 times: the worker died or hung"


# --- a broker in trouble ---


@pytest.mark.slow
def test_heartbeats_go_on_while_the_caller_works(amqp_url: str, name: str) -> None:
    with opened(amqp_url, name, heartbeat=1) as queue, queue.consume() as consumer:
        queue.publish([Message("slow", b"")])
        delivery = await_delivery(consumer)
        time.sleep(4)  # the broker drops a silent connection after two seconds
        delivery.ack()


def test_an_alarm_blocks_publishers_and_says_so(broker: Running, name: str) -> None:
    with opened(broker.url, name, patience=0.5) as queue:
        control(broker, "set_vm_memory_high_watermark", "0.0000001")
        try:
            with pytest.raises(Unavailable, match="alarm"):
                eventually_raises(lambda: queue.publish([Message(secrets.token_hex(4), b"")]))
        finally:
            control(broker, "set_vm_memory_high_watermark", "0.4")
        eventually(lambda: succeeds(lambda: queue.publish([Message("after", b"")])))


def test_what_a_full_queue_refuses_is_said_and_taken_when_there_is_room(broker: Running, name: str) -> None:
    """Q06: the broker answers with a nack."""
    with opened(broker.url, name, patience=0.5) as queue:
        control(broker, "set_policy", "full", f"^{name}$", '{"max-length": 2}', "--apply-to", "queues")
        confirmed: list[str] = []

        def publish() -> None:
            queue.publish([Message(str(len(confirmed)), b"")])
            confirmed.append(str(len(confirmed)))

        with pytest.raises(Unavailable, match="did not confirm"):
            eventually_raises(publish)
        taken: set[str] = set()
        with queue.consume(prefetch=10) as consumer:
            while not taken >= set(confirmed):
                delivery = await_delivery(consumer)
                taken.add(delivery.id)
                delivery.ack()
        eventually(lambda: succeeds(publish))
        control(broker, "clear_policy", "full")


@pytest.mark.slow
def test_a_hung_broker_is_noticed_and_consumed_from_once_it_is_back(broker: Running, name: str) -> None:
    with opened(broker.url, name, heartbeat=1) as queue, queue.consume(prefetch=2) as consumer:
        queue.publish([Message("a", b"")])
        held = await_delivery(consumer)
        with hung(broker):
            with pytest.raises(Unavailable):
                eventually_raises(lambda: consumer.receive(timeout=1))
            with pytest.raises(Conflict):
                held.ack()
        again = await_delivery(consumer)
        assert (again.id, again.attempts) == ("a", 2)
        again.ack()
        answer = ask(broker.url, lambda channel: channel.queue_declare(name, passive=True))
        assert answer.consumer_count == 1


@pytest.mark.slow
def test_what_is_held_longer_than_the_broker_allows_is_somebody_elses(broker: Running, name: str) -> None:
    """Q07: the broker closes the channel, as it does after 30 minutes."""
    with opened(broker.url, name) as queue:
        queue.publish([Message("slow", b"")])
        with channels_that_time_out(broker):
            consumer = queue.consume()  # on a channel that may hold a message for a second
            held = await_delivery(consumer)
            eventually(lambda: is_over(held))
        with pytest.raises(Conflict):
            held.ack()
        consumer.close()
        with queue.consume() as other:
            again = await_delivery(other)
            assert (again.id, again.attempts) == ("slow", 2)
            again.ack()


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.timeout(240 + 30 * KILLS)
def test_a_broker_killed_while_busy_loses_nothing_it_confirmed(broker: Running, name: str) -> None:
    confirmed: list[str] = []
    received: set[str] = set()
    enough, errors = threading.Event(), []

    def publish() -> None:
        with opened(broker.url, name, patience=120) as queue:
            number = 0
            while not enough.is_set():
                batch = [Message(str(number + step), b"x" * 200) for step in range(20)]
                queue.publish(batch)
                confirmed.extend(message.id for message in batch)
                number += 20

    def consume() -> None:
        with opened(broker.url, name) as queue, queue.consume(prefetch=50) as consumer:
            while not (enough.is_set() and received >= set(confirmed)):
                try:
                    if delivery := consumer.receive(timeout=0.5):
                        received.add(delivery.id)
                        delivery.ack()
                except (Unavailable, Conflict) as error:
                    errors.append(error)

    RabbitQueue(broker.url, name=name).close()  # it waits until the broker has written down that the queue exists
    threads = [threading.Thread(target=work, daemon=True) for work in (publish, consume)]
    for thread in threads:
        thread.start()
    for _ in range(KILLS):
        before = len(confirmed)
        eventually(lambda before=before: len(confirmed) > before + 400 and len(received) > 100)
        broker.kill()
        broker.restart()
    before = len(confirmed)
    eventually(lambda: len(confirmed) > before + 400)
    enough.set()
    for thread in threads:
        thread.join(100)
    lost = len(set(confirmed) - received)
    record("queue (RabbitMQ)", "broker restarted", injected=KILLS, acknowledged=len(confirmed), lost=lost)
    assert lost == 0
    assert not any(thread.is_alive() for thread in threads)
    assert errors, "nobody noticed that the broker died"
    with opened(broker.url, name) as queue:
        assert queue.stats().buried == 0


@pytest.mark.soak
@pytest.mark.crash
def test_a_broker_killed_forgets_what_was_not_to_be_kept(broker: Running, name: str) -> None:
    """The negative control: messages in a queue that is not durable, published without a confirmation."""

    async def publish(channel: aiormq.abc.AbstractChannel) -> None:
        await channel.queue_declare(name, durable=False)
        for number in range(100):
            await channel.basic_publish(str(number).encode(), routing_key=name)
        await channel.queue_declare(name, passive=True)

    async def find(channel: aiormq.abc.AbstractChannel) -> int:
        return (await channel.queue_declare(name, durable=False)).message_count or 0

    ask(broker.url, publish)
    broker.kill()
    broker.restart()
    lost = 100 - ask(broker.url, find)
    record("queue (RabbitMQ)", "broker restarted", injected=1, acknowledged=100, lost=lost, control=True)
    assert lost > 0


def await_delivery(consumer: Any) -> Any:
    delivery = consumer.receive(timeout=30)
    assert delivery is not None
    return delivery


def eventually(look: Callable[[], Any], *, within: float = 90.0) -> Any:
    deadline = time.monotonic() + within
    while not (found := look()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
    return found


def eventually_raises(attempt: Callable[[], object]) -> None:
    """Some time or other one attempt raises; `pytest.raises` around this says what."""
    for _ in range(200):
        attempt()


def succeeds(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except Unavailable:
        return False
    return True


def is_over(delivery: Any) -> bool:
    try:
        delivery.extend()
    except Conflict:
        return True
    return False


@contextmanager
def channels_that_time_out(broker: Running) -> Iterator[None]:
    """Those that are opened meanwhile."""
    settings = (
        "application:set_env(rabbit, consumer_timeout, {}), application:set_env(rabbit, channel_tick_interval, {})."
    )
    control(broker, "eval", settings.format(1000, 200))
    try:
        yield
    finally:
        control(broker, "eval", settings.format(1_800_000, 60_000))


@contextmanager
def hung(broker: Running) -> Iterator[None]:
    """Its connections stay open and nothing answers."""
    assert broker.process is not None
    os.killpg(broker.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(broker.process.pid, signal.SIGCONT)


def control(broker: Running, *command: str) -> None:
    program = binary("rabbitmqctl", package="rabbitmq-server", folders=FOLDERS, setting=ENV)
    line = [program, "-n", broker.env["RABBITMQ_NODENAME"], *command]
    subprocess.run(line, env={**os.environ, **broker.env}, check=True, stdout=subprocess.DEVNULL)
