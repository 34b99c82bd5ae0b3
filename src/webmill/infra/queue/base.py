"""The seam of every queue: messages that are delivered until a worker says that they are done.

    publish ─▶ ready ─▶ leased ─▶ ack: forgotten, or done where the queue remembers
                ▲  ▲       ├─▶ retry ─▶ (delayed) ─▶ ready
                │  └───────┤   lease over
                │          └─▶ bury, or too many attempts ─▶ buried ─▶ drop
                └───────────────────────────────── requeue ────┘

What every backend promises
- Durable: when `publish` returns, the messages survive the death of this process and of the queue's own.
- At least once: a message is delivered until it is acked or buried, so the same work may be done twice. Consumers
  give their output a name derived from the message's id: the second time changes nothing.
- Fenced: a delivery settles once, and only while its lease lasts. Afterwards every call on it raises `Conflict`; what
  was done under it must not be published, because another worker has the message now.
- Bounded: a message is delivered at most `max_attempts` times, also when it kills its worker each time, and is then
  buried with a reason that is never empty. Others flow past it.
- Set equality: published = acked + ready + leased + delayed + buried (+ dropped), by id, at every moment.
- Order is first in, first out as a tendency, not a promise.

What differs is said in each backend's module: whether a duplicate id is suppressed (memory and SQLite do while the
message is in the queue; RabbitMQ cannot), and what ends a lease (a clock, or the loss of the connection).

With `prefetch` above 1 a worker that dies takes an attempt from every message it held, worked on or not; with 1 only
from the one that it had received: nothing is fetched ahead, neither before `receive` is called nor after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, Protocol, Self, TypeAlias, runtime_checkable

import msgspec

from webmill.errors import BadInput

MAX_ATTEMPTS = 5
LEASE = 60.0  # seconds
MAX_BYTES = 16 * 1024 * 1024
MAX_REASON = 4096  # characters kept of what a worker says about a failure
MAX_ID = 255  # bytes; what AMQP can carry
BrokerQueueType: TypeAlias = Literal["quorum", "classic"]


class QueueOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What an address does not say. `name` tells the queues of one broker apart; a relative file is in `folder`.

    `attempts` of a message before it is buried; `lease` seconds until a silent worker's is given to another. `type` is
    that of a queue that RabbitMQ does not have yet.
    """

    name: str
    folder: Path = Path()
    attempts: int = MAX_ATTEMPTS
    lease: float = LEASE
    type: BrokerQueueType = "quorum"


class Message(msgspec.Struct, frozen=True):
    id: str
    body: bytes


class Mark(msgspec.Struct, frozen=True):
    """How far a publisher got: some bytes under a name of its own."""

    name: str
    value: bytes


class DeadLetter(msgspec.Struct, frozen=True):
    """A message that no worker could process, with the reasons. `when` is in seconds since 1970."""

    id: str
    body: bytes
    reason: str
    attempts: int
    first_error: str
    last_error: str
    when: float


class QueueStats(msgspec.Struct, frozen=True):
    """How many messages are in each state; `done` is counted by queues that remember."""

    ready: int
    leased: int
    delayed: int
    buried: int
    done: int = 0

    @property
    def waiting(self) -> int:
        """Return how many messages are neither done nor buried."""
        return self.ready + self.leased + self.delayed


class Delivery(Protocol):
    """A message leased by one worker. Every method raises Conflict once the lease is over or was settled."""

    @property
    def id(self) -> str: ...
    @property
    def body(self) -> bytes: ...
    @property
    def attempts(self) -> int:
        """Return how often it has been delivered, this time included."""

    def ack(self, result: bytes = b"") -> None:
        """Settle it as done. A queue that remembers what is done keeps the result; others forget it."""

    def retry(self, reason: str, *, delay: float = 0.0) -> None:
        """Deliver it again after `delay` seconds, or bury it when its attempts are used up."""

    def bury(self, reason: str) -> None:
        """Make it a dead letter with the reason: it will never work."""

    def extend(self) -> None:
        """Start the lease anew, also for what this consumer has fetched ahead."""


class Consumer(Protocol):
    def receive(self, *, timeout: float) -> Delivery | None:
        """Return the next message, or None when none came within `timeout` seconds. Unavailable: no connection."""

    def close(self) -> None:
        """Return to the queue what was fetched ahead, without costing an attempt."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...


class ReadableQueue(Protocol):
    """A queue as those see it who change nothing."""

    def dead_letters(self) -> Iterator[DeadLetter]: ...

    def stats(self) -> QueueStats: ...


class Queue(ReadableQueue, Protocol):
    def publish(self, messages: Iterable[Message]) -> int:
        """Return how many were newly accepted. BadInput (too_large, bad_id): none was. Unavailable: publish again."""

    def consume(self, *, prefetch: int = 1) -> Consumer: ...

    def requeue(self, ids: Iterable[str] | None = None) -> int:
        """Give dead letters (None: all) fresh attempts under the same id; return how many there were."""

    def drop(self, ids: Iterable[str]) -> int:
        """Forget these dead letters; return how many there were."""

    def close(self) -> None: ...


@runtime_checkable
class MarkingQueue(Queue, Protocol):
    """A queue that keeps small values of its publishers, so that what they published and how far they got are one.

    SQLite and memory can; RabbitMQ cannot, whose publishers keep their place elsewhere and may publish some again.
    """

    def publish(self, messages: Iterable[Message], *, mark: Mark | None = None) -> int:
        """Publish all the messages and the mark, or none of them."""

    def mark(self, name: str) -> bytes | None:
        """Return the value last published under this name."""


def check_messages(messages: Iterable[Message], *, max_bytes: int) -> list[Message]:
    """Return the messages, each id once. BadInput: the queue cannot take one of them."""
    unique: dict[str, Message] = {}
    for message in messages:
        if not 0 < len(message.id.encode(errors="surrogatepass")) <= MAX_ID:
            raise BadInput(f"a message id has 1 to {MAX_ID} bytes: {message.id[:80]!r}", reason="bad_id")
        if len(message.body) > max_bytes:
            raise BadInput(
                f"message {message.id} has {len(message.body):,} bytes, the queue takes {max_bytes:,}: "
                "store the content and pass its name",
                reason="too_large",
            )
        unique.setdefault(message.id, message)
    return list(unique.values())


def is_drained(queue: Queue) -> bool:
    """Return whether nothing is left to deliver, now or later; a broker does not tell what others have leased."""
    return not queue.stats().waiting


def clip_reason(reason: str) -> str:
    """Return a reason that is not empty and not too long to store."""
    return reason.strip()[:MAX_REASON] or "no reason given"


def lease_expired(times: int) -> str:
    return f"lease expired {times} time{'s' * (times != 1)}: the worker died or hung"
