"""Processes that share a SQLite queue are killed at random: nothing confirmed is lost, nothing is acked twice."""

from __future__ import annotations

import random
import secrets
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.contracts import queue_hand
from webmill.infra.queue.base import Message

ROOT = Path(__file__).parent.parent.parent
SEED = 20240722


def hand(*arguments: str | Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.contracts.queue_hand", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT)


def lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def wait_for_lines(log: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    while len(lines(log)) < count:
        assert process.poll() is None, "it ended by itself"
        time.sleep(0.001)


@pytest.mark.slow
def test_workers_killed_at_random_lose_nothing_and_ack_nothing_twice(tmp_path: Path) -> None:
    kill_workers(tmp_path / "queue.sqlite", tmp_path / "log", count=1500, kills=8)


@pytest.mark.soak
@pytest.mark.server("aws")
def test_workers_on_sqs_killed_at_random_lose_nothing_and_ack_nothing_twice(tmp_path: Path, aws_url: str) -> None:
    address = f"sqs://KEY:SECRET@kills-{secrets.token_hex(6)}.fifo?region=us-east-1&endpoint={aws_url}"
    kill_workers(address, tmp_path / "log", count=300, kills=8)


def kill_workers(place: Path | str, log: Path, *, count: int, kills: int) -> None:
    chance, step = random.Random(SEED), 2 * count // (kills + 2)
    ids = {str(number) for number in range(count)}
    queue = queue_hand.open_queue(str(place))
    assert queue.publish(Message(id_, b"x" * 500) for id_ in ids) == len(ids)

    workers = [hand("work", place, log) for _ in range(3)]
    for kill in range(1, kills + 1):
        victim = chance.randrange(3)
        wait_for_lines(log, kill * step - step // 2 + chance.randrange(step // 2), workers[victim])
        workers[victim].kill()
        workers[victim].wait()
        workers[victim] = hand("work", place, log)
    assert [worker.wait(120) for worker in workers] == [0, 0, 0]

    said = [line.split(" ") for line in lines(log)]
    acked = Counter(id_ for verb, id_ in said if verb == "acked")
    assert {id_ for verb, id_ in said if verb == "got"} == ids
    assert set(acked.values()) == {1}
    assert len(ids - acked.keys()) <= kills  # killed after the ack and before saying so
    stats = queue.stats()
    assert (stats.ready, stats.leased, stats.delayed, stats.buried) == (0, 0, 0, 0)
    queue.close()


@pytest.mark.slow
def test_a_publisher_killed_at_random_has_all_it_confirmed_in_the_queue(tmp_path: Path) -> None:
    path, log, chance = tmp_path / "queue.sqlite", tmp_path / "log", random.Random(SEED)
    for life in range(6):
        publisher = hand("fill", path, log, str(life * 1_000_000))
        wait_for_lines(log, len(lines(log)) + 10 * chance.randrange(1, 40), publisher)
        publisher.kill()
        publisher.wait()
    confirmed = {line.split(" ")[1] for line in lines(log)}
    queue, found = queue_hand.open_queue(str(path)), set()
    with queue.consume(prefetch=10_000) as consumer:
        while delivery := consumer.receive(timeout=0):
            found.add(delivery.id)
    assert len(confirmed) >= 60
    assert confirmed <= found
    assert len(found) % 10 == 0, "a batch is all or nothing"
    assert len(found - confirmed) <= 60  # published, and killed before saying so
    queue.close()
