"""Publish to the queues of RabbitMQ that make one of ours, with confirms; they are declared as the promises need."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec

from webmill.errors import Misconfigured, Unavailable
from webmill.infra.queue.base import BrokerQueueType
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
from webmill.infra.queue.rabbitmq_declaration import (
    CLASSIC,
    DEAD_LETTERS,
    TRANSIENT,
    QueueForm,
    declare_or_join,
    delay_form,
    warn_of_missing,
    work_form,
)
from webmill.infra.queue.rabbitmq_messages import RabbitMessage, close, count, publish

DELAYS = (1, 10, 60, 600, 3600)


class RabbitPublisher:
    """Publishes work, delayed work and dead letters. All but `connection` belongs to its event loop."""

    def __init__(
        self,
        url: str,
        *,
        name: str,
        max_attempts: int,
        patience: float,
        heartbeat: int,
        new_queue_pause: float,
        type: BrokerQueueType,  # noqa: A002 - what RabbitMQ calls it
    ) -> None:
        self.name = name
        self.dead_letter_queue = f"{name}.buried"
        self.max_attempts = max_attempts
        self._patience = patience
        self._new_queue_pause = new_queue_pause
        self._confirming: Channel | None = None
        promised = work_form(max_attempts=max_attempts, dead_letter_queue=self.dead_letter_queue)
        self._forms: tuple[QueueForm, ...] = (
            (promised, TRANSIENT, CLASSIC) if type == "quorum" else (TRANSIENT, CLASSIC)
        )
        self._warned = False
        self.connection = RabbitConnection(url, heartbeat=heartbeat, prepare=self._declare)
        try:
            self.connection.call(self._confirming_channel())
        except BaseException:
            self.connection.close()
            raise

    @property
    def counts_deliveries(self) -> bool:
        """Return whether the broker says how often a message was handed out: a classic queue does not."""
        return not self._forms[0].missing

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
            await self._declare_all(channel.connection, {self.delay_queue(seconds): (delay_form(to=self.name),)})
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
        wanted = {self.dead_letter_queue: (DEAD_LETTERS,), self.name: self._forms}
        form = (await self._declare_all(connection, wanted))[self.name]
        self._forms = (form, *(other for other in self._forms if other != form))  # a broker that lost it gets it back
        if form.missing and not self._warned:
            self._warned = True
            warn_of_missing(self.name, form)

    async def _declare_all(
        self, connection: Connection, queues: Mapping[str, Sequence[QueueForm]]
    ) -> dict[str, QueueForm]:
        new = [name for name in queues if await count(connection, name) is None]
        found = {name: await declare_or_join(connection, name, forms) for name, forms in queues.items()}
        await asyncio.sleep(self._new_queue_pause if new else 0)
        return found
