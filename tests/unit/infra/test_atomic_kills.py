"""Durable writes: killed before each call, on a disk that refuses, when the power goes. Names hold old or new bytes."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import pytest
from tests.faults import Stage, needs_killer
from tests.faults.matrix import record, seed
from tests.faults.power import DISK, cut_power
from tests.faults.refusing import Refusing
from tests.thoroughness import each, kills
from tests.unit.infra.durable_program import TURNS, body

from webmill.infra.atomic import remove_stale_temps

PROGRAM = "tests.unit.infra.durable_program"
pytestmark = pytest.mark.crash


@pytest.fixture
def root(memory_folder: Path) -> Path:
    (memory_folder / "root").mkdir()
    return memory_folder / "root"


class Sums:
    def __init__(self) -> None:
        self.faults = self.promised = self.lost = self.torn = 0

    def look(self, root: Path, printed: Iterable[str], *, faults: int = 1) -> None:
        """A name holds what was promised last, or something later, whole; a name of which nothing was said may be."""
        promised = {name: int(turn) for name, turn in (line.split(" ") for line in printed)}
        found = {str(path.relative_to(root)): whole(path) for path in root.rglob("[!.]*") if path.is_file()}
        self.faults += faults
        self.promised += len(promised)
        self.lost += sum(found.get(name, 0) < turn for name, turn in promised.items())
        self.torn += sum(turn == 0 for turn in found.values())

    def record(self, fault: str, *, control: bool = False) -> None:
        numbers = {"acknowledged": self.promised, "lost": self.lost}
        record("durable files", fault, injected=self.faults, **numbers, control=control)
        if not control:
            assert (self.lost, self.torn) == (0, 0)


def whole(path: Path) -> int:
    """Of which turn its bytes are; 0 when they are of none, or of several."""
    data = path.read_bytes()
    turn = int(data[:8]) if data[:8].isdigit() else 0
    return turn if data == body(turn) else 0


@needs_killer
@pytest.mark.parametrize("mode", ["work", "in-place"])
def test_killed_before_a_durable_call_every_name_holds_whole_bytes(root: Path, mode: str) -> None:
    """But for names that are written in place: the negative control."""
    sums = Sums()
    with Stage(PROGRAM, under=root) as stage:
        for at in range(1, 1000, each(3)):
            ended = stage.run(mode, root, at=at)
            if not ended.killed:
                break
            sums.look(root, ended.output.splitlines())
            if mode == "work":
                remove_stale_temps(root)
                assert not list(root.glob(".webmill-tmp-*"))
            shutil.rmtree(root)
            root.mkdir()
    assert ended.code == 0, ended.output
    control = mode == "in-place"
    sums.record("written in place" if control else "kill -9 before a durable call", control=control)
    assert (sums.lost > 0) == control
    assert sums.faults >= TURNS // each(3)


@needs_killer
@pytest.mark.parametrize("refusal", ["full", "sync"])
def test_on_a_disk_that_refuses_every_name_holds_whole_bytes(root: Path, refusal: Literal["full", "sync"]) -> None:
    sums, dice = Sums(), random.Random(seed(21))
    for _ in range(kills(1)):
        disk = Refusing(refusal, each=dice.randint(2, 9), under=root)
        command = [sys.executable, "-m", PROGRAM, "stubborn", str(root)]
        ended = subprocess.run(command, env=disk.environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        sums.look(root, ended.stdout.splitlines(), faults=disk.refusals())
        assert not list(root.rglob(".webmill-tmp-*"))
        shutil.rmtree(root)
        root.mkdir()
    sums.record(disk.fault)
    assert sums.promised > 0


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["endless", "unsynced"])
def test_a_power_cut_leaves_whole_bytes_in_every_name(tmp_path: Path, mode: str) -> None:
    """But for what was not synced: the negative control."""
    sums, dice, control = Sums(), random.Random(seed(22)), mode == "unsynced"
    for number in range(1 if control else kills(1)):
        left = cut_power(tmp_path / str(number), PROGRAM, mode, DISK, after=dice.randint(30, 120))
        sums.look(left.folder, left.printed)
    sums.record("power cut", control=control)
    assert (sums.lost > 0) == control
