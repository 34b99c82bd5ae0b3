"""A backup, and a restore, is killed before each of its durable calls: it is there whole, or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.frontier_checker import Found
from tests.contracts.frontier_program import LIMITS
from tests.contracts.test_frontier import NOW, add, claim, visited
from tests.faults import Stage, needs_killer
from tests.faults.matrix import record
from webmill.crawl.frontier.base import FrontierUpdate, TurnOutcomes
from webmill.crawl.frontier.local import LocalFrontier, restore
from webmill.model import Link

pytestmark = needs_killer


@pytest.fixture
def base() -> Iterator[Path]:
    """In memory: a kill loses nothing that was written, so a disk would only make these tests slow."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="webmill-test-", dir=memory if memory.is_dir() else None))
    yield folder
    shutil.rmtree(folder)


def make(folder: Path) -> set[str]:
    with LocalFrontier(folder, limits=LIMITS) as frontier:
        add(frontier, *(Link(f"https://site{at % 4}.com/{at}") for at in range(40)))
        for turn in claim(frontier, urls=2):
            frontier.commit(
                FrontierUpdate(settled=[TurnOutcomes(turn.token, [visited(turn.items[0].url)], NOW)]), now=NOW
            )
        frontier.commit(FrontierUpdate(visited=[visited(f"https://old.com/{at}") for at in range(5)]), now=NOW)
    return Found(folder).check()


@pytest.mark.crash
@pytest.mark.parametrize("what", ["back_up", "restore"])
def test_killed_on_the_way_it_is_there_whole_or_not_at_all(base: Path, what: str) -> None:
    every = make(base / "frontier")
    with LocalFrontier(base / "frontier", limits=LIMITS) as frontier:
        frontier.back_up(base / "backup")
    source = base / ("frontier" if what == "back_up" else "backup")
    deaths = 0
    with Stage("tests.contracts.frontier_backup_program", under=base / "to") as stage:
        assert stage.warm_up(what, source, base / "warm").code == 0
        for at in range(1, 1000):
            target = base / "to" / str(at)
            ended = stage.run(what, source, target, at=at)
            if not ended.killed:
                break
            deaths += 1
            if target.exists():
                assert whole(base, what, target) == every
    assert ended.code == 0, ended.output
    left = whole(base, what, target)
    fault = "kill -9 before a durable call"
    record("frontier (embedded)", fault, injected=deaths, acknowledged=len(every), lost=len(every - left))
    assert left == every
    assert Found(base / "frontier").check() == every
    assert deaths > 5


def whole(base: Path, what: str, target: Path) -> set[str]:
    folder = target
    if what == "back_up":
        folder = base / "again" / target.name
        restore(target, folder, limits=LIMITS)
    LocalFrontier(folder, limits=LIMITS).close()
    return Found(folder).check()
