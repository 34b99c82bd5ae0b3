"""Rows as messages of a queue, under ids that are derived from the batch: at least once each.

A consumer that must see a row once remembers ids, or gives its own output names derived from them.
"""

from __future__ import annotations

from collections.abc import Sequence

from webmill.infra.queue.base import MAX_BYTES, Message, Queue
from webmill.infra.sinks.base import Delivered, SinkRow, check_size


class QueueSink:
    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def check(self, row: SinkRow) -> None:
        check_size(len(row.line), MAX_BYTES, source="the queue")

    def deliver(self, name: str, rows: Sequence[SinkRow]) -> Delivered:
        messages = [Message(f"{name}-{number:05d}", row.line) for number, row in enumerate(rows)]
        self._queue.publish(messages)
        return Delivered(name, len(rows), sum(len(row.line) for row in rows))

    def close(self) -> None:
        self._queue.close()
