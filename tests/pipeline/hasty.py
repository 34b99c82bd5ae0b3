"""`webmill` with one promise broken, for the negative controls of the crash tests: `hasty PROMISE ARGUMENTS…`.

mark   a batcher notes how far it got before its batches are in the queue
ack    a worker acknowledges a batch when it gets it, not when its rows are durable
done   a task is done when it is handed out
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

from webmill.cli.main import main as webmill
from webmill.infra.ledger import Claim, Ledger
from webmill.infra.queue.base import Mark, Message
from webmill.infra.queue.sqlite import SqliteConsumer, SqliteDelivery, SqliteQueue
from webmill.pipeline.extract import run

publish, receive, claim, done = SqliteQueue.publish, SqliteConsumer.receive, Ledger.claim, Ledger.done


def publish_late(self: SqliteQueue, messages: Iterable[Message], *, mark: Mark | None = None) -> int:
    publish(self, [], mark=mark)
    return publish(self, messages)


def mark_first() -> None:
    SqliteQueue.publish = publish_late  # type: ignore[method-assign]


def receive_and_forget(self: SqliteConsumer, *, timeout: float) -> SqliteDelivery | None:
    delivery = receive(self, timeout=timeout)
    if delivery:
        delivery.queue.forget(delivery)
    return delivery


def ack_first() -> None:
    SqliteConsumer.receive = receive_and_forget  # type: ignore[method-assign]
    SqliteDelivery.ack = SqliteDelivery.extend = lambda _: None  # type: ignore[method-assign]
    run.PATIENCE = 0.5  # for batches that are in nobody's hands


def claim_as_done(self: Ledger, worker: str, *, lease: float = 60.0) -> Claim | None:
    got = claim(self, worker, lease=lease)
    if got:
        done(self, got)
    return got


def done_first() -> None:
    Ledger.claim = claim_as_done  # type: ignore[method-assign]
    Ledger.done = lambda *_: None  # type: ignore[method-assign]


PROMISES: dict[str, Callable[[], None]] = {"mark": mark_first, "ack": ack_first, "done": done_first}


def main() -> None:
    program, promise, *arguments = sys.argv
    PROMISES[promise]()
    sys.argv = [program, *arguments]
    webmill()


if __name__ == "__main__":
    main()
