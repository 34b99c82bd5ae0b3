"""The worker's side of the RabbitMQ queue: receive, lease and settle messages."""

from __future__ import annotations

import queue
import time
from typing import Self

from webmill.errors import Conflict, Unavailable
from webmill.infra.queue.base import clip_reason, lease_expired
from webmill.infra.queue.rabbitmq_connection import ANSWER_TIMEOUT, BROKEN, Channel, DeliveredMessage, unavailable
from webmill.infra.queue.rabbitmq_messages import RabbitMessage, close, parse_count
from webmill.infra.queue.rabbitmq_publisher import RabbitPublisher


class RabbitDelivery:
    def __init__(self, consumer: RabbitConsumer, message: DeliveredMessage) -> None:
        headers = message.header.properties.headers or {}
        self.id = message.header.properties.message_id or ""
        self.body = message.body
        counted = parse_count(headers.get("x-delivery-count"))  # deliveries of this copy that nobody settled
        self.lost = parse_count(headers.get("webmill-lost")) + counted
        self.attempts = parse_count(headers.get("webmill-attempts")) + counted + 1
        self.redelivered = bool(message.redelivered)
        self.first_error = str(headers.get("webmill-first-error", ""))
        self.channel = message.channel
        self._tag = message.delivery_tag or 0
        self._consumer = consumer
        self._publisher = consumer.publisher

    def ack(self, result: bytes = b"") -> None:  # noqa: ARG002 - a broker forgets
        self._publisher.connection.call(self._ack())

    def retry(self, reason: str, *, delay: float = 0.0) -> None:
        if self.attempts >= self._publisher.max_attempts:
            self.bury(reason)
        else:
            self._publisher.connection.call(self._retry(reason, delay=delay))

    def bury(self, reason: str) -> None:
        self._publisher.connection.call(self._replace(self._failed_copy(self._publisher.dead_letter_queue, reason)))

    def extend(self) -> None:
        self._publisher.connection.call(self._assert_leased())

    def count_delivery(self) -> None:
        """Publish it anew with the delivery that nobody settled: a classic queue only says that there was one."""
        copy = RabbitMessage(
            self._publisher.name, self.id, self.body, self.attempts, self.first_error, lost=self.lost + 1
        )
        self._publisher.connection.call(self._replace(copy))

    async def give_back(self) -> None:
        """Publish it as it was: if its channel just closed, the broker would count an attempt."""
        attempts = self.attempts - 1
        await self._replace(
            RabbitMessage(self._publisher.name, self.id, self.body, attempts, self.first_error, lost=self.lost)
        )

    async def _retry(self, reason: str, *, delay: float) -> None:
        copy = self._failed_copy(self._publisher.name, reason)
        await self._replace(await self._publisher.with_delay(copy, delay=delay) if delay > 0 else copy)

    async def _replace(self, copy: RabbitMessage) -> None:
        """Publish the successor, then ack: the other way round a crash would lose the message."""
        await self._assert_leased()
        await self._publisher.send([copy])
        await self._ack()

    async def _ack(self) -> None:
        if self not in self._consumer.leased:
            raise self._lease_over_error()
        self._consumer.leased.discard(self)
        try:
            await self.channel.basic_ack(self._tag)
            await self.channel.flow(active=True, timeout=ANSWER_TIMEOUT)  # its answer comes after the ack was taken
        except BROKEN as error:
            raise self._lease_over_error() from error

    async def _assert_leased(self) -> None:
        """Ask the broker on this channel: a channel it has closed gives no answer."""
        if self not in self._consumer.leased:
            raise self._lease_over_error()
        try:
            await self.channel.flow(active=True, timeout=ANSWER_TIMEOUT)
        except BROKEN as error:
            self._consumer.leased.discard(self)
            raise self._lease_over_error() from error

    def _failed_copy(self, to: str, reason: str) -> RabbitMessage:
        reason = clip_reason(reason)
        return RabbitMessage(to, self.id, self.body, self.attempts, self.first_error or reason, reason)

    def _lease_over_error(self) -> Conflict:
        return Conflict(
            f"message {self.id} is no longer ours: another worker may have it, so its output must not be published"
        )


class RabbitConsumer:
    """Has nothing ahead with a `prefetch` of 1: it is then subscribed only until `receive` has a message."""

    def __init__(self, publisher: RabbitPublisher, *, prefetch: int) -> None:
        self.publisher = publisher
        self.leased: set[RabbitDelivery] = set()
        self._prefetch = prefetch
        self._inbox: queue.SimpleQueue[RabbitDelivery | None] = queue.SimpleQueue()  # None: the channel is gone
        self._channel: Channel | None = None
        self._tag: str | None = None
        self.publisher.connection.call(self._open_channel())

    def receive(self, *, timeout: float) -> RabbitDelivery | None:
        deadline, lost = time.monotonic() + timeout, False
        while True:
            try:
                if lost or self._channel is None:
                    self.publisher.connection.call(self._open_channel())
                if self._tag is None:
                    self.publisher.connection.call(self._subscribe())
                delivery = self._inbox.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return None
            except Unavailable:
                if time.monotonic() > deadline:
                    raise
                continue
            lost = delivery is None
            if not delivery or delivery not in self.leased or self._is_recounted(delivery):
                continue
            if not self._bury_if_exhausted(delivery):
                self._end_subscription()
                return delivery

    def close(self) -> None:
        try:
            self.publisher.connection.call(self._unsubscribe())
        except (Unavailable, Conflict):
            pass  # the broker takes back by itself what a lost connection had leased

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _is_recounted(self, delivery: RabbitDelivery) -> bool:
        """Return whether it goes round once more, because the broker does not count that it was handed out before."""
        if self.publisher.counts_deliveries or not delivery.redelivered:
            return False
        try:
            delivery.count_delivery()
        except Conflict:
            pass  # then whoever has it now counts it
        return True

    def _bury_if_exhausted(self, delivery: RabbitDelivery) -> bool:
        """Bury it when its attempts are used up. Retries count too, of which the broker knows nothing."""
        if delivery.attempts <= self.publisher.max_attempts:
            return False
        delivery.attempts -= 1  # it is not delivered this time
        try:
            delivery.bury(lease_expired(delivery.lost))
        except Conflict:
            pass  # then whoever has it now buries it
        return True

    async def _open_channel(self) -> None:
        if self._channel is not None:
            await close(self._channel)
        self._channel = self._tag = None
        channel = await self.publisher.connection.channel(confirms=False)
        inbox: queue.SimpleQueue[RabbitDelivery | None] = queue.SimpleQueue()
        leased: set[RabbitDelivery] = set()
        self._inbox, self.leased = inbox, leased

        def on_close(*_: object) -> None:
            leased.clear()
            inbox.put(None)

        channel.closing.add_done_callback(on_close)
        channel.on_consumer_cancel_callbacks.add(on_close)  # the queue was deleted, or lost its leader
        try:
            await channel.basic_qos(prefetch_count=self._prefetch, timeout=ANSWER_TIMEOUT)
        except BROKEN as error:
            raise unavailable(error) from error
        self._channel = channel

    async def _subscribe(self) -> None:
        assert self._channel
        inbox, leased = self._inbox, self.leased

        async def on_message(message: DeliveredMessage) -> None:
            delivery = RabbitDelivery(self, message)
            leased.add(delivery)
            inbox.put(delivery)

        try:
            answer = await self._channel.basic_consume(self.publisher.name, on_message, timeout=ANSWER_TIMEOUT)
        except BROKEN as error:
            self._channel = None
            raise unavailable(error) from error
        self._tag = answer.consumer_tag

    def _end_subscription(self) -> None:
        """End the subscription of one message while that is unsettled, so that nothing else is on its way to us."""
        if self._prefetch == 1:
            try:
                self.publisher.connection.call(self._cancel())
            except Unavailable:
                pass  # the channel is gone, and the message's next call tells its worker

    async def _cancel(self) -> None:
        if self._channel is None or self._tag is None:
            return
        tag, self._tag = self._tag, None
        try:
            await self._channel.basic_cancel(tag, timeout=ANSWER_TIMEOUT)
        except BROKEN as error:
            raise unavailable(error) from error

    async def _unsubscribe(self) -> None:
        if self._channel is None or self._channel.is_closed:
            return
        try:
            await self._cancel()
            while not self._inbox.empty():
                if delivery := self._inbox.get_nowait():
                    await delivery.give_back()
        except BROKEN as error:
            raise unavailable(error) from error
        finally:
            await close(self._channel)
            self._channel = None
