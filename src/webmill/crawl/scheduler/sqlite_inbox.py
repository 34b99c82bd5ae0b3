"""The letter box of a shard as a file, for all processes of one machine."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

from webmill.crawl.scheduler.inbox import Letter
from webmill.errors import Conflict
from webmill.infra.queue.base import Message
from webmill.infra.queue.sqlite import SqliteConsumer, SqliteDelivery, SqliteQueue

ATTEMPTS = 1_000_000  # a letter is never given up: it is links, not work


class SqliteBox:
    def __init__(self, file: Path) -> None:
        self._queue = SqliteQueue(file, max_attempts=ATTEMPTS)
        self._letters: SqliteConsumer | None = None
        self._taken: dict[str, SqliteDelivery] = {}

    def post(self, letters: Sequence[bytes]) -> None:
        self._queue.publish(Message(uuid.uuid4().hex, body) for body in letters)

    def take(self, count: int) -> list[Letter]:
        if self._letters is None:
            self._queue.end_leases()  # no earlier owner lives: what they held is to be had again
            self._letters = self._queue.consume(prefetch=count)
        while len(self._taken) < count and (delivery := self._letters.receive(timeout=0)):
            self._taken[delivery.id] = delivery
        return [Letter(delivery.id, delivery.body) for delivery in self._taken.values()]

    def drop(self, letters: Sequence[Letter]) -> None:
        for letter in letters:
            try:
                self._taken.pop(letter.id).ack()
            except Conflict:  # held for too long: it comes again
                pass

    def is_empty(self) -> bool:
        stats = self._queue.stats()
        return not (stats.ready or stats.leased or stats.delayed)

    def close(self) -> None:
        if self._letters:
            self._letters.close()
        self._queue.close()
