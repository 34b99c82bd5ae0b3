"""What the ledger promises (webmill.infra.ledger)."""

from __future__ import annotations

import logging
import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contracts.queue_benches import Clock
from tests.faults.matrix import record, seed
from tests.thoroughness import kills
from webmill.errors import BadInput, Conflict
from webmill.infra.ledger import Claim, Counts, Ledger, Task

ROOT = Path(__file__).parent.parent.parent
LEASE = 60.0
KILLS = kills(6)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path, clock: Clock) -> Iterator[Ledger]:
    ledger = Ledger(path, max_attempts=3, clock=clock)
    yield ledger
    ledger.close()


def tasks(count: int) -> list[Task]:
    return [Task(f"task-{number}", f"payload {number}".encode()) for number in range(count)]


def take(ledger: Ledger, worker: str = "w") -> Claim:
    claim = ledger.claim(worker, lease=LEASE)
    assert claim is not None
    return claim


def test_planned_work_is_claimed_in_order_done_once_and_remembered(ledger: Ledger) -> None:
    assert ledger.plan(tasks(2)) == 2
    for number in range(2):
        claim = take(ledger, f"worker-{number}")
        assert (claim.task_id, claim.payload) == (f"task-{number}", f"payload {number}".encode())
        assert (claim.attempt, claim.checkpoint) == (1, None)
        ledger.done(claim, b"result")
    assert ledger.claim("w") is None
    assert ledger.counts() == Counts(planned=0, running=0, done=2, failed=0)
    first, second = ledger.entries("done")
    assert (first.id, first.worker, first.result, first.reason) == ("task-0", "worker-0", b"result", "")
    assert ledger.find("task-1") == second
    assert ledger.find("no such task") is None


def test_planning_again_changes_nothing(ledger: Ledger) -> None:
    ledger.plan(tasks(3))
    ledger.done(take(ledger))
    ledger.failed(take(ledger), "broken", retryable=False)
    before = list(ledger.entries())
    assert ledger.plan(tasks(3)) == 0
    assert list(ledger.entries()) == before
    assert ledger.plan(tasks(4)) == 1


def test_the_same_id_with_another_payload_is_a_conflict_and_nothing_is_planned(ledger: Ledger) -> None:
    ledger.plan(tasks(1))
    with pytest.raises(Conflict, match="new id"):
        ledger.plan([Task("new", b""), Task("task-0", b"other settings")])
    assert ledger.counts().planned == 1


def test_a_running_task_is_nobody_elses(ledger: Ledger) -> None:
    ledger.plan(tasks(1))
    take(ledger)
    assert ledger.claim("other") is None
    assert ledger.counts().running == 1


def test_a_failure_that_may_pass_is_tried_again_after_its_delay(ledger: Ledger, clock: Clock) -> None:
    ledger.plan(tasks(1))
    ledger.failed(take(ledger), "503", retryable=True, delay=10)
    assert ledger.claim("w") is None
    (entry,) = ledger.entries("planned")
    assert (entry.reason, entry.attempts) == ("503", 1)
    clock.now += 10
    assert take(ledger).attempt == 2


def test_a_task_that_fails_each_time_is_failed_with_its_last_reason(ledger: Ledger) -> None:
    ledger.plan(tasks(1))
    for attempt in (1, 2, 3):
        ledger.failed(take(ledger), f"failure {attempt}", retryable=True)
    assert ledger.claim("w") is None
    (entry,) = ledger.entries("failed")
    assert (entry.attempts, entry.reason) == (3, "failure 3")


def test_a_task_that_kills_its_worker_each_time_is_failed_with_a_reason(ledger: Ledger, clock: Clock) -> None:
    ledger.plan(tasks(2))
    for attempt in (1, 2, 3):
        assert {take(ledger).attempt, take(ledger).attempt} == {attempt}
        clock.now += LEASE
    assert ledger.counts() == Counts(planned=0, running=0, done=0, failed=2)
    assert {entry.reason for entry in ledger.entries()} == {"lease expired 3 times: the worker died or hung"}


def test_a_reason_is_never_empty(ledger: Ledger) -> None:
    ledger.plan(tasks(1))
    ledger.failed(take(ledger), " ", retryable=False)
    (entry,) = ledger.entries("failed")
    assert entry.reason


@pytest.mark.parametrize("call", ["renew", "checkpoint", "done", "failed"])
def test_nothing_is_accepted_after_the_lease_is_over(ledger: Ledger, clock: Clock, call: str) -> None:
    ledger.plan(tasks(1))
    late = take(ledger, "paused")

    def settle() -> None:
        match call:
            case "checkpoint":
                ledger.checkpoint(late, b"late")
            case "failed":
                ledger.failed(late, "late", retryable=True)
            case _:
                getattr(ledger, call)(late)

    clock.now += LEASE
    with pytest.raises(Conflict):
        settle()
    current = take(ledger, "successor")
    with pytest.raises(Conflict):
        settle()
    assert (current.attempt, current.checkpoint) == (2, None)
    ledger.done(current, b"by the successor")
    with pytest.raises(Conflict):
        settle()
    (entry,) = ledger.entries("done")
    assert (entry.worker, entry.result) == ("successor", b"by the successor")


def test_renewing_and_checkpointing_keep_the_lease(ledger: Ledger, clock: Clock) -> None:
    ledger.plan(tasks(1))
    claim = take(ledger)
    for keep in (ledger.renew, lambda held: ledger.checkpoint(held, b"half")):
        clock.now += LEASE - 1
        keep(claim)
    clock.now += LEASE - 1
    ledger.done(claim)


def test_the_next_claim_begins_at_the_last_checkpoint(ledger: Ledger, clock: Clock) -> None:
    ledger.plan(tasks(1))
    claim = take(ledger)
    for step in range(5):
        ledger.checkpoint(claim, f"step {step}".encode())
    clock.now += LEASE
    assert take(ledger).checkpoint == b"step 4"


def test_a_checkpoint_has_a_limit(ledger: Ledger) -> None:
    ledger.plan(tasks(1))
    with pytest.raises(BadInput, match="too_large"):
        ledger.checkpoint(take(ledger), bytes(16 * 1024 * 1024 + 1))


def damage(path: Path, number: int, data: bytes) -> None:
    outside = apsw.Connection(str(path))
    outside.execute("UPDATE checkpoint SET data = ? WHERE number = ?", (data, number))
    assert outside.changes() == 1
    outside.close()


@given(cut=st.integers(0, 19), garbage=st.binary(max_size=30))
@settings(deadline=None, max_examples=25)
def test_a_damaged_checkpoint_gives_way_to_the_one_before(
    tmp_path_factory: pytest.TempPathFactory, cut: int, garbage: bytes
) -> None:
    path, clock, good = tmp_path_factory.mktemp("ledger") / "l.sqlite", Clock(), b"twenty bytes of state"[:20]
    ledger = Ledger(path, clock=clock)
    ledger.plan(tasks(1))
    claim = take(ledger)
    for data in (b"oldest", b"older", good):
        ledger.checkpoint(claim, data)
    clock.now += LEASE
    damage(path, 3, good[:cut])
    claim = take(ledger)
    assert claim.checkpoint == b"older"
    damage(path, 2, garbage + b"!")
    clock.now += LEASE
    assert take(ledger).checkpoint is None
    ledger.close()


def test_a_damaged_checkpoint_is_noted(
    ledger: Ledger, path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    ledger.plan(tasks(1))
    ledger.checkpoint(take(ledger), b"state")
    damage(path, 1, b"")
    clock.now += LEASE
    with caplog.at_level(logging.WARNING):
        assert take(ledger).checkpoint is None
    assert "checkpoint_damaged" in caplog.text


def test_failed_work_is_driven_again_from_its_checkpoint(ledger: Ledger) -> None:
    ledger.plan(tasks(3))
    for _ in range(3):
        claim = take(ledger)
        ledger.checkpoint(claim, claim.payload)
        ledger.failed(claim, "no", retryable=False)
    assert ledger.redrive(["task-1", "unknown"]) == 1
    claim = take(ledger)
    assert (claim.task_id, claim.attempt, claim.checkpoint) == ("task-1", 1, b"payload 1")
    ledger.done(claim)
    assert ledger.redrive() == 2
    assert ledger.counts() == Counts(planned=2, running=0, done=1, failed=0)


def test_threads_never_hold_one_task_together(path: Path) -> None:
    ledger = Ledger(path)
    ledger.plan(tasks(60))
    claimed: list[str] = []

    def work() -> None:
        while claim := ledger.claim("w"):
            claimed.append(claim.task_id)
            ledger.done(claim)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(claimed) == Counter(task.id for task in tasks(60))
    ledger.close()


WORKER = """
import os, sys, time
from pathlib import Path
from webmill.errors import Conflict
from webmill.infra.ledger import Ledger
ledger, log = Ledger(Path(sys.argv[1]), max_attempts=1000), os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
while True:
    counts = ledger.counts()
    if counts.planned == counts.running == 0:
        break
    claim = ledger.claim("w", lease=1.0)
    if claim is None:
        time.sleep(0.02)
        continue
    done = int(claim.checkpoint or b"0")
    os.write(log, b"start %s %d\\n" % (claim.task_id.encode(), done))
    try:
        for step in range(done + 1, 4):
            ledger.checkpoint(claim, b"%d" % step)
            os.write(log, b"step %s %d\\n" % (claim.task_id.encode(), step))
        ledger.done(claim)
    except Conflict:
        continue
    os.write(log, b"done %s 0\\n" % claim.task_id.encode())
"""


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.timeout(300 + 30 * KILLS)
def test_workers_killed_at_random_finish_all_tasks_from_their_checkpoints(path: Path, tmp_path: Path) -> None:
    ledger, log, chance = Ledger(path, max_attempts=1000), tmp_path / "log", random.Random(seed(7))
    ledger.plan(tasks(50 * KILLS))
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

    assert ledger.counts() == Counts(planned=0, running=0, done=50 * KILLS, failed=0)
    ledger.close()
    progress: dict[str, int] = {}
    finished: Counter[str] = Counter()
    promised = lost = 0
    for verb, task, number in (line.split(" ") for line in log.read_text().splitlines()):
        promised += verb != "start"
        if verb == "start":
            lost += int(number) < progress.get(task, 0)  # a checkpoint that was confirmed
        elif verb == "step":
            progress[task] = int(number)
        else:
            finished[task] += 1
    twice = sum(times > 1 for times in finished.values())
    lost += len(finished.keys() - done_in(path))
    record(
        "ledger", "kill -9 at random", injected=KILLS, acknowledged=promised + 50 * KILLS, lost=lost, duplicated=twice
    )
    assert (lost, twice) == (0, 0)
    assert len(finished) >= 49 * KILLS


def done_in(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {row[0] for row in connection.execute("SELECT id FROM task WHERE state = 'done'")}
