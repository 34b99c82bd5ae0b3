"""The queue for many machines: RabbitMQ 3.10 or newer, quorum queues, confirms.

    NAME ──▶ worker        NAME.delay.SECONDS ── expired ──▶ NAME
      └── too many deliveries ──▶ NAME.buried ◀── bury(reason): published and confirmed before the ack

Durable: persistent messages in replicated queues, published with confirms and `mandatory`. A message the broker did
not confirm is published again, so it may be there twice.
A new queue is left alone for two seconds before its first use: RabbitMQ 3.10 writes down that a queue exists a moment
after it said so, and killed in between it comes back with the queue empty, confirmed messages and all.
Duplicates: the broker knows no ids. They travel in `message_id`; `publish` returns how many were sent, and consumers
suppress a duplicate by its effect. `retry`, `bury` and `requeue` publish the message anew and then ack the old one:
broken off in between, the message is there twice, never not at all. Nothing but publishing anew can carry the reason.
Leases: a delivery belongs to its channel. It is over when the connection is lost, when the consumer is closed, or when
the broker's `consumer_timeout` (30 minutes) has passed; `extend` can only find that out, so split longer work.
Closing a consumer gives back what it had fetched ahead by publishing it anew, since the broker would count an attempt;
one that the broker hands over in the very moment of closing does lose an attempt.
An ack is fenced by an answer from the broker on the same channel. The broker does not confirm that it is stored: one
that dies in that moment may hand the message out again.
Delays: a message waits in the smallest `delay` queue that covers it, with its own expiry. Only the head of a queue
expires: behind a longer one it may be late, by less than its queue's parse_count of seconds.
Classic queues: one that another program declared without arguments is joined, with a warning that says what is missing;
`rabbitmq_declaration` has the rules. It does not count deliveries, so a message that is handed out again is published
anew, with the count in it.
Stats: AMQP does not tell what other connections hold, so `leased` counts only this object's consumers.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import urlsplit

from webmill.errors import Misconfigured
from webmill.infra.queue.base import (
    MAX_ATTEMPTS,
    MAX_BYTES,
    BrokerQueueType,
    DeadLetter,
    Message,
    QueueOptions,
    QueueStats,
    check_messages,
)
from webmill.infra.queue.rabbitmq_connection import ANSWER_TIMEOUT
from webmill.infra.queue.rabbitmq_consumer import RabbitConsumer
from webmill.infra.queue.rabbitmq_messages import RabbitMessage, close, count, dead_letter_of, get
from webmill.infra.queue.rabbitmq_publisher import DELAYS, RabbitPublisher

IN_FLIGHT = 256  # messages published and not yet confirmed; and never more bytes than one message may have


def open_rabbitmq(url: str, options: QueueOptions) -> RabbitQueue:
    """Open the queue `options.name`. Its leases last as long as the connection of their worker."""
    try:
        urlsplit(url).port  # noqa: B018 - reading it is the check
    except ValueError as error:
        raise Misconfigured(f"not the address of a queue ({error}): write amqp://USER:PASSWORD@HOST:PORT/") from error
    return RabbitQueue(url, name=options.name, max_attempts=options.attempts, type=options.type)


class RabbitQueue:
    """Safe to share between threads; every process opens its own."""

    def __init__(
        self,
        url: str,
        *,
        name: str,
        max_attempts: int = MAX_ATTEMPTS,
        max_bytes: int = MAX_BYTES,
        patience: float = 60.0,
        heartbeat: int = 20,
        new_queue_pause: float = 2.0,
        type: BrokerQueueType = "quorum",  # noqa: A002 - what RabbitMQ calls it
    ) -> None:
        self._max_bytes = max_bytes
        self._consumers: weakref.WeakSet[RabbitConsumer] = weakref.WeakSet()
        self._publisher = RabbitPublisher(
            url,
            name=name,
            max_attempts=max_attempts,
            patience=patience,
            heartbeat=heartbeat,
            new_queue_pause=new_queue_pause,
            type=type,
        )
        self._connection = self._publisher.connection

    def publish(self, messages: Iterable[Message]) -> int:
        """Publish the messages. Unavailable: some of them may be in the queue; publish all again."""
        accepted = check_messages(messages, max_bytes=self._max_bytes)
        for window in windows(accepted, max_bytes=self._max_bytes):
            outgoing = [RabbitMessage(self._publisher.name, message.id, message.body) for message in window]
            self._connection.call(self._publisher.send(outgoing))
        return len(accepted)

    def consume(self, *, prefetch: int = 1) -> RabbitConsumer:
        consumer = RabbitConsumer(self._publisher, prefetch=prefetch)
        self._consumers.add(consumer)
        return consumer

    def dead_letters(self) -> Iterator[DeadLetter]:
        """Yield the dead letters. They are leased until the end, so one reader at a time sees all of them."""
        channel = self._connection.call(self._connection.channel(confirms=False))
        try:
            while message := self._connection.call(get(channel, self._publisher.dead_letter_queue)):
                yield dead_letter_of(message, max_attempts=self._publisher.max_attempts)
        finally:
            self._connection.call(close(channel))

    def requeue(self, ids: Iterable[str] | None = None) -> int:
        return self._connection.call(
            self._remove_dead_letters(None if ids is None else set(ids), to=self._publisher.name)
        )

    def drop(self, ids: Iterable[str]) -> int:
        return self._connection.call(self._remove_dead_letters(set(ids), to=None))

    def stats(self) -> QueueStats:
        publisher = self._publisher
        names = [publisher.name, publisher.dead_letter_queue, *map(publisher.delay_queue, DELAYS)]
        ready, buried, *delayed = self._connection.call(self._count(names))
        return QueueStats(ready, sum(len(consumer.leased) for consumer in self._consumers), sum(delayed), buried)

    def close(self) -> None:
        self._connection.close()

    # --- on the loop ---

    async def _remove_dead_letters(self, ids: set[str] | None, *, to: str | None) -> int:
        """Remove these dead letters, sending each id once to `to`; the others go back when the channel closes."""
        done: set[str] = set()
        nameless = 0
        async with self._publisher.channel() as channel:
            while message := await get(channel, self._publisher.dead_letter_queue):
                id_ = message.header.properties.message_id or ""
                if ids is not None and id_ not in ids:
                    continue
                if to and (not id_ or id_ not in done):  # others' messages may have no id: each is its own
                    await self._publisher.send([RabbitMessage(to, id_, message.body)])
                await channel.basic_ack(message.delivery_tag or 0)
                nameless += not id_
                done.add(id_)
            await channel.flow(active=True, timeout=ANSWER_TIMEOUT)  # the acks have arrived
        return len(done - {""}) + nameless

    async def _count(self, names: Sequence[str]) -> list[int]:
        async with self._publisher.channel() as channel:
            return [await count(channel.connection, name) or 0 for name in names]


def windows(messages: Iterable[Message], *, max_bytes: int) -> Iterator[list[Message]]:
    window: list[Message] = []
    size = 0
    for message in messages:
        if window and (len(window) == IN_FLIGHT or size + len(message.body) > max_bytes):
            yield window
            window, size = [], 0
        window.append(message)
        size += len(message.body)
    if window:
        yield window
