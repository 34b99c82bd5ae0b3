"""`webmill cc batch` is killed before each of its durable calls, and at random moments; then it is run again.

With an SQLite queue no batch is lost and none comes twice, whoever takes them meanwhile. RabbitMQ may get some again.
"""

from __future__ import annotations

import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults import Stage, needs_killer
from tests.faults.matrix import record, seed
from tests.pipeline.dispatch_samples import captures, in_blocks, messages_of, read_plainly, write_index
from tests.thoroughness import kills as kills_of
from webmill.infra.queue.base import is_drained
from webmill.infra.queue.rabbitmq import RabbitQueue
from webmill.infra.queue.sqlite import SqliteQueue

SEED = seed(7)
pytestmark = pytest.mark.crash


@pytest.fixture
def root(memory_folder: Path) -> Path:
    return memory_folder


class Sums:
    """Batches that had to come, over many deaths: how many did not, how many came again."""

    def __init__(self) -> None:
        self.batches = self.lost = self.twice = 0

    def add(self, found: Counter[tuple[str, bytes]], expected: Counter[tuple[str, bytes]]) -> None:
        self.batches += expected.total()
        self.lost += (expected - found).total()
        self.twice += (found - expected).total()

    def record(self, fault: str, *, kills: int, quarantined: int = 0, control: bool = False) -> None:
        numbers = {"acknowledged": self.batches, "lost": self.lost, "duplicated": self.twice}
        record("dispatch", fault, injected=kills, **numbers, quarantined=quarantined, control=control)
        assert control or (self.lost, self.twice) == (0, 0)


class Scene:
    """An index with damage, and a selection that fills a few batches of each of its shards."""

    def __init__(self, root: Path) -> None:
        blocks = in_blocks(captures(600), 10)
        blocks[20][3] = b"torn"
        self.cluster = write_index(root / "index", blocks, shards=6)
        self.work = root / "work"
        self.arguments = (
            *("--quiet", "cc", "batch", "--cluster-idx", self.cluster, "--status", "200", "--dedup", "digest"),
            *("--batch-size", "4", "--no-metrics", "--queue", f"sqlite:{self.work}/queue.sqlite"),
        )

    def clear(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()

    def take(self, found: Counter[tuple[str, bytes]]) -> None:
        """As workers would, beside it or between its lives."""
        queue = SqliteQueue(self.work / "queue.sqlite")
        with queue.consume(prefetch=50) as consumer:
            while delivery := consumer.receive(timeout=0):
                found[delivery.id, delivery.body] += 1
                delivery.ack()
        queue.close()

    def ready(self) -> bool:
        queue = SqliteQueue(self.work / "queue.sqlite")
        ready = queue.stats().ready
        queue.close()
        return ready > 0

    def rejects(self) -> list[str]:
        (file,) = self.work.glob(".webmill/batcher/*/rejected.jsonl")
        return file.read_text().splitlines()


@needs_killer
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])])
def test_killed_before_durable_calls_it_publishes_each_batch_once(root: Path, step: int) -> None:
    scene, sums = Scene(root), Sums()
    deaths: Counter[str] = Counter()
    with Stage("webmill.cli.main", under=scene.work) as stage:
        scene.clear()
        assert stage.warm_up(*scene.arguments).code == 3
        expected: Counter[tuple[str, bytes]] = Counter()
        scene.take(expected)
        rejects = scene.rejects()
        assert (len(expected), len(rejects), max(expected.values())) == (len(expected), 1, 1)
        assert len(expected) > 10
        for at in range(1, 2000, step):
            scene.clear()
            ended = stage.run(*scene.arguments, at=at)
            if not ended.killed:
                break
            deaths[f"{ended.calls[-1].partition(' ')[0]} {ended.calls[-1].rpartition('/')[2]}"] += 1
            found: Counter[tuple[str, bytes]] = Counter()
            scene.take(found)
            again = stage.run(*scene.arguments)
            assert again.code == 3, again.output
            scene.take(found)
            sums.add(found, expected)
            assert scene.rejects() == rejects
    sums.record("kill -9 before a durable call", kills=deaths.total(), quarantined=len(rejects))
    print(f"{deaths.total()} kills: {dict(deaths)}")
    assert deaths.total() > 200 // step
    for file in ("queue.sqlite", "digests.sqlite"):
        assert any(file in call for call in deaths)


@needs_killer
def test_who_notes_its_place_before_its_batches_loses_them(root: Path) -> None:
    """The negative control."""
    scene, sums, kills = Scene(root), Sums(), 0
    with Stage("tests.pipeline.broken_promises", under=scene.work) as stage:
        scene.clear()
        whole = stage.warm_up("mark", *scene.arguments)
        assert whole.code == 3, whole.output
        expected: Counter[tuple[str, bytes]] = Counter()
        scene.take(expected)
        for at in range(1, len(whole.calls), 5):
            scene.clear()
            kills += stage.run("mark", *scene.arguments, at=at).killed
            assert stage.run("mark", *scene.arguments).code == 3
            found: Counter[tuple[str, bytes]] = Counter()
            scene.take(found)
            sums.add(found, expected)
            if sums.lost:
                break
    sums.record("notes its place before its batches", kills=kills, control=True)
    assert sums.lost


@pytest.mark.slow
@pytest.mark.timeout(300 + 30 * kills_of(8))
def test_killed_at_random_moments_it_publishes_each_batch_once(root: Path) -> None:
    """With processes of its own. It waits when the queue is full, so no life is long enough to end."""
    scene, dice, sums = Scene(root), random.Random(SEED), Sums()
    scene.cluster = write_index(root / "index", in_blocks(captures(24_000), 120), shards=40)
    command = [sys.executable, "-m", "webmill", *map(str, scene.arguments)]
    scene.clear()
    subprocess.run(command, check=True)
    expected: Counter[tuple[str, bytes]] = Counter()
    scene.take(expected)
    found: Counter[tuple[str, bytes]] = Counter()
    kills = 0
    scene.clear()
    for _ in range(40):
        victim = subprocess.Popen([*command, "--max-queued", "20"], start_new_session=True, stderr=subprocess.DEVNULL)
        while not scene.ready() and victim.poll() is None:
            time.sleep(0.01)
        with suppress(subprocess.TimeoutExpired):
            victim.wait(dice.uniform(0, 0.2))
        if victim.poll() is not None:
            break
        os.killpg(victim.pid, signal.SIGKILL)
        kills += victim.wait() == -signal.SIGKILL
        scene.take(found)
    subprocess.run(command, check=True)
    scene.take(found)
    sums.add(found, expected)
    sums.record("kill -9 at random", kills=kills)
    assert kills >= 3


@pytest.mark.server("rabbitmq")
def test_killed_at_random_moments_beside_rabbitmq_it_loses_no_batch(root: Path, amqp_url: str) -> None:
    scene, dice = Scene(root), random.Random(SEED)
    scene.cluster = write_index(root / "index", in_blocks(captures(160 * kills_of(6)), 10), shards=6)  # for all lives
    name = f"test-{secrets.token_hex(6)}"
    command = [
        sys.executable,
        "-m",
        "tests.pipeline.dispatch_rabbit",
        amqp_url,
        name,
        str(scene.cluster),
        str(scene.work),
    ]
    kills = 0
    for _ in range(kills_of(6)):
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as victim:
            assert victim.stdin
            assert victim.stdout
            for _ in range(dice.randrange(1, 4)):
                victim.stdin.write("\n")
                victim.stdin.flush()
                victim.stdout.readline()  # this window is published
            victim.stdin.write("\n")
            victim.stdin.flush()
            time.sleep(dice.uniform(0, 0.02))  # and the next is on its way
            victim.kill()
            kills += victim.wait() == -signal.SIGKILL
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    queue = RabbitQueue(amqp_url, name=name)
    found: dict[str, set[bytes]] = {}
    with queue.consume(prefetch=100) as consumer:
        while (delivery := consumer.receive(timeout=2)) or not is_drained(queue):
            if delivery:
                found.setdefault(delivery.id, set()).add(delivery.body)
                delivery.ack()
    queue.close()
    assert kills == kills_of(6)
    assert all(len(bodies) == 1 for bodies in found.values()), "one id, two batches"
    in_order = [bodies.pop() for _, bodies in sorted(found.items())]
    expected = [item for item in read_plainly(scene.cluster) if item[2]["status"] == "200"]
    come = {(key, timestamp, fields["digest"]) for key, timestamp, fields in messages_of(in_order)}
    lost = sum((key, timestamp, fields["digest"]) not in come for key, timestamp, fields in expected)
    record("dispatch", "kill -9 at random", injected=kills, acknowledged=len(expected), lost=lost)
    assert lost == 0
    assert messages_of(in_order) == expected
