"""The messages of one Lambda event as a queue for `Workers`: each hand takes one, and then there are none."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from webmill.infra.queue.sqs import SqsQueue
from webmill.infra.queue.sqs_consumer import SqsConsumer

Record = Mapping[str, Any]


class EventQueue:
    def __init__(self, queue: SqsQueue, records: Sequence[Record]) -> None:
        self._queue = queue
        self._records = records
        self._left = iter(records)
        self._done: set[str] = set()
        self._lock = threading.Lock()

    def consume(self, *, prefetch: int = 1) -> SqsConsumer:  # noqa: ARG002 - it has one message
        with self._lock:
            record = next(self._left, None)
        return self._queue.consume_event([record] if record else [], deleted=self._done.add)

    def unsettled(self) -> Iterator[str]:
        """Ids of messages that Lambda must not delete: they came too early, or were lost to others, or to an error."""
        return (record["messageId"] for record in self._records if record["receiptHandle"] not in self._done)
