"""SQLite queues, those that remember, too: killed before durable calls, on a disk that refuses, when the power goes.

What was promised is looked for with Python's own SQLite.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest

from tests.contracts.sqlite_copy import copy_of
from tests.contracts.sqlite_program import BATCH, FILE, ROUNDS
from tests.faults import Stage, needs_killer
from tests.faults.matrix import record, seed
from tests.faults.power import DISK, cut_power
from tests.faults.refusing import Refusing
from tests.thoroughness import each, kills

PROGRAM = "tests.contracts.sqlite_program"
PARTS = {"queue": "queue (SQLite)", "tasks": "tasks (SQLite)"}
EACH = {"full": (40, 60), "sync": (6, 15)}  # seldom enough that a file can be opened
pytestmark = pytest.mark.crash


@pytest.fixture
def root(memory_folder: Path) -> Path:
    (memory_folder / "root").mkdir()
    return memory_folder / "root"


@pytest.fixture(params=["queue", "tasks"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Sums:
    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.faults = self.promised = self.lost = self.again = self.most_extras = 0

    def look(self, folder: Path, printed: Iterable[str], *, later: Iterable[str] = (), faults: int = 1) -> None:
        """`again`: what was settled, and is to be done once more."""
        words = [line.split(" ") for line in printed]
        added, settling, settled = (
            {name for verb, *names in words if verb == what for name in names}
            for what in ("added", "settling", "settled")
        )
        settling |= {line.split(" ")[1] for line in later if line.startswith("settling")}
        waiting, done = contents(folder / FILE)
        self.faults += faults
        self.promised += len(added) + len(settled)
        self.lost += len(added - waiting - (settling if self.kind == "queue" else done))
        self.again += len(settled & waiting)
        self.most_extras = max(self.most_extras, len((waiting | done) - added))

    def record(self, fault: str, *, control: bool = False) -> None:
        numbers = {"acknowledged": self.promised, "lost": self.lost, "duplicated": self.again}
        record(PARTS[self.kind], fault, injected=self.faults, **numbers, control=control)
        if not control:
            assert (self.lost, self.again) == (0, 0)


def contents(file: Path) -> tuple[set[str], set[str]]:
    """What waits or is in somebody's hands, and what is done: with its result, or it does not count."""
    if not file.exists():
        return set(), set()
    with copy_of(file) as copy, closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        if not connection.execute("SELECT 1 FROM sqlite_schema").fetchall():
            return set(), set()
        waiting = connection.execute("SELECT id FROM message JOIN body USING (seq) WHERE length(body) = 1500")
        done = connection.execute("SELECT id FROM message WHERE state = 4 AND length(result) = 700")
        return {name for (name,) in waiting}, {name for (name,) in done}


@needs_killer
@pytest.mark.parametrize("mode", ["work", "too_early"])
def test_killed_before_a_durable_call_it_has_all_that_it_promised(root: Path, kind: str, mode: str) -> None:
    """But for one that promises before it calls: the negative control."""
    sums = Sums(kind)
    with Stage(PROGRAM, under=root) as stage:
        for at in range(1, 1000, each(7)):
            ended = stage.run(kind, mode, root, at=at)
            if not ended.killed:
                assert ended.code == 0, ended.output
                break
            sums.look(root, ended.output.splitlines())
            for file in root.iterdir():
                file.unlink()
    fault = "kill -9 before a durable call" if mode == "work" else "promised before the call"
    sums.record(fault, control=mode == "too_early")
    assert sums.faults > 5 * ROUNDS // each(7)
    assert sums.most_extras <= BATCH, "more is there than one call that did not return has brought"
    assert (sums.lost > 0) == (mode == "too_early")


@needs_killer
@pytest.mark.parametrize("refusal", ["full", "sync"])
def test_on_a_disk_that_refuses_it_has_all_that_it_promised(
    root: Path, kind: str, refusal: Literal["full", "sync"]
) -> None:
    sums, dice = Sums(kind), random.Random(seed(5))
    for _ in range(kills(2)):
        disk = Refusing(refusal, each=dice.randint(*EACH[refusal]), under=root)
        command = [sys.executable, "-m", PROGRAM, kind, "stubborn", str(root)]
        ended = subprocess.run(command, env=disk.environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        sums.look(root, ended.stdout.splitlines(), faults=disk.refusals())
        shutil.rmtree(root)
        root.mkdir()
    sums.record(disk.fault)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["endless", "relaxed"])
def test_a_power_cut_takes_nothing_that_was_promised(tmp_path: Path, kind: str, mode: str) -> None:
    """But much of what a program promised that does not wait for the disk: the negative control."""
    sums, dice = Sums(kind), random.Random(seed(6))
    for number in range(kills(1) if mode == "endless" else 1):
        left = cut_power(tmp_path / str(number), PROGRAM, kind, mode, DISK, after=dice.randint(40, 150))
        sums.look(left.folder, left.printed, later=left.later)
    sums.record("power cut", control=mode == "relaxed")
    assert (sums.lost > 0) == (mode == "relaxed")
