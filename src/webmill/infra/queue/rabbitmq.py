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
expires: behind a longer one it may be late, by less than its queue's number of seconds.
Stats: AMQP does not tell what other connections hold, so `leased` counts only this object's consumers.
"""

from __future__ import annotations

import asyncio
import queue
import time
import weakref
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Self

import msgspec

from webmill.errors import Conflict, Misconfigured, Unavailable
from webmill.infra.queue.base import (
    MAX_ATTEMPTS,
    MAX_BYTES,
    Buried,
    Message,
    QueueStats,
    checked,
    lease_expired,
    worded,
)
from webmill.infra.queue.letters import Arguments, Letter, close, count, declare, epitaph, get, number, publish
from webmill.infra.queue.link import (
    ANSWER,
    BROKEN,
    Channel,
    Connection,
    DeliveredMessage,
    Link,
    aiormq,
    pause_after,
    unavailable,
)

IN_FLIGHT = 256  # messages published and not yet confirmed; and never more bytes than one message may have
RUNGS = (1, 10, 60, 600, 3600)
# Looking at a buried message counts as a delivery; without a limit of its own RabbitMQ 4 loses it at the 21st look.
NO_LIMIT = 2**31 - 1
QUORUM: dict[str, str | int] = {"x-queue-type": "quorum"}
KEEP: dict[str, str | int] = {
    **QUORUM,
    "x-dead-letter-exchange": "",
    "x-dead-letter-strategy": "at-least-once",
    "x-overflow": "reject-publish",
}


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
        newborn: float = 2.0,
    ) -> None:
        self.name = name
        self.grave = f"{name}.buried"
        self.max_attempts = max_attempts
        self._max_bytes = max_bytes
        self._patience = patience
        self._newborn = newborn
        self._publisher: Channel | None = None
        self._consumers: weakref.WeakSet[RabbitConsumer] = weakref.WeakSet()
        self.link = Link(url, heartbeat=heartbeat, prepare=self._declare)
        try:
            self.link.call(self._publishing())
        except BaseException:
            self.link.close()
            raise

    def publish(self, messages: Iterable[Message]) -> int:
        """Unavailable: some of them may be in the queue; publish all again."""
        accepted = checked(messages, max_bytes=self._max_bytes)
        for window in windows(accepted, max_bytes=self._max_bytes):
            self.link.call(self.send([Letter(self.name, message.id, message.body) for message in window]))
        return len(accepted)

    def consume(self, *, prefetch: int = 1) -> RabbitConsumer:
        consumer = RabbitConsumer(self, prefetch=prefetch)
        self._consumers.add(consumer)
        return consumer

    def buried(self) -> Iterator[Buried]:
        """Looked-at messages are held until the end, so one looker at a time sees all of them."""
        channel = self.link.call(self.link.channel(confirms=False))
        try:
            while message := self.link.call(get(channel, self.grave)):
                yield epitaph(message, max_attempts=self.max_attempts)
        finally:
            self.link.call(close(channel))

    def requeue(self, ids: Iterable[str] | None = None) -> int:
        return self.link.call(self._exhume(None if ids is None else set(ids), to=self.name))

    def drop(self, ids: Iterable[str]) -> int:
        return self.link.call(self._exhume(set(ids), to=None))

    def stats(self) -> QueueStats:
        ready, buried, *delayed = self.link.call(self._count([self.name, self.grave, *map(self.rung, RUNGS)]))
        return QueueStats(ready, sum(len(consumer.held) for consumer in self._consumers), sum(delayed), buried)

    def close(self) -> None:
        self.link.close()

    # --- on the loop ---

    def rung(self, seconds: int) -> str:
        return f"{self.name}.delay.{seconds}"

    async def send(self, letters: Sequence[Letter]) -> None:
        """Until each is confirmed. Unavailable when that takes too long."""
        deadline, failures = time.monotonic() + self._patience, 0
        while letters:
            try:
                letters = await self._send_once(letters)
            except Unavailable:
                if time.monotonic() > deadline:
                    raise
            failures += 1
            if letters and time.monotonic() > deadline:
                raise Unavailable(await self._why_unconfirmed(len(letters)))
            await asyncio.sleep(pause_after(failures) if letters else 0)

    async def delayed(self, letter: Letter, *, delay: float) -> Letter:
        seconds = next((rung for rung in RUNGS if rung >= delay), RUNGS[-1])
        async with self._channel() as channel:
            await self._declare_all(
                channel.connection, {self.rung(seconds): {"x-dead-letter-routing-key": self.name, **KEEP}}
            )
        return msgspec.structs.replace(letter, to=self.rung(seconds), expires=delay)

    async def _send_once(self, letters: Sequence[Letter]) -> list[Letter]:
        """The ones that were not confirmed."""
        channel = await self._publishing()
        timeout = min(ANSWER, self._patience)
        sending = (publish(channel, letter, timeout=timeout) for letter in letters)
        answers = await asyncio.gather(*sending, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, aiormq.PublishError):
                raise Misconfigured(f"the queue {answer.args[1]} was deleted while in use: open it anew") from answer
            if isinstance(answer, BaseException) and not isinstance(answer, (*BROKEN, asyncio.CancelledError)):
                raise answer
        return [letter for letter, answer in zip(letters, answers, strict=True) if isinstance(answer, BaseException)]

    async def _why_unconfirmed(self, count: int) -> str:
        if await self.link.is_blocked():
            return f"RabbitMQ blocks publishers: its memory or disk alarm is on ({count} messages unconfirmed)"
        return f"RabbitMQ did not confirm {count} messages in {self._patience:g} s"

    async def _publishing(self) -> Channel:
        if self._publisher is None or self._publisher.is_closed:
            self._publisher = await self.link.channel(confirms=True)
        return self._publisher

    async def _declare(self, connection: Connection) -> None:
        limit = self.max_attempts - 1  # the broker hands out once more than its limit
        grave: Arguments = {**QUORUM, "x-delivery-limit": NO_LIMIT}
        work: Arguments = {**KEEP, "x-delivery-limit": limit, "x-dead-letter-routing-key": self.grave}
        await self._declare_all(connection, {self.grave: grave, self.name: work})

    async def _declare_all(self, connection: Connection, queues: Mapping[str, Arguments]) -> None:
        new = [name for name in queues if await count(connection, name) is None]
        for name, arguments in queues.items():
            await declare(connection, name, arguments)
        await asyncio.sleep(self._newborn if new else 0)

    @asynccontextmanager
    async def _channel(self) -> AsyncIterator[Channel]:
        channel = await self.link.channel(confirms=False)
        try:
            yield channel
        except BROKEN as error:
            raise unavailable(error) from error
        finally:
            await close(channel)

    async def _exhume(self, ids: set[str] | None, *, to: str | None) -> int:
        """Take these out of the grave, each id once; the others go back when the channel closes."""
        done: set[str] = set()
        nameless = 0
        async with self._channel() as channel:
            while message := await get(channel, self.grave):
                id_ = message.header.properties.message_id or ""
                if ids is not None and id_ not in ids:
                    continue
                if to and (not id_ or id_ not in done):  # others' messages may have no id: each is its own
                    await self.send([Letter(to, id_, message.body)])
                await channel.basic_ack(message.delivery_tag or 0)
                nameless += not id_
                done.add(id_)
            await channel.flow(active=True, timeout=ANSWER)  # the acks have arrived
        return len(done - {""}) + nameless

    async def _count(self, names: Sequence[str]) -> list[int]:
        async with self._channel() as channel:
            return [await count(channel.connection, name) or 0 for name in names]


class RabbitDelivery:
    def __init__(self, consumer: RabbitConsumer, message: DeliveredMessage) -> None:
        headers = message.header.properties.headers or {}
        self.id = message.header.properties.message_id or ""
        self.body = message.body
        self.lost = number(headers.get("x-delivery-count"))  # hand-outs since it was published that ended in silence
        self.attempts = number(headers.get("webmill-attempts")) + self.lost + 1
        self.first_error = str(headers.get("webmill-first-error", ""))
        self.channel = message.channel
        self._tag = message.delivery_tag or 0
        self._consumer = consumer
        self._queue = consumer.queue

    def ack(self) -> None:
        self._queue.link.call(self._ack())

    def retry(self, reason: str, *, delay: float = 0.0) -> None:
        if self.attempts >= self._queue.max_attempts:
            self.bury(reason)
        else:
            self._queue.link.call(self._retry(reason, delay=delay))

    def bury(self, reason: str) -> None:
        self._queue.link.call(self._replace(self._letter(self._queue.grave, reason)))

    def extend(self) -> None:
        self._queue.link.call(self._assert_held())

    async def give_back(self) -> None:
        """As it was: the broker would count an attempt."""
        attempts = self.attempts - 1
        await self._replace(Letter(self._queue.name, self.id, self.body, attempts, self.first_error))

    async def _retry(self, reason: str, *, delay: float) -> None:
        letter = self._letter(self._queue.name, reason)
        await self._replace(await self._queue.delayed(letter, delay=delay) if delay > 0 else letter)

    async def _replace(self, letter: Letter) -> None:
        """Never the other way round: acked first, a crash would lose it."""
        await self._assert_held()
        await self._queue.send([letter])
        await self._ack()

    async def _ack(self) -> None:
        if self not in self._consumer.held:
            raise self._over()
        self._consumer.held.discard(self)
        try:
            await self.channel.basic_ack(self._tag)
            await self.channel.flow(active=True, timeout=ANSWER)  # its answer comes after the ack was taken
        except BROKEN as error:
            raise self._over() from error

    async def _assert_held(self) -> None:
        """Ask the broker on this channel: a channel it has closed gives no answer."""
        if self not in self._consumer.held:
            raise self._over()
        try:
            await self.channel.flow(active=True, timeout=ANSWER)
        except BROKEN as error:
            self._consumer.held.discard(self)
            raise self._over() from error

    def _letter(self, to: str, reason: str) -> Letter:
        reason = worded(reason)
        return Letter(to, self.id, self.body, self.attempts, self.first_error or reason, reason)

    def _over(self) -> Conflict:
        return Conflict(f"message {self.id} is no longer ours: it may be in other hands, leave its output unpublished")


class RabbitConsumer:
    def __init__(self, queue_: RabbitQueue, *, prefetch: int) -> None:
        self.queue = queue_
        self.held: set[RabbitDelivery] = set()
        self._prefetch = prefetch
        self._inbox: queue.SimpleQueue[RabbitDelivery | None] = queue.SimpleQueue()  # None: the channel is gone
        self._channel: Channel | None = None
        self._tag: str | None = None
        self.queue.link.call(self._subscribe())

    def receive(self, *, timeout: float) -> RabbitDelivery | None:
        deadline, lost = time.monotonic() + timeout, self._channel is None
        while True:
            try:
                if lost:
                    self.queue.link.call(self._subscribe())
                delivery = self._inbox.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return None
            except Unavailable:
                if time.monotonic() > deadline:
                    raise
                continue
            lost = delivery is None
            if delivery and delivery in self.held and not self._is_used_up(delivery):
                return delivery

    def close(self) -> None:
        try:
            self.queue.link.call(self._unsubscribe())
        except (Unavailable, Conflict):
            pass  # the broker takes back by itself what a lost connection held

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _is_used_up(self, delivery: RabbitDelivery) -> bool:
        """Explicit retries and silent deaths together; the broker's own limit knows only the latter."""
        if delivery.attempts <= self.queue.max_attempts:
            return False
        delivery.attempts -= 1  # it is not handed out this time
        try:
            delivery.bury(lease_expired(delivery.lost))
        except Conflict:
            pass  # then whoever has it now buries it
        return True

    async def _subscribe(self) -> None:
        if self._channel is not None:
            await close(self._channel)
            self._channel = None
        channel = await self.queue.link.channel(confirms=False)
        inbox: queue.SimpleQueue[RabbitDelivery | None] = queue.SimpleQueue()
        held: set[RabbitDelivery] = set()
        self._inbox, self.held = inbox, held

        async def arrived(message: DeliveredMessage) -> None:
            delivery = RabbitDelivery(self, message)
            held.add(delivery)
            inbox.put(delivery)

        def gone(*_: object) -> None:
            held.clear()
            inbox.put(None)

        channel.closing.add_done_callback(gone)
        channel.on_consumer_cancel_callbacks.add(gone)  # the queue was deleted, or lost its leader
        try:
            await channel.basic_qos(prefetch_count=self._prefetch, timeout=ANSWER)
            answer = await channel.basic_consume(self.queue.name, arrived, timeout=ANSWER)
        except BROKEN as error:
            raise unavailable(error) from error
        self._channel, self._tag = channel, answer.consumer_tag

    async def _unsubscribe(self) -> None:
        if self._channel is None or self._channel.is_closed or self._tag is None:
            return
        try:
            await self._channel.basic_cancel(self._tag, timeout=ANSWER)
            while not self._inbox.empty():
                if delivery := self._inbox.get_nowait():
                    await delivery.give_back()
        except BROKEN as error:
            raise unavailable(error) from error
        finally:
            await close(self._channel)
            self._channel = None


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
