"""A publisher's mark and its messages are one: both are there, or neither."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from webmill.errors import BadInput
from webmill.infra.queue.base import Mark, MarkingQueue, Message
from webmill.infra.queue.memory import MemoryQueue
from webmill.infra.queue.rabbitmq import RabbitQueue
from webmill.infra.queue.sqlite import SqliteQueue


@pytest.fixture(params=["memory", "sqlite"])
def queue(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MarkingQueue]:
    queue = MemoryQueue() if request.param == "memory" else SqliteQueue(tmp_path / "queue.sqlite")
    yield queue
    queue.close()


def test_a_mark_is_kept_under_its_name(queue: MarkingQueue) -> None:
    queue.publish([Message("1", b"")], mark=Mark("a", b"first"))
    queue.publish([], mark=Mark("a", b"second"))
    queue.publish([Message("2", b"")])
    assert (queue.mark("a"), queue.mark("b")) == (b"second", None)
    assert queue.stats().ready == 2


def test_a_refused_message_leaves_the_mark_as_it_was(queue: MarkingQueue) -> None:
    queue.publish([], mark=Mark("a", b"before"))
    with pytest.raises(BadInput):
        queue.publish([Message("1", b""), Message("", b"")], mark=Mark("a", b"after"))
    assert (queue.mark("a"), queue.stats().ready) == (b"before", 0)


def test_a_file_of_before_there_were_marks_gets_them(tmp_path: Path) -> None:
    import apsw

    old = SqliteQueue(tmp_path / "queue.sqlite")
    old.publish([Message("1", b"body")])
    old.close()
    connection = apsw.Connection(str(tmp_path / "queue.sqlite"))
    connection.execute(
        "DROP TABLE mark; ALTER TABLE message DROP COLUMN changed; ALTER TABLE message DROP COLUMN result;"
        "PRAGMA user_version=1"
    )
    connection.close()
    queue = SqliteQueue(tmp_path / "queue.sqlite")
    queue.publish([], mark=Mark("a", b"1"))
    assert (queue.mark("a"), queue.stats().ready) == (b"1", 1)
    queue.close()


def test_only_a_queue_that_keeps_marks_says_so(queue: MarkingQueue) -> None:
    assert isinstance(queue, MarkingQueue)
    assert not hasattr(RabbitQueue, "mark")
