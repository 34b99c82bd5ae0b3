"""A queue that remembers what is done is the list of all tasks of a job: what it promises beyond other queues."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.contracts.queue_benches import LEASE, Clock, messages
from tests.faults.matrix import record, seed
from tests.thoroughness import kills
from webmill.errors import Conflict
from webmill.infra.queue.base import Delivery, Message, QueueStats, is_drained
from webmill.infra.queue.sqlite import SqliteQueue
from webmill.infra.queue.sqlite_reader import TaskEntry, view_file

ROOT = Path(__file__).parent.parent.parent
KILLS = kills(6)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.sqlite"


def opened(path: Path, clock: Clock) -> SqliteQueue:
    return SqliteQueue(path, max_attempts=3, lease=LEASE, remember=True, clock=clock)


@pytest.fixture
def queue(path: Path, clock: Clock) -> Iterator[SqliteQueue]:
    with closing(opened(path, clock)) as queue:
        yield queue


def take(queue: SqliteQueue) -> Delivery:
    delivery = queue.consume().receive(timeout=0)
    assert delivery is not None
    return delivery


def is_empty(queue: SqliteQueue) -> bool:
    return queue.consume().receive(timeout=0) is None


def entry(queue: SqliteQueue, id_: str) -> TaskEntry:
    return next(entry for entry in queue.entries() if entry.id == id_)


def test_what_is_acked_stays_as_done_with_its_result(queue: SqliteQueue, clock: Clock) -> None:
    queue.publish(messages(2))
    for number in range(2):
        clock.now += 1
        take(queue).ack(f"result {number}".encode())
    assert is_empty(queue)
    assert is_drained(queue)
    assert queue.stats() == QueueStats(0, 0, 0, 0, done=2)
    first, second = queue.entries()
    assert first == TaskEntry("id-0", "done", 1, "", clock.now - 1, b"result 0")
    assert (second.state, second.result, second.changed) == ("done", b"result 1", clock.now)


def test_publishing_what_is_known_changes_nothing(queue: SqliteQueue) -> None:
    queue.publish(messages(4))
    take(queue).ack(b"done")
    take(queue).bury("broken")
    take(queue).retry("later", delay=10.0)
    take(queue)
    before = list(queue.entries())
    assert [one.state for one in before] == ["done", "buried", "delayed", "leased"]
    assert queue.publish(messages(4)) == 0
    assert list(queue.entries()) == before
    assert queue.publish(messages(5)) == 1


def test_done_stays_done_when_the_file_is_opened_again(path: Path, clock: Clock) -> None:
    with closing(opened(path, clock)) as queue:
        queue.publish(messages(1))
        take(queue).ack(b"all of it")
        before = list(queue.entries())
    clock.now -= 3600.0  # also where the clock was set back
    with closing(opened(path, clock)) as queue:
        queue.end_leases()
        assert queue.publish(messages(1)) == 0
        assert is_empty(queue)
        assert list(queue.entries()) == before


def test_done_is_neither_requeued_nor_dropped(queue: SqliteQueue) -> None:
    queue.publish(messages(1))
    take(queue).ack(b"kept")
    assert queue.requeue() == queue.requeue(["id-0"]) == queue.drop(["id-0"]) == 0
    assert entry(queue, "id-0").result == b"kept"


def test_what_failed_is_handed_out_again_with_fresh_attempts_when_it_is_requeued(queue: SqliteQueue) -> None:
    queue.publish(messages(3))
    for _ in range(3):
        take(queue).bury("no")
    assert queue.requeue(["id-1", "unknown"]) == 1
    delivery = take(queue)
    assert (delivery.id, delivery.body, delivery.attempts) == ("id-1", b"body 1", 1)
    delivery.ack()
    assert queue.requeue() == 2
    assert queue.stats() == QueueStats(2, 0, 0, 0, done=1)


def test_a_task_that_fails_each_time_is_shown_with_its_last_reason(queue: SqliteQueue) -> None:
    queue.publish(messages(1))
    for attempt in (1, 2, 3):
        take(queue).retry(f"failure {attempt}")
    assert is_empty(queue)
    assert (entry(queue, "id-0").state, entry(queue, "id-0").attempts) == ("buried", 3)
    assert entry(queue, "id-0").reason == "failure 3"


def test_a_failure_before_is_no_reason_any_more_when_it_is_done(queue: SqliteQueue) -> None:
    queue.publish(messages(1))
    take(queue).retry("503")
    assert entry(queue, "id-0").reason == "503"
    take(queue).ack()
    assert (entry(queue, "id-0").reason, entry(queue, "id-0").attempts) == ("", 2)


def test_entries_are_all_that_there_is_in_the_order_of_publishing(queue: SqliteQueue, path: Path) -> None:
    queue.publish(messages(1200))
    assert [one.id for one in queue.entries()] == [f"id-{number}" for number in range(1200)]
    with view_file(path) as view:
        assert list(view.entries()) == list(queue.entries())


def test_nothing_is_called_done_after_its_lease_is_over(queue: SqliteQueue, clock: Clock) -> None:
    queue.publish(messages(1))
    late = take(queue)
    clock.now += LEASE
    with pytest.raises(Conflict):
        late.ack(b"late")
    current = take(queue)
    with pytest.raises(Conflict):
        late.ack(b"late")
    current.ack(b"by the successor")
    with pytest.raises(Conflict):
        late.ack(b"late")
    assert entry(queue, "id-0").result == b"by the successor"


@pytest.mark.parametrize("step", [0.0, 1e-9, 0.0005, 3600.0, -3600.0], ids=str)
def test_what_a_killed_holder_had_is_due_at_once_and_costs_no_attempt(path: Path, clock: Clock, step: float) -> None:
    with closing(opened(path, clock)) as queue:
        queue.publish(messages(4))
    for left in (["id-0", "id-1", "id-2", "id-3"], ["id-1", "id-2", "id-3"], ["id-2", "id-3"], ["id-3"]):
        with closing(opened(path, clock)) as queue:  # of a run that is killed after it has settled one
            queue.end_leases()
            held = [take(queue) for _ in left]
            assert [(delivery.id, delivery.attempts) for delivery in held] == [(id_, 1) for id_ in left]
            assert is_empty(queue)
            held[0].ack()
        clock.now += step


@pytest.mark.parametrize("step", [0.0, 3600.0, -3600.0], ids=str)
def test_what_was_to_be_tried_later_is_due_at_once_too_and_its_attempts_count(
    path: Path, clock: Clock, step: float
) -> None:
    with closing(opened(path, clock)) as queue:
        queue.publish(messages(2))
        for _ in range(2):
            take(queue).retry("503", delay=600.0)
    clock.now += step
    with closing(opened(path, clock)) as queue:
        queue.end_leases()
        assert [(one.id, one.attempts) for one in (take(queue), take(queue))] == [("id-0", 2), ("id-1", 2)]


def test_who_held_it_before_cannot_settle_it_any_more(queue: SqliteQueue) -> None:
    queue.publish(messages(1))
    before = take(queue)
    queue.end_leases()
    with pytest.raises(Conflict):
        before.ack()
    take(queue).ack(b"once")
    assert entry(queue, "id-0").result == b"once"


def test_looking_takes_nothing_from_a_run(queue: SqliteQueue, path: Path, clock: Clock) -> None:
    queue.publish(messages(3))
    for _ in range(3):
        delivery = take(queue)
        clock.now += LEASE - 1
        with view_file(path) as view:
            assert view.stats().leased == 1
            assert [one.id for one in view.entries() if one.state == "leased"] == [delivery.id]
        delivery.ack()
    assert is_drained(queue)


def test_threads_never_hold_one_task_together(path: Path) -> None:
    taken: list[str] = []
    with closing(SqliteQueue(path, remember=True)) as queue:
        queue.publish(messages(60))

        def work() -> None:
            with queue.consume() as consumer:
                while delivery := consumer.receive(timeout=0):
                    taken.append(delivery.id)
                    delivery.ack()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert Counter(taken) == Counter(message.id for message in messages(60))


WORKER = """
import os, sys
from pathlib import Path
from webmill.errors import Conflict
from webmill.infra.queue.base import is_drained
from webmill.infra.queue.sqlite import SqliteQueue
queue = SqliteQueue(Path(sys.argv[1]), max_attempts=1000, lease=1.0, remember=True)
log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
with queue.consume() as consumer:
    while not is_drained(queue):
        delivery = consumer.receive(timeout=0.02)
        if delivery is None:
            continue
        os.write(log, b"start %s\\n" % delivery.id.encode())
        try:
            delivery.ack(b"result of " + delivery.id.encode())
        except Conflict:
            continue
        os.write(log, b"done %s\\n" % delivery.id.encode())
"""


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.timeout(300 + 30 * KILLS)
def test_workers_killed_at_random_finish_all_tasks_once_and_keep_their_results(path: Path, tmp_path: Path) -> None:
    log, chance, ids = tmp_path / "log", random.Random(seed(7)), {f"{number}" for number in range(150 * KILLS)}
    with closing(SqliteQueue(path, max_attempts=1000, remember=True)) as queue:
        queue.publish(Message(id_, b"") for id_ in sorted(ids))
    log.touch()
    command = [sys.executable, "-c", WORKER, str(path), str(log)]
    workers = [subprocess.Popen(command, cwd=ROOT) for _ in range(3)]
    for kill in range(1, KILLS + 1):
        victim = workers[chance.randrange(3)]
        while log.read_bytes().count(b"\n") < kill * 150 + chance.randrange(100):
            assert victim.poll() is None
            time.sleep(0.001)
        victim.kill()
        victim.wait()
        workers[workers.index(victim)] = subprocess.Popen(command, cwd=ROOT)
    assert [worker.wait(60) for worker in workers] == [0, 0, 0]

    finished = Counter(line.split(" ")[1] for line in log.read_text().splitlines() if line.startswith("done "))
    with view_file(path) as view:
        kept = {
            one.id for one in view.entries() if one.state == "done" and one.result == f"result of {one.id}".encode()
        }
    lost, twice = len((ids | finished.keys()) - kept), sum(times > 1 for times in finished.values())
    promised = len(ids) + len(finished)
    record("tasks (SQLite)", "kill -9 at random", injected=KILLS, acknowledged=promised, lost=lost, duplicated=twice)
    assert (lost, twice) == (0, 0)
    assert len(ids) - len(finished) <= KILLS


def test_a_clock_that_is_set_back_does_not_hold_what_a_dead_worker_had(queue: SqliteQueue, clock: Clock) -> None:
    """Found by the simulation (queue, seed 235): it stayed leased until the clock was there again, a day later."""
    queue.publish(messages(1))
    take(queue)
    clock.now -= 86_400
    assert is_empty(queue)  # the lease has all of its length
    clock.now += LEASE + 1
    assert take(queue).attempts == 2


def test_a_delay_keeps_its_length_when_the_clock_is_set_back(path: Path, queue: SqliteQueue, clock: Clock) -> None:
    queue.publish(messages(1))
    take(queue).retry("busy", delay=10)
    clock.now -= 86_400
    with closing(opened(path, clock)) as later:  # which has not seen the clock jump
        assert is_empty(later)
        clock.now += 11
        assert take(later).attempts == 2


def test_what_was_fetched_ahead_is_asked_for_when_the_clock_is_set_back(queue: SqliteQueue, clock: Clock) -> None:
    """Found by the simulation (queue, seed 109): by the new clock its lease lasted for a day."""
    queue.publish(messages(2))
    with closing(queue.consume(prefetch=2)) as consumer:
        assert consumer.receive(timeout=0)
        clock.now += LEASE + 1
        assert {take(queue).id, take(queue).id} == {"id-0", "id-1"}  # they are with another worker
        clock.now -= 86_400
        assert consumer.receive(timeout=0) is None
