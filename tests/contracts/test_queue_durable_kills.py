"""A queue in SQLite is killed before its durable calls: what was said is so, and all else is where it was (Q16).

The reader is Python's own sqlite3, which shares no code with the queue.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.contracts.queue_life import AGAIN, BATCH, COUNT
from tests.contracts.sqlite_copy import copy_of
from tests.faults import Stage, needs_killer
from tests.faults.matrix import record, seed
from webmill.infra.queue.sqlite import SqliteQueue

pytestmark = needs_killer
IDS = [str(number) for number in range(COUNT)]
STATES = ("open", "open", "open", "buried")  # ready, leased, delayed
# What one call may have done that was not said any more: from, to, and to how many.
CALLS = {("absent", "open"): BATCH, ("open", "absent"): 1, ("open", "buried"): 1, ("buried", "open"): len(AGAIN)}


@pytest.fixture
def base() -> Iterator[Path]:
    """In memory: a kill loses nothing that was written, so a disk would only make these tests slow."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="webmill-test-", dir=memory if memory.is_dir() else None))
    yield folder
    shutil.rmtree(folder)


def printed(log: Path) -> dict[str, str]:
    lines = [line.split(" ") for line in log.read_text().splitlines()] if log.exists() else []
    return dict.fromkeys(IDS, "absent") | {id_: state for state, id_ in lines}


def found(path: Path) -> dict[str, str]:
    with copy_of(path) as copy, closing(sqlite3.connect(copy)) as file:
        assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        tables = file.execute("SELECT 1 FROM sqlite_schema WHERE name = 'message'").fetchall()
        rows = file.execute("SELECT id, state FROM message JOIN body USING (seq)").fetchall() if tables else []
        assert not tables or len(rows) == file.execute("SELECT count(*) FROM message").fetchone()[0]
    return dict.fromkeys(IDS, "absent") | {id_: STATES[state] for id_, state in rows}


def misplaced(log: Path, path: Path) -> int:
    """How many messages are not where they were said to be, but for what one call may have done."""
    expected, real = printed(log), found(path)
    moves = Counter((expected[id_], real[id_]) for id_ in IDS if expected[id_] != real[id_])
    is_one_call = len(moves) <= 1 and all(CALLS.get(move) == count for move, count in moves.items())
    return 0 if is_one_call else moves.total()


def drain(path: Path) -> list[str]:
    """All that is left, by the queue itself."""
    queue, ids = SqliteQueue(path), []
    queue.end_leases()
    queue.requeue()
    with queue.consume(prefetch=10) as consumer:
        while delivery := consumer.receive(timeout=0):
            ids.append(delivery.id)
            delivery.ack()
    stats = queue.stats()
    assert (stats.ready, stats.leased, stats.delayed, stats.buried) == (0, 0, 0, 0)
    queue.close()
    return ids


@pytest.mark.crash
@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.soak)])
def test_killed_before_durable_calls_every_message_is_in_its_place(base: Path, step: int) -> None:
    deaths: Counter[str] = Counter()
    acknowledged = lost = 0
    with Stage("tests.contracts.queue_life", under=base / "life") as stage:  # and what else begins so
        (base / "life").mkdir()
        whole = stage.warm_up(base / "life" / "queue.sqlite", base / "log")
        assert whole.code == 0, whole.output
        for at in range(random.Random(seed(1)).randint(1, step), len(whole.calls) + 1, step):
            folder, log = base / f"life{at}", base / f"log{at}"
            folder.mkdir()
            ended = stage.run(folder / "queue.sqlite", log, at=at)
            if not ended.killed:
                break
            deaths[ended.calls[-1].partition(" ")[0]] += 1
            if (folder / "queue.sqlite").exists():
                lost += misplaced(log, folder / "queue.sqlite")
                acknowledged += len(log.read_text().splitlines()) if log.exists() else 0
                left = sorted(id_ for id_, state in found(folder / "queue.sqlite").items() if state != "absent")
                assert sorted(drain(folder / "queue.sqlite")) == left
            shutil.rmtree(folder)
    numbers = {"injected": deaths.total(), "acknowledged": acknowledged, "lost": lost}
    record("queue (SQLite)", "kill -9 before a durable call", **numbers)
    assert lost == 0
    print(f"{deaths.total()} kills before {dict(deaths)}, of {len(whole.calls)} calls")
    assert deaths.total() > len(whole.calls) // step - 3
    assert {"pwrite64", "fdatasync"} <= deaths.keys()


def test_the_checker_notices_what_it_should(base: Path) -> None:
    """The negative control."""
    with Stage("tests.contracts.queue_life", under=base) as stage:
        path, log = base / "queue.sqlite", base / "log"
        assert stage.warm_up(path, log).code == 0
    assert misplaced(log, path) == 0
    harms = ["DELETE FROM message WHERE id IN ('5', '11')", "UPDATE message SET state = 0 WHERE id = '5'"]
    for number, harm in enumerate(harms):
        harmed = base / f"harmed{number}.sqlite"
        shutil.copy(path, harmed)
        with closing(sqlite3.connect(harmed)) as file, file:
            assert file.execute(harm).rowcount > 0
        assert misplaced(log, harmed) > 0
