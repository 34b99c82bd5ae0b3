"""Processes that share a queue are killed and paused at random, and their clocks disagree: nothing confirmed is lost.

On SQLite and SQS nothing is acked twice; RabbitMQ may hand out again what was acked the moment before.
"""

from __future__ import annotations

import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.contracts import queue_worker_program
from tests.faults import built, needs_killer
from tests.faults.matrix import record, seed
from tests.faults.pauses import pause
from tests.thoroughness import kills as kills_of
from webmill.infra.queue.base import Message, is_drained

ROOT = Path(__file__).parent.parent.parent
SEED = seed(20240722)
DAY = 86400
pytestmark = pytest.mark.crash


def hand(*arguments: str | Path, **environment: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.contracts.queue_worker_program", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, env=os.environ | environment, stdin=subprocess.PIPE)


def ended(process: subprocess.Popen[bytes]) -> int:
    process.communicate(timeout=200)
    return process.returncode


def lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def wait_for_lines(log: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    while len(lines(log)) < count:
        assert process.poll() is None, "it ended by itself"
        time.sleep(0.001)


def weigh(log: Path, ids: set[str]) -> tuple[int, Counter[str]]:
    """How many were never worked on, and how often each was acked."""
    printed = [line.split(" ") for line in lines(log)]
    got = {id_ for verb, id_ in printed if verb == "got"}
    return len(ids - got), Counter(id_ for verb, id_ in printed if verb == "acked")


def judge(log: Path, ids: set[str], part: str, fault: str, *, faults: int) -> None:
    """All was handed out, and acked by one; but for those that died after the ack and before saying so."""
    lost, acked = weigh(log, ids)
    twice = sum(times > 1 for times in acked.values())
    promises = {"acknowledged": len(ids) + len(acked), "lost": lost}
    if "RabbitMQ" in part:  # which promises no more
        twice = 0
    record(part, fault, injected=faults, **promises, duplicated=twice)
    assert (lost, twice) == (0, 0)
    assert len(ids - acked.keys()) <= faults


def sqs_address(aws_url: str) -> str:
    return f"sqs://KEY:SECRET@kills-{secrets.token_hex(6)}.fifo?region=us-east-1&endpoint={aws_url}"


@pytest.mark.slow
@pytest.mark.timeout(300 + 30 * kills_of(8))
def test_workers_killed_at_random_lose_nothing_and_ack_nothing_twice(tmp_path: Path) -> None:
    count = 1500 * max(1, kills_of(8) // 8)
    kill_workers(tmp_path / "queue.sqlite", tmp_path / "log", part="queue (SQLite)", count=count, kills=kills_of(8))


@pytest.mark.soak
@pytest.mark.timeout(300 + 30 * kills_of(8))
@pytest.mark.server("aws")
@pytest.mark.xdist_group("aws")
def test_workers_on_sqs_killed_at_random_lose_nothing_and_ack_nothing_twice(tmp_path: Path, aws_url: str) -> None:
    kill_workers(sqs_address(aws_url), tmp_path / "log", part="queue (SQS)", count=300, kills=kills_of(8))


@pytest.mark.slow
@pytest.mark.timeout(300 + 30 * kills_of(3))
@pytest.mark.server("rabbitmq")
def test_workers_on_rabbitmq_killed_at_random_lose_nothing(tmp_path: Path, amqp_url: str) -> None:
    address = f"{amqp_url}#kills-{secrets.token_hex(6)}"
    kill_workers(address, tmp_path / "log", part="queue (RabbitMQ)", count=300, kills=kills_of(3))


def kill_workers(place: Path | str, log: Path, *, part: str, count: int, kills: int) -> None:
    chance, step = random.Random(SEED), 2 * count // (kills + 2)
    ids = {str(number) for number in range(count)}
    queue = queue_worker_program.open_queue(str(place))
    assert queue.publish(Message(id_, b"x" * 500) for id_ in ids) == len(ids)

    workers = [hand("work", place, log) for _ in range(3)]
    for kill in range(1, kills + 1):
        victim = chance.randrange(3)
        wait_for_lines(log, kill * step - step // 2 + chance.randrange(step // 2), workers[victim])
        workers[victim].kill()
        workers[victim].communicate()
        workers[victim] = hand("work", place, log)
    assert [ended(worker) for worker in workers] == [0, 0, 0]
    while queue.stats().ready:  # RabbitMQ notices a moment later that its worker is gone
        assert ended(hand("work", place, log)) == 0

    judge(log, ids, part, "kill -9 at random", faults=kills)
    stats = queue.stats()
    assert (stats.ready, stats.leased, stats.delayed, stats.buried) == (0, 0, 0, 0)
    queue.close()


def lose_one(place: Path | str, log: Path, *, part: str) -> None:
    """The negative control: a worker that acks before it works, and is killed in between."""
    ids = {str(number) for number in range(5)}
    queue = queue_worker_program.open_queue(str(place))
    queue.publish(Message(id_, b"") for id_ in ids)
    worker = hand("too_early", place, log)
    wait_for_lines(log, 1, worker)
    worker.kill()
    worker.communicate()
    while not is_drained(queue):
        assert ended(hand("work", place, log)) == 0
    queue.close()
    lost, acked = weigh(log, ids)
    promises = {"acknowledged": len(ids) + len(acked), "lost": lost}
    record(part, "acked before its work is done", injected=1, **promises, control=True)
    assert lost == 1


def test_a_worker_that_acks_before_it_works_loses_what_it_had(tmp_path: Path) -> None:
    lose_one(tmp_path / "queue.sqlite", tmp_path / "log", part="queue (SQLite)")


@pytest.mark.soak
@pytest.mark.server("aws")
@pytest.mark.xdist_group("aws")
def test_a_worker_on_sqs_that_acks_before_it_works_loses_what_it_had(tmp_path: Path, aws_url: str) -> None:
    lose_one(sqs_address(aws_url), tmp_path / "log", part="queue (SQS)")


@pytest.mark.soak
@pytest.mark.server("rabbitmq")
def test_a_worker_on_rabbitmq_that_acks_before_it_works_loses_what_it_had(tmp_path: Path, amqp_url: str) -> None:
    lose_one(f"{amqp_url}#hasty-{secrets.token_hex(6)}", tmp_path / "log", part="queue (RabbitMQ)")


def test_workers_that_were_paused_past_their_lease_settle_nothing(tmp_path: Path) -> None:
    """SIGSTOP while each holds a message; another works them; then they go on."""
    path, log, count = tmp_path / "queue.sqlite", tmp_path / "log", kills_of(3)
    ids = {str(number) for number in range(count + 20)}
    queue = queue_worker_program.open_queue(str(path))
    queue.publish(Message(id_, b"") for id_ in ids)
    paused = [hand("pause", path, log) for _ in range(count)]
    for number, process in enumerate(paused, start=1):
        wait_for_lines(log, number, process)
    for process in paused:
        pause(process.pid)
    try:
        assert ended(hand("work", path, log)) == 0
    finally:
        for process in paused:
            process.send_signal(signal.SIGCONT)
    for process in paused:
        process.communicate(b"\n", timeout=100)
    queue.close()
    refused = sum(line.startswith("refused") for line in lines(log))
    judge(log, ids, "queue (SQLite)", "worker paused past its lease", faults=refused)
    assert refused == count


@needs_killer
def test_workers_whose_clocks_are_days_apart_lose_nothing_and_ack_nothing_twice(tmp_path: Path) -> None:
    path, log = tmp_path / "queue.sqlite", tmp_path / "log"
    ids = {str(number) for number in range(200)}
    queue = queue_worker_program.open_queue(str(path))
    queue.publish(Message(id_, b"") for id_ in ids)
    clock = str(built("wall_clock.c"))
    logs = {days: tmp_path / f"log{days}" for days in (-1, 1)}
    workers = [
        hand("work", path, own, LD_PRELOAD=clock, WALL_CLOCK_SHIFT=str(days * DAY)) for days, own in logs.items()
    ]
    assert [ended(worker) for worker in workers] == [0, 0]
    log.write_text("".join(f"{line}\n" for own in logs.values() for line in lines(own)))
    judge(log, ids, "queue (SQLite)", "wall clock jumps", faults=sum(bool(lines(own)) for own in logs.values()))
    queue.close()


@pytest.mark.slow
@pytest.mark.timeout(300 + 30 * kills_of(6))
def test_a_publisher_killed_at_random_has_all_it_confirmed_in_the_queue(tmp_path: Path) -> None:
    path, log, chance, kills = tmp_path / "queue.sqlite", tmp_path / "log", random.Random(SEED), kills_of(6)
    for life in range(kills):
        publisher = hand("fill", path, log, str(life * 1_000_000))
        wait_for_lines(log, len(lines(log)) + 10 * chance.randrange(1, 40), publisher)
        publisher.kill()
        publisher.communicate()
    confirmed = {line.split(" ")[1] for line in lines(log)}
    queue, deliveries = queue_worker_program.open_queue(str(path)), Counter[str]()
    with queue.consume(prefetch=100_000) as consumer:
        while delivery := consumer.receive(timeout=0):
            deliveries[delivery.id] += 1
    found = set(deliveries)
    lost, twice = len(confirmed - found), sum(times > 1 for times in deliveries.values())
    numbers = {"acknowledged": len(confirmed), "lost": lost, "duplicated": twice}
    record("queue (SQLite)", "kill -9 at random", injected=kills, **numbers)
    assert (lost, twice) == (0, 0)
    assert len(confirmed) >= 10 * kills
    assert len(found) % 10 == 0, "a batch is all or nothing"
    assert len(found - confirmed) <= 10 * kills  # published, and killed before saying so
    queue.close()
