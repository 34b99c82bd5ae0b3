"""Publish, receive and ack small messages. Rivals that are not installed are left out.

The plain variant is what one writes in an afternoon: a table, a transaction per message, no lease. persist-queue hands
one item to two processes; pika confirms one message at a time, and acks without asking for an answer.
RabbitMQ runs when WEBMILL_TEST_AMQP_URL names one (`python -m tests.services up` prints it).
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.frame import Contestant, race
from webmill.infra.queue.base import Message, Queue
from webmill.infra.queue.sqlite import SqliteQueue

COUNT = 2000
BODY = b"x" * 500


def work(queue: Queue, *, prefetch: int) -> int:
    for start in range(0, COUNT, 100):
        queue.publish(Message(str(number), BODY) for number in range(start, start + 100))
    done = 0
    with queue.consume(prefetch=prefetch) as consumer:
        while done < COUNT and (delivery := consumer.receive(timeout=5)):
            delivery.ack()
            done += 1
    queue.close()
    return done


def plain_sqlite(folder: Path) -> int:
    connection = sqlite3.connect(folder / secrets.token_hex(4), isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE message (seq INTEGER PRIMARY KEY, body BLOB, taken INTEGER DEFAULT 0)")
    for _ in range(COUNT):
        connection.execute("INSERT INTO message (body) VALUES (?)", (BODY,))
    done = 0
    take = "UPDATE message SET taken = 1 WHERE seq = (SELECT min(seq) FROM message WHERE taken = 0) RETURNING seq, body"
    while row := connection.execute(take).fetchone():
        connection.execute("DELETE FROM message WHERE seq = ?", (row[0],))
        done += 1
    connection.close()
    return done


def persist_queue(folder: Path) -> int:
    import persistqueue

    queue = persistqueue.SQLiteAckQueue(str(folder / secrets.token_hex(4)), auto_commit=True)
    for _ in range(COUNT):
        queue.put(BODY)
    done = 0
    while queue.size:
        queue.ack(queue.get(timeout=1))
        done += 1
    queue.close()
    return done


def rabbitmq(url: str) -> int:
    from webmill.infra.queue.rabbitmq import RabbitQueue

    return work(RabbitQueue(url, name=f"bench-{secrets.token_hex(4)}", new_queue_pause=0), prefetch=100)


def pika_blocking(url: str) -> int:
    import pika

    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel, name = connection.channel(), f"bench-{secrets.token_hex(4)}"
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum"})
    channel.confirm_delivery()
    for _ in range(COUNT):
        channel.basic_publish("", name, BODY, pika.BasicProperties(delivery_mode=2), mandatory=True)
    channel.basic_qos(prefetch_count=100)
    done = 0
    for method, _, _ in channel.consume(name, inactivity_timeout=5):
        channel.basic_ack(method.delivery_tag)
        done += 1
        if done == COUNT:
            break
    connection.close()
    return done


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        contestants: dict[str, Contestant] = {
            "webmill, SQLite": lambda: work(SqliteQueue(folder / secrets.token_hex(4)), prefetch=20),
            "plain SQLite": lambda: plain_sqlite(folder),
        }
        offer(contestants, "persist-queue", module="persistqueue", run=lambda: persist_queue(folder))
        race("Queue in one file: publish, receive, ack", contestants, unit="messages")
    url = os.environ.get("WEBMILL_TEST_AMQP_URL")
    if url:
        contestants = {"webmill, RabbitMQ": lambda: rabbitmq(url)}
        offer(contestants, "pika with confirms", module="pika", run=lambda: pika_blocking(url))
        race("RabbitMQ: publish with confirms, receive, ack", contestants, unit="messages")


def offer(contestants: dict[str, Contestant], name: str, *, module: str, run: Callable[[], int]) -> None:
    if importlib.util.find_spec(module):
        contestants[name] = run


if __name__ == "__main__":
    main()
