"""The inbox of a shard as a file, for all processes of one machine."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

from webmill.crawl.scheduler.inbox import InboxMessage
from webmill.errors import Conflict
from webmill.infra.queue.base import Message
from webmill.infra.queue.sqlite import SqliteConsumer, SqliteDelivery, SqliteQueue

MAX_ATTEMPTS = 1_000_000  # a message is never given up: it holds links, not work


class SqliteInbox:
    def __init__(self, file: Path) -> None:
        self._queue = SqliteQueue(file, max_attempts=MAX_ATTEMPTS)
        self._consumer: SqliteConsumer | None = None
        self._leased: dict[str, SqliteDelivery] = {}

    def publish(self, bodies: Sequence[bytes]) -> None:
        self._queue.publish(Message(uuid.uuid4().hex, body) for body in bodies)

    def read(self, count: int) -> list[InboxMessage]:
        if self._consumer is None:
            self._queue.end_leases()  # no earlier owner lives: what they leased may be read again
            self._consumer = self._queue.consume(prefetch=count)
        while len(self._leased) < count and (delivery := self._consumer.receive(timeout=0)):
            self._leased[delivery.id] = delivery
        return [InboxMessage(delivery.id, delivery.body) for delivery in self._leased.values()]

    def delete(self, messages: Sequence[InboxMessage]) -> None:
        for message in messages:
            try:
                self._leased.pop(message.id).ack()
            except Conflict:  # its lease ran out: it comes again
                pass

    def is_empty(self) -> bool:
        stats = self._queue.stats()
        return not (stats.ready or stats.leased or stats.delayed)

    def close(self) -> None:
        if self._consumer:
            self._consumer.close()
        self._queue.close()
