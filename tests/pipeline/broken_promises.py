"""`webmill` with one promise broken, for the negative controls of the crash tests: `PROMISE ARGUMENTS…`.

mark   a batcher notes how far it got before its batches are in the queue
ack    a worker acknowledges a batch when it gets it, not when its rows are durable
done   a task of files is done when it is handed out
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

from webmill.cli.main import main as webmill
from webmill.infra.queue.base import Mark, Message
from webmill.infra.queue.sqlite import SqliteConsumer, SqliteDelivery, SqliteQueue
from webmill.pipeline.extract import batches

publish, receive = SqliteQueue.publish, SqliteConsumer.receive


def publish_late(self: SqliteQueue, messages: Iterable[Message], *, mark: Mark | None = None) -> int:
    publish(self, [], mark=mark)
    return publish(self, messages)


def mark_first() -> None:
    SqliteQueue.publish = publish_late  # type: ignore[method-assign]


def receive_and_forget(self: SqliteConsumer, *, timeout: float) -> SqliteDelivery | None:
    delivery = receive(self, timeout=timeout)
    if delivery:
        delivery.queue.settle(delivery, b"")
    return delivery


def ack_first() -> None:
    SqliteConsumer.receive = receive_and_forget  # type: ignore[method-assign]
    SqliteDelivery.ack = SqliteDelivery.extend = lambda *_: None  # type: ignore[method-assign]
    batches.DRAIN_WAIT = 0.5  # for batches that are in nobody's hands


PROMISES: dict[str, Callable[[], None]] = {"mark": mark_first, "ack": ack_first, "done": ack_first}


def main() -> None:
    program, promise, *arguments = sys.argv
    PROMISES[promise]()
    sys.argv = [program, *arguments]
    webmill()


if __name__ == "__main__":
    main()
