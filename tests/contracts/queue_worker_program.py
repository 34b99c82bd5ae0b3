"""A process that works on a queue (a SQLite file, an address of SQS or RabbitMQ) and may be killed at any moment.

It says what it did, one line at a time.

`work PATH LOG`: `got ID` before the ack, `acked ID` after it, until the queue is empty.
`pause PATH LOG`: `got ID` of one message, and only after a line of input its ack.
`too_early PATH LOG`: `acked ID` of one message, and only after a line of input its work, `got ID`: a negative control.
`fill PATH LOG FIRST`: publish ten at a time for ever; `published ID` for each after `publish` returned.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from webmill.errors import Conflict
from webmill.infra.queue.base import Delivery, Message, Queue
from webmill.infra.queue.sqlite import SqliteQueue

LEASE = 1.0
SQS_LEASE = 45.0  # MiniStack lets one settle after it, so none may end but by a kill, however slow the machine


def open_queue(path: str) -> Queue:
    if path.startswith("sqs:"):
        from webmill.infra.queue.sqs import SqsQueue, SqsTiming

        return SqsQueue(path, lease=SQS_LEASE, max_attempts=900, timing=SqsTiming(dead_letter_wait=0))
    if path.startswith("amqp:"):
        from webmill.infra.queue.rabbitmq import RabbitQueue

        url, _, name = path.partition("#")
        return RabbitQueue(url, name=name, new_queue_pause=0, max_attempts=1000)
    return SqliteQueue(Path(path), lease=LEASE, max_attempts=1000)


def print_line(log: str, *lines: str) -> None:
    """One write, so that lines of several processes do not mix."""
    handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, "".join(f"{line}\n" for line in lines).encode())
    os.close(handle)


def work(path: str, log: str) -> None:
    queue = open_queue(path)
    with queue.consume(prefetch=3) as consumer:
        while True:
            delivery = consumer.receive(timeout=0.2)
            if delivery is None:
                stats = queue.stats()
                if stats.ready == stats.leased == stats.delayed == 0:
                    return
                continue
            print_line(log, f"got {delivery.id}")
            settle(delivery, log)


def settle(delivery: Delivery, log: str) -> None:
    try:
        delivery.ack()
    except Conflict:
        print_line(log, f"refused {delivery.id}")
    else:
        print_line(log, f"acked {delivery.id}")


def pause(path: str, log: str) -> None:
    with open_queue(path).consume() as consumer:
        delivery = consumer.receive(timeout=60)
        assert delivery
        print_line(log, f"got {delivery.id}")
        sys.stdin.readline()
        settle(delivery, log)


def too_early(path: str, log: str) -> None:
    with open_queue(path).consume() as consumer:
        delivery = consumer.receive(timeout=60)
        assert delivery
        settle(delivery, log)
        sys.stdin.readline()
        print_line(log, f"got {delivery.id}")


def fill(path: str, log: str, first: str) -> None:
    queue, number = open_queue(path), int(first)
    while True:
        batch = [Message(str(number + step), b"x" * 2000) for step in range(10)]
        assert queue.publish(batch) == 10
        print_line(log, *(f"published {message.id}" for message in batch))
        number += 10


if __name__ == "__main__":
    {"work": work, "pause": pause, "too_early": too_early, "fill": fill}[sys.argv[1]](*sys.argv[2:])
