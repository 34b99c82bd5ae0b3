"""Publish to the queues of RabbitMQ that make one of ours, with confirms; they are declared as the promises need."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec

from webmill.errors import Misconfigured, Unavailable
from webmill.infra.queue.rabbitmq_connection import (
    ANSWER_TIMEOUT,
    BROKEN,
    Channel,
    Connection,
    RabbitConnection,
    aiormq,
    pause_after,
    unavailable,
)
from webmill.infra.queue.rabbitmq_messages import Arguments, RabbitMessage, close, count, declare, publish

DELAYS = (1, 10, 60, 600, 3600)
# Listing a dead letter counts as a delivery; without a limit of its own RabbitMQ 4 loses it at the 21st.
NO_LIMIT = 2**31 - 1
QUORUM: dict[str, str | int] = {"x-queue-type": "quorum"}
KEEP: dict[str, str | int] = {
    **QUORUM,
    "x-dead-letter-exchange": "",
    "x-dead-letter-strategy": "at-least-once",
    "x-overflow": "reject-publish",
}


class RabbitPublisher:
    """Publishes work, delayed work and dead letters. All but `connection` belongs to its event loop."""

    def __init__(
        self, url: str, *, name: str, max_attempts: int, patience: float, heartbeat: int, new_queue_pause: float
    ) -> None:
        self.name = name
        self.dead_letter_queue = f"{name}.buried"
        self.max_attempts = max_attempts
        self._patience = patience
        self._new_queue_pause = new_queue_pause
        self._confirming: Channel | None = None
        self.connection = RabbitConnection(url, heartbeat=heartbeat, prepare=self._declare)
        try:
            self.connection.call(self._confirming_channel())
        except BaseException:
            self.connection.close()
            raise

    def delay_queue(self, seconds: int) -> str:
        return f"{self.name}.delay.{seconds}"

    async def send(self, messages: Sequence[RabbitMessage]) -> None:
        """Send until each is confirmed. Unavailable when that takes too long."""
        deadline, failures = time.monotonic() + self._patience, 0
        while messages:
            try:
                messages = await self._send_once(messages)
            except Unavailable:
                if time.monotonic() > deadline:
                    raise
            failures += 1
            if messages and time.monotonic() > deadline:
                raise Unavailable(await self._why_unconfirmed(len(messages)))
            await asyncio.sleep(pause_after(failures) if messages else 0)

    async def with_delay(self, message: RabbitMessage, *, delay: float) -> RabbitMessage:
        seconds = next((step for step in DELAYS if step >= delay), DELAYS[-1])
        async with self.channel() as channel:
            await self._declare_all(
                channel.connection, {self.delay_queue(seconds): {"x-dead-letter-routing-key": self.name, **KEEP}}
            )
        return msgspec.structs.replace(message, to=self.delay_queue(seconds), expires=delay)

    @asynccontextmanager
    async def channel(self) -> AsyncIterator[Channel]:
        channel = await self.connection.channel(confirms=False)
        try:
            yield channel
        except BROKEN as error:
            raise unavailable(error) from error
        finally:
            await close(channel)

    async def _send_once(self, messages: Sequence[RabbitMessage]) -> list[RabbitMessage]:
        """Return those that were not confirmed."""
        channel = await self._confirming_channel()
        timeout = min(ANSWER_TIMEOUT, self._patience)
        sending = (publish(channel, message, timeout=timeout) for message in messages)
        answers = await asyncio.gather(*sending, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, aiormq.PublishError):
                raise Misconfigured(f"the queue {answer.args[1]} was deleted while in use: open it again") from answer
            if isinstance(answer, BaseException) and not isinstance(answer, (*BROKEN, asyncio.CancelledError)):
                raise answer
        return [message for message, answer in zip(messages, answers, strict=True) if isinstance(answer, BaseException)]

    async def _why_unconfirmed(self, count: int) -> str:
        if await self.connection.is_blocked():
            return f"RabbitMQ blocks publishers: its memory or disk alarm is on ({count} messages unconfirmed)"
        return f"RabbitMQ did not confirm {count} messages in {self._patience:g} s"

    async def _confirming_channel(self) -> Channel:
        if self._confirming is None or self._confirming.is_closed:
            self._confirming = await self.connection.channel(confirms=True)
        return self._confirming

    async def _declare(self, connection: Connection) -> None:
        limit = self.max_attempts - 1  # the broker hands out once more than its limit
        dead_letter_queue: Arguments = {**QUORUM, "x-delivery-limit": NO_LIMIT}
        work: Arguments = {**KEEP, "x-delivery-limit": limit, "x-dead-letter-routing-key": self.dead_letter_queue}
        await self._declare_all(connection, {self.dead_letter_queue: dead_letter_queue, self.name: work})

    async def _declare_all(self, connection: Connection, queues: Mapping[str, Arguments]) -> None:
        new = [name for name in queues if await count(connection, name) is None]
        for name, arguments in queues.items():
            await declare(connection, name, arguments)
        await asyncio.sleep(self._new_queue_pause if new else 0)
