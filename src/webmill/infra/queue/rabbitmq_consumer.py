"""The worker's side of the RabbitMQ queue: what is received, held, and settled."""

from __future__ import annotations

import queue
import time
from typing import Self

from webmill.errors import Conflict, Unavailable
from webmill.infra.queue.base import lease_expired, worded
from webmill.infra.queue.letters import Letter, close, number
from webmill.infra.queue.link import ANSWER, BROKEN, Channel, DeliveredMessage, unavailable
from webmill.infra.queue.rabbitmq_post import Post


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
        self._post = consumer.post

    def ack(self, result: bytes = b"") -> None:  # noqa: ARG002 - a broker forgets
        self._post.link.call(self._ack())

    def retry(self, reason: str, *, delay: float = 0.0) -> None:
        if self.attempts >= self._post.max_attempts:
            self.bury(reason)
        else:
            self._post.link.call(self._retry(reason, delay=delay))

    def bury(self, reason: str) -> None:
        self._post.link.call(self._replace(self._letter(self._post.grave, reason)))

    def extend(self) -> None:
        self._post.link.call(self._assert_held())

    async def give_back(self) -> None:
        """As it was: the broker would count an attempt."""
        attempts = self.attempts - 1
        await self._replace(Letter(self._post.name, self.id, self.body, attempts, self.first_error))

    async def _retry(self, reason: str, *, delay: float) -> None:
        letter = self._letter(self._post.name, reason)
        await self._replace(await self._post.delayed(letter, delay=delay) if delay > 0 else letter)

    async def _replace(self, letter: Letter) -> None:
        """Never the other way round: acked first, a crash would lose it."""
        await self._assert_held()
        await self._post.send([letter])
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
    def __init__(self, post: Post, *, prefetch: int) -> None:
        self.post = post
        self.held: set[RabbitDelivery] = set()
        self._prefetch = prefetch
        self._inbox: queue.SimpleQueue[RabbitDelivery | None] = queue.SimpleQueue()  # None: the channel is gone
        self._channel: Channel | None = None
        self._tag: str | None = None
        self.post.link.call(self._subscribe())

    def receive(self, *, timeout: float) -> RabbitDelivery | None:
        deadline, lost = time.monotonic() + timeout, self._channel is None
        while True:
            try:
                if lost:
                    self.post.link.call(self._subscribe())
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
            self.post.link.call(self._unsubscribe())
        except (Unavailable, Conflict):
            pass  # the broker takes back by itself what a lost connection held

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _is_used_up(self, delivery: RabbitDelivery) -> bool:
        """Explicit retries and silent deaths together; the broker's own limit knows only the latter."""
        if delivery.attempts <= self.post.max_attempts:
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
        channel = await self.post.link.channel(confirms=False)
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
            answer = await channel.basic_consume(self.post.name, arrived, timeout=ANSWER)
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
