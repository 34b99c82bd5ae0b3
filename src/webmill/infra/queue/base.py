"""The seam of every queue: work that is handed out until somebody says it is done.

    publish ─▶ ready ─▶ leased ─▶ ack: forgotten, or done where the queue remembers
                ▲  ▲       ├─▶ retry ─▶ (delayed) ─▶ ready
                │  └───────┤   lease over
                │          └─▶ bury, or too many attempts ─▶ buried ─▶ drop
                └───────────────────────────────── requeue ────┘

What every backend promises
- Durable: when `publish` returns, the messages survive the death of this process and of the queue's own.
- At least once: a message is handed out until it is acked or buried, so the same work may be done twice. Consumers
  give their output a name derived from the message's id: the second time changes nothing.
- Fenced: a delivery settles once, and only while its lease lasts. Afterwards every call on it raises `Conflict`; what
  was done under it must not be published, because somebody else has the message now.
- Bounded: a message is handed out at most `max_attempts` times, also when it kills its worker each time, and is then
  buried with a reason that is never empty. Others flow past it.
- Set equality: published = acked + ready + leased + delayed + buried (+ dropped), by id, at every moment.
- Order is first in, first out as a tendency, not a promise.

What differs is said in each backend's module: whether a duplicate id is suppressed (memory and SQLite do while the
message is in the queue; RabbitMQ cannot), and what ends a lease (a clock, or the loss of the connection).

With `prefetch` above 1 a worker that dies takes an attempt from every message it held, worked on or not; with 1 only
from the one that killed it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol, Self, runtime_checkable

import msgspec

from webmill.errors import BadInput

MAX_ATTEMPTS = 5
LEASE = 60.0  # seconds
MAX_BYTES = 16 * 1024 * 1024
MAX_REASON = 4096  # characters kept of what a worker says about a failure
MAX_ID = 255  # bytes; what AMQP can carry


class QueueOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What an address does not say. `name` tells the queues of one broker apart; a relative file lies in `folder`.

    `attempts` of a message before it is buried; `lease` seconds until a silent worker's is given to another.
    """

    name: str
    folder: Path = Path()
    attempts: int = MAX_ATTEMPTS
    lease: float = LEASE


class Message(msgspec.Struct, frozen=True):
    id: str
    body: bytes


class Mark(msgspec.Struct, frozen=True):
    """Where a publisher is: some bytes under a name of its own."""

    name: str
    value: bytes


class DeadLetter(msgspec.Struct, frozen=True):
    """A message nobody could work, with what is known of why. `when` is in seconds since 1970."""

    id: str
    body: bytes
    reason: str
    attempts: int
    first_error: str
    last_error: str
    when: float


class QueueStats(msgspec.Struct, frozen=True):
    """`done` is counted by queues that remember."""

    ready: int
    leased: int
    delayed: int
    buried: int
    done: int = 0

    @property
    def waiting(self) -> int:
        """Messages that are neither done nor buried."""
        return self.ready + self.leased + self.delayed


class Delivery(Protocol):
    """One message in one worker's hands. Every method raises Conflict once the lease is over or was settled."""

    @property
    def id(self) -> str: ...
    @property
    def body(self) -> bytes: ...
    @property
    def attempts(self) -> int:
        """How often it has been handed out, this time included."""

    def ack(self, result: bytes = b"") -> None:
        """It is done: forget it. A queue that remembers what is done keeps the result."""

    def retry(self, reason: str, *, delay: float = 0.0) -> None:
        """It may work later: hand it out again after `delay` seconds, or bury it when its attempts are used up."""

    def bury(self, reason: str) -> None:
        """It will never work: put it aside with the reason."""

    def extend(self) -> None:
        """It takes longer: the lease starts anew, also for what this consumer has fetched ahead."""


class Consumer(Protocol):
    def receive(self, *, timeout: float) -> Delivery | None:
        """The next message, or None when none came within `timeout` seconds. Unavailable: the queue is out of reach."""

    def close(self) -> None:
        """What was fetched ahead and not handed out goes back, without costing an attempt."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...


class ReadableQueue(Protocol):
    """What one who only looks sees of a queue."""

    def buried(self) -> Iterator[DeadLetter]: ...

    def stats(self) -> QueueStats: ...


class Queue(ReadableQueue, Protocol):
    def publish(self, messages: Iterable[Message]) -> int:
        """How many were newly accepted. BadInput (too_large, bad_id): none of them was. Unavailable: publish again."""

    def consume(self, *, prefetch: int = 1) -> Consumer: ...

    def requeue(self, ids: Iterable[str] | None = None) -> int:
        """Give buried messages (None: all) fresh attempts under the same id; how many there were."""

    def drop(self, ids: Iterable[str]) -> int:
        """Forget these buried messages; how many there were."""

    def close(self) -> None: ...


@runtime_checkable
class MarkingQueue(Queue, Protocol):
    """A queue that keeps small values of its publishers, so that what they published and how far they got are one.

    SQLite and memory can; RabbitMQ cannot, whose publishers keep their place elsewhere and may publish some again.
    """

    def publish(self, messages: Iterable[Message], *, mark: Mark | None = None) -> int:
        """All the messages and the mark, or none of them."""

    def mark(self, name: str) -> bytes | None:
        """The value last published under this name."""


def checked(messages: Iterable[Message], *, max_bytes: int) -> list[Message]:
    """All of them, if a queue may take all of them; each id once."""
    unique: dict[str, Message] = {}
    for message in messages:
        if not 0 < len(message.id.encode(errors="surrogatepass")) <= MAX_ID:
            raise BadInput(f"a message id has 1 to {MAX_ID} bytes: {message.id[:80]!r}", reason="bad_id")
        if len(message.body) > max_bytes:
            raise BadInput(
                f"message {message.id} has {len(message.body):,} bytes, the queue takes {max_bytes:,}: pass its name",
                reason="too_large",
            )
        unique.setdefault(message.id, message)
    return list(unique.values())


def is_drained(queue: Queue) -> bool:
    """Return whether nothing is to be handed out, now or later; a broker does not tell what other workers hold."""
    return not queue.stats().waiting


def worded(reason: str) -> str:
    return reason.strip()[:MAX_REASON] or "no reason given"


def lease_expired(times: int) -> str:
    return f"lease expired {times} time{'s' * (times != 1)}: the worker died or hung"
