"""A ZipNum index is replaced by a program that dies before one of its durable calls. Readers find one or the other."""

from __future__ import annotations

import gzip
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.faults import Stage, needs_killer
from tests.faults.matrix import record, seed
from tests.thoroughness import each
from tests.unit.index.samples import write
from tests.unit.index.zipnum_samples import build, make_lines

PROGRAM = "tests.unit.index.zipnum_program"
pytestmark = [needs_killer, pytest.mark.crash]


@pytest.fixture
def root(memory_folder: Path) -> Path:
    return memory_folder


class Sums:
    """What readers were promised over many deaths, and what they found."""

    def __init__(self, *versions: list[bytes]) -> None:
        self.versions = [Counter(lines) for lines in versions]
        self.kills = self.promised = self.lost = self.twice = 0

    def look(self, folder: Path) -> None:
        found = read_plainly(folder)
        promised = min(self.versions, key=lambda lines: (lines - found + (found - lines)).total())
        self.kills += 1
        self.promised += promised.total()
        self.lost += (promised - found).total()
        self.twice += (found - promised).total()

    def record(self, fault: str, *, control: bool = False) -> None:
        numbers = {"acknowledged": self.promised, "lost": self.lost, "duplicated": self.twice}
        record("ZipNum", fault, injected=self.kills, **numbers, control=control)


def read_plainly(folder: Path) -> Counter[bytes]:
    """The blocks that the summary tells of; what of them cannot be read is not there."""
    found: Counter[bytes] = Counter()
    for row in (folder / "cluster.idx").read_bytes().splitlines():
        try:
            key, shard, offset, length, _ = row.split(b"\t")
            data = (folder / shard.decode()).read_bytes()[int(offset) :][: int(length)]
            lines = gzip.decompress(data).splitlines(keepends=True)
        except (OSError, EOFError, ValueError):
            continue
        found.update(lines if lines and lines[0].startswith(key) else [])
    return found


def killed(root: Path, mode: str, *, step: int) -> Sums:
    """A new index over an old one, again and again; each time one more call is made."""
    old, new = make_lines(300, seed=seed(8)), make_lines(300, seed=seed(9))
    lines, sums = write(root / "new.cdxj", new), Sums(old, new)
    build(root / "old", old, shard_size=2000)
    folder = root / "index"
    with Stage(PROGRAM, under=folder) as stage:
        for at in range(1, 1000, step):
            shutil.copytree(root / "old", folder)
            if not stage.run(mode, lines, folder, at=at).killed:
                break
            sums.look(folder)
            assert stage.run("work", lines, folder).code == 0
            assert mode != "work" or read_plainly(folder) == Counter(new)
            assert not list(folder.glob(".webmill-tmp*"))
            shutil.rmtree(folder)
    return sums


def test_killed_before_a_durable_call_a_reader_has_the_old_index_or_the_new(root: Path) -> None:
    sums = killed(root, "work", step=each(3))
    sums.record("kill -9 before a durable call")
    assert (sums.lost, sums.twice) == (0, 0)
    assert sums.kills > 10


def test_an_index_written_in_place_is_noticed(root: Path) -> None:
    sums = killed(root, "faulty", step=1)
    sums.record("written in place", control=True)
    assert sums.lost > 0
