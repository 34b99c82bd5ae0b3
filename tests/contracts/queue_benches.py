"""How the contract opens queues of one backend, and how time passes there."""

from __future__ import annotations

import secrets
from pathlib import Path

from webmill.infra.queue.base import BrokerQueueType, Consumer, Delivery, Message, Queue, QueueStats
from webmill.infra.queue.memory import MemoryQueue
from webmill.infra.queue.sqlite import SqliteQueue

LEASE = 60.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


class Bench:
    """Time stands still but for `wait`; a lease ends by the clock."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.opened: list[Queue] = []

    def open(self, *, max_attempts: int = 5, max_bytes: int = 1000) -> Queue:
        queue = self.make(max_attempts, max_bytes)
        self.opened.append(queue)
        return queue

    def make(self, max_attempts: int, max_bytes: int) -> Queue:
        raise NotImplementedError

    def close(self) -> None:
        for queue in self.opened:
            queue.close()

    def take(self, consumer: Consumer) -> Delivery:
        delivery = consumer.receive(timeout=0)
        assert delivery is not None
        return delivery

    def finds_nothing(self, consumer: Consumer) -> bool:
        return consumer.receive(timeout=0) is None

    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    def end_leases(self, consumer: Consumer) -> None:
        self.clock.now += LEASE + 1

    def reaches(self, queue: Queue, **expected: int) -> bool:
        stats = queue.stats()
        return stats == QueueStats(**{"ready": 0, "leased": 0, "delayed": 0, "buried": 0, **expected})


class MemoryBench(Bench):
    """One queue: there is nothing to open a second time."""

    def make(self, max_attempts: int, max_bytes: int) -> Queue:
        if self.opened:
            return self.opened[0]
        return MemoryQueue(max_attempts=max_attempts, max_bytes=max_bytes, lease=LEASE, clock=self.clock)


class SqliteBench(Bench):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.path = folder / "queue.sqlite"

    def make(self, max_attempts: int, max_bytes: int) -> Queue:
        return SqliteQueue(self.path, max_attempts=max_attempts, max_bytes=max_bytes, lease=LEASE, clock=self.clock)


class RabbitBench(Bench):
    """Real time; a lease ends with its channel. Every test has queues of its own name."""

    def __init__(self, url: str, *, kind: BrokerQueueType = "quorum") -> None:
        super().__init__()
        self.url, self.kind = url, kind
        self.name = f"contract-{secrets.token_hex(6)}"

    def make(self, max_attempts: int, max_bytes: int) -> Queue:
        from webmill.infra.queue.rabbitmq import RabbitQueue

        limits = {"max_attempts": max_attempts, "max_bytes": max_bytes}
        return RabbitQueue(self.url, name=self.name, new_queue_pause=0, type=self.kind, **limits)

    def take(self, consumer: Consumer) -> Delivery:
        delivery = consumer.receive(timeout=20)
        assert delivery is not None
        return delivery

    def finds_nothing(self, consumer: Consumer) -> bool:
        return consumer.receive(timeout=0.2) is None

    def wait(self, seconds: float) -> None:
        """`take` waits for what is to come."""

    def end_leases(self, consumer: Consumer) -> None:
        consumer.close()

    def reaches(self, queue: Queue, **expected: int) -> bool:
        """The broker counts a moment later than it confirms."""
        return any(super(RabbitBench, self).reaches(queue, **expected) for _ in range(200))


class SqsBench(Bench):
    """Our clock is the bench's; SQS's is not, so a lease is ended there by hand. Delays take the time they take."""

    def __init__(self, endpoint: str) -> None:
        super().__init__()
        self.endpoint = endpoint
        self.address = f"sqs://KEY:SECRET@contract-{secrets.token_hex(6)}.fifo?region=us-east-1&endpoint={endpoint}"

    def make(self, max_attempts: int, max_bytes: int) -> Queue:
        from webmill.infra.queue.sqs import SqsQueue, SqsTiming

        limits = {"max_attempts": max_attempts, "max_bytes": max_bytes}
        timing = SqsTiming(dead_letter_wait=0, clock=self.clock)
        return SqsQueue(self.address, lease=LEASE, timing=timing, **limits)

    def take(self, consumer: Consumer) -> Delivery:
        delivery = consumer.receive(timeout=60)
        assert delivery is not None
        return delivery

    def end_leases(self, consumer: Consumer) -> None:
        from webmill.infra.queue.sqs_consumer import SqsConsumer

        assert isinstance(consumer, SqsConsumer)
        consumer.queues.work.extend_leases([delivery.copy for delivery in consumer.leased], 0)
        self.clock.now += LEASE + 1


def messages(count: int, *, start: int = 0) -> list[Message]:
    return [Message(f"id-{number}", f"body {number}".encode()) for number in range(start, start + count)]
