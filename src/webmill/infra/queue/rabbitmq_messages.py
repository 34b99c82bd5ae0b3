"""Messages as RabbitMQ carries them, and the few broker calls that publisher and consumer share."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import msgspec

from webmill.infra.queue.base import DeadLetter, clip_reason, lease_expired
from webmill.infra.queue.rabbitmq_connection import (
    ANSWER_TIMEOUT,
    BROKEN,
    Channel,
    Connection,
    DeliveredMessage,
    aiormq,
    unavailable,
)

PERSISTENT = 2


class RabbitMessage(msgspec.Struct, frozen=True):
    """A message on its way to one of our queues, with what has happened to it."""

    to: str
    id: str
    body: bytes
    attempts: int = 0  # made before this publication
    first_error: str = ""
    last_error: str = ""
    expires: float | None = None
    lost: int = 0  # of the attempts, those that nobody settled

    def properties(self) -> aiormq.spec.Basic.Properties:
        headers: dict[str, int | str] = {
            "webmill-attempts": self.attempts,
            "webmill-lost": self.lost,
            "webmill-first-error": self.first_error,
            "webmill-last-error": self.last_error,
        }
        return aiormq.spec.Basic.Properties(
            message_id=self.id,
            delivery_mode=PERSISTENT,
            headers={name: value for name, value in headers.items() if value},
            expiration=None if self.expires is None else str(int(self.expires * 1000)),
            timestamp=datetime.now().astimezone(),
        )


async def publish(channel: Channel, message: RabbitMessage, *, timeout: float) -> None:
    await channel.basic_publish(
        message.body, routing_key=message.to, properties=message.properties(), mandatory=True, timeout=timeout
    )


async def count(connection: Connection, name: str) -> int | None:
    """Return how many messages are ready in a queue; None: there is no such queue."""
    channel = await connection.channel(timeout=ANSWER_TIMEOUT)
    try:
        return (await channel.queue_declare(name, passive=True, timeout=ANSWER_TIMEOUT)).message_count or 0
    except aiormq.ChannelNotFoundEntity:
        return None  # and the channel is gone: that is why it is our own
    finally:
        await close(channel)


async def get(channel: Channel, name: str) -> DeliveredMessage | None:
    try:
        message = await channel.basic_get(name, timeout=ANSWER_TIMEOUT)
    except BROKEN as error:
        raise unavailable(error) from error
    return None if isinstance(message.delivery, aiormq.spec.Basic.GetEmpty) else message


async def close(channel: Channel) -> None:
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT):
            await channel.close()
    except BROKEN:
        pass  # it is gone either way


def dead_letter_of(message: DeliveredMessage, *, max_attempts: int) -> DeadLetter:
    properties = message.header.properties
    headers: dict[str, Any] = dict(properties.headers or {})
    attempts, last = parse_count(headers.get("webmill-attempts")), str(headers.get("webmill-last-error", ""))
    when = properties.timestamp
    deaths = headers.get("x-death")
    if deaths:  # the broker buried it: no worker lived to say why
        when = deaths[0].get("time", when)
        cause = str(deaths[0].get("reason", ""))
        attempts += max_attempts
        last = lease_expired(max_attempts) if cause == "delivery_limit" else f"dead-lettered by the broker: {cause}"
    return DeadLetter(
        id=properties.message_id or "",
        body=message.body,
        reason=clip_reason(last),
        attempts=attempts,
        first_error=clip_reason(str(headers.get("webmill-first-error", "")) or last),
        last_error=clip_reason(last),
        when=when.timestamp() if when else 0.0,
    )


def parse_count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
