"""`webmill index` is killed before each of its durable calls, and at random moments; then it is run again.

At every death readers find the old index or the new one, whole. After the second run everything is as if nothing had
happened, byte for byte, and nothing is left behind.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest

from tests.faults import Stage, killer, needs_killer
from tests.faults.matrix import record, seed
from tests.faults.refusing import Refusing
from tests.pipeline.index_samples import (
    NAME,
    index_from_scratch,
    leftovers,
    lines_of,
    published,
    put,
    rejects,
    tables,
    warc,
)
from tests.thoroughness import each
from tests.thoroughness import kills as kills_of
from webmill.index.cdxj.excessive import ExcessPolicy
from webmill.pipeline.index import IndexingOptions

OPTIONS = ("--shards", "2", "--lines", "5", "--max-captures", "3", "--keep", "1", "--name", NAME)
SAME = IndexingOptions(shards=2, lines=5, max_captures=3, keep=ExcessPolicy(count=1))
SEED = seed(7)
DURABLE, RANDOM = "kill -9 before a durable call", "kill -9 at random"
pytestmark = [needs_killer, pytest.mark.crash]


@pytest.fixture
def root(memory_folder: Path) -> Path:
    return memory_folder / "collection"


class Scene:
    """A collection of five archives at rest, and a sixth that comes and goes: each run has something to do."""

    def __init__(self, root: Path) -> None:
        self.root, self.elsewhere = root, root.parent / "elsewhere"
        for number in range(4):
            put(
                root, f"crawl-data/{NAME}/segments/{number}/warc/x.warc.gz", warc(*range(number * 30, number * 30 + 40))
            )
        put(root, "torn.warc.gz", warc(1, 2, 3)[:-50])
        self.present, self.absent = root / "sixth.warc.gz", root / "sixth"
        self.absent.write_bytes(warc(*range(0, 200, 9)))
        self.expected = {False: index_from_scratch(root, self.elsewhere, SAME)}
        self.lines = {False: lines_of(self.elsewhere)}
        self.turn()
        self.expected[True] = index_from_scratch(root, self.elsewhere, SAME)
        self.lines[True] = lines_of(self.elsewhere)
        self.turn()
        self.acknowledged = self.lost = self.twice = 0
        time.sleep(2.1)  # the one thing that makes files rest is time

    @property
    def is_six(self) -> bool:
        return self.present.exists()

    def turn(self) -> None:
        if self.is_six:
            self.present.rename(self.absent)
        else:
            self.absent.rename(self.present)

    def count(self) -> None:
        """The lines that readers are promised, by the old index or the new one, and how many of them they find."""
        try:
            found = Counter(lines_of(self.root))
        except (AssertionError, FileNotFoundError, EOFError, ValueError, IndexError):
            found = Counter()
        promised = min(map(Counter, self.lines.values()), key=lambda lines: (lines - found + (found - lines)).total())
        self.acknowledged += promised.total()
        self.lost += (promised - found).total()
        self.twice += (found - promised).total()

    def record(self, fault: str, *, kills: int, control: bool = False) -> None:
        numbers = {"acknowledged": self.acknowledged, "lost": self.lost, "duplicated": self.twice}
        record("index", fault, injected=kills, **numbers, quarantined=len(rejects(self.root)), control=control)
        if not control:
            assert (self.lost, self.twice) == (0, 0)

    def check_readers(self) -> None:
        """The old index or the new one, of both kinds."""
        self.count()
        assert lines_of(self.root) in self.lines.values()
        found = {str(file.relative_to(self.root)): file.read_bytes() for file in tables(self.root).iterdir()}
        wholes = [{key: data for key, data in set_.items() if "/table/" in key} for set_ in self.expected.values()]
        assert found in wholes

    def check_end(self) -> None:
        self.count()
        assert published(self.root) == self.expected[self.is_six]
        assert leftovers(self.root) == []
        assert len(list(self.root.glob("cdxj/*.cdxj"))) == 5 + self.is_six


def kind_of(call: str) -> str:
    """The call and what it was about, without what differs from run to run."""
    name, _, path = call.partition(" ")
    path = re.sub(r"tmp-\d+-\w+|sort-\w+", "tmp", path)
    return f"{name} {re.sub(r'[0-9a-f]{8,}', '#', path)}"


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """One process: every call is counted."""
    monkeypatch.setenv("WEBMILL_EXECUTOR_URL", "inline")


@contextmanager
def stage_of(scene: Scene) -> Iterator[Stage]:
    with Stage("webmill.cli.main", under=scene.root) as stage:
        ended = stage.warm_up("index", scene.root, *OPTIONS)
        assert ended.code == 3, ended.output  # an archive is torn
        scene.check_end()
        yield stage


def index_killed(scene: Scene, stage: Stage, *, at: int, back: bool = False) -> str | None:
    """Killed before its call number `at`, looked at, and run again; before what it died, None if it did not.

    With `back` the archives are meanwhile as they were before: the second run must not believe that nothing is to do.
    """
    ended = stage.run("index", scene.root, *OPTIONS, at=at)
    if not ended.killed:
        assert ended.code == 3, ended.output
        scene.check_end()
        return None
    scene.check_readers()
    if back:
        scene.turn()
    again = stage.run("index", scene.root, *OPTIONS)
    assert again.code == 3, again.output
    scene.check_end()
    return kind_of(ended.calls[-1])


STAGES = {
    "CDXJ": r"cdxj/(#-|\.webmill)",
    "state": r"state\.sqlite",
    "shards": r"indexes/(\.webmill|cdx-)",
    "tables": r"\.parquet",
    "summary": r"cluster\.",
    "folder of tables": r"(new|old)-subset=warc$",
    "lists": r"paths\.gz|TEST-2024/\.webmill",
}


def prove_stages(deaths: Counter[str]) -> None:
    print(f"{deaths.total()} kills before {len(deaths)} different calls")
    reported = "\n".join(deaths)
    for name, pattern in STAGES.items():
        assert re.search(pattern, reported, re.MULTILINE), f"none died at the {name}:\n{reported}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "back",
    [
        pytest.param(False, marks=pytest.mark.soak, id="and run again"),  # as the next test does with each kind of run
        pytest.param(True, id="and run again on what was before"),
    ],
)
def test_killed_before_one_durable_call_after_the_other_it_ends_as_if_undisturbed(
    root: Path, inline: None, back: bool
) -> None:
    scene = Scene(root)
    deaths: Counter[str] = Counter()
    with stage_of(scene) as stage:
        for at in range(1 + back, 1000, each(3)):
            scene.turn()
            if (death := index_killed(scene, stage, at=at, back=back)) is None:
                break
            deaths[death] += 1
    scene.record(DURABLE, kills=deaths.total())
    assert deaths.total() > 80 // each(3)
    prove_stages(deaths)


@pytest.mark.slow
def test_killed_before_durable_calls_of_every_kind_of_run_it_ends_as_if_undisturbed(root: Path, inline: None) -> None:
    """An archive more, an archive less, and nothing made yet."""
    scene = Scene(root)
    deaths: Counter[str] = Counter()
    with stage_of(scene) as stage:
        for start, kind in enumerate(("more", "less", "first"), start=1):
            for at in range(start, 1000, each(3)):
                if kind == "first":
                    forget_everything(root)
                elif scene.is_six == (kind == "more"):
                    scene.turn()
                    assert stage.run("index", root, *OPTIONS).code == 3
                if kind != "first":
                    scene.turn()
                ended = stage.run("index", root, *OPTIONS, at=at)
                if not ended.killed:
                    break
                deaths[kind_of(ended.calls[-1])] += 1
                if kind != "first":
                    scene.check_readers()
                assert stage.run("index", root, *OPTIONS).code == 3
                scene.check_end()
    scene.record(DURABLE, kills=deaths.total())
    assert deaths.total() > 250 // each(3)
    prove_stages(deaths)


def forget_everything(root: Path) -> None:
    for name in ("cdxj", "cc-index", "rejected"):
        shutil.rmtree(root / name)
    for file in (root / "crawl-data" / NAME).glob("*.paths.gz"):
        file.unlink()


def test_killed_again_and_again_it_gets_there(root: Path, inline: None) -> None:
    """No run is ever let through: each gets further, since what is done is not done again."""
    scene = Scene(root)
    with stage_of(scene) as stage:
        forget_everything(root)
        lives = 1
        while stage.run("index", root, *OPTIONS, at=75).killed:
            lives += 1
            assert lives < 20
        scene.check_end()
    scene.record(DURABLE, kills=lives - 1)
    assert lives > 1


@pytest.mark.slow
@pytest.mark.timeout(300 + 60 * kills_of(2))
def test_killed_at_random_moments_with_its_children_it_ends_as_if_undisturbed(root: Path) -> None:
    scene, dice = Scene(root), random.Random(SEED)
    command = [sys.executable, "-m", "webmill", "--quiet", "index", str(root), *OPTIONS, "--jobs", "2"]
    started = time.monotonic()
    assert subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 3
    longest = time.monotonic() - started
    kills, lives = 0, 0
    while kills < kills_of(2):
        lives += 1
        assert lives < 20 * kills_of(2)
        scene.turn()
        victim = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
        try:
            victim.wait(dice.uniform(0.3, 1.0) * longest)
            longest *= 0.8  # it was faster than we: strike sooner
        except subprocess.TimeoutExpired:
            os.killpg(victim.pid, signal.SIGKILL)
        kills += victim.wait() == -signal.SIGKILL
        scene.check_readers()
        assert subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 3
        scene.check_end()
    scene.record(RANDOM, kills=kills)


@pytest.mark.soak
@pytest.mark.timeout(300 + 60 * kills_of(2))
@pytest.mark.parametrize("kind", ["sync", "full"])
def test_a_disk_that_refuses_a_sync_or_a_write_leaves_the_old_index_or_the_new(
    root: Path, kind: Literal["sync", "full"], inline: None
) -> None:
    """And names what it could not do. The same command again, on a disk that takes everything, repairs all."""
    scene, dice, refused, failures = Scene(root), random.Random(SEED), 0, 0
    command = [sys.executable, "-m", "webmill", "index", str(root), *OPTIONS]
    assert subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 3
    for _ in range(kills_of(2)):
        scene.turn()
        disk = Refusing(kind, each=dice.randint(2, 40), under=root)
        ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, env=disk.environment)
        refused += disk.refusals()
        failures += ended.returncode == 1
        assert "Traceback" not in ended.stderr
        scene.check_readers()
        assert subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 3
        scene.check_end()
    scene.record(disk.fault, kills=refused)
    assert failures > 0


def test_a_worker_that_is_killed_costs_nothing(root: Path) -> None:
    """Every worker dies with its second archive, which is then another one's first."""
    scene = Scene(root)
    log = root.parent / "log"
    environment = {"KILLER_AT": "4", "KILLER_UNDER": f"{root}/cdxj/.webmill-tmp", "KILLER_LOG": str(log)}
    command = [sys.executable, "-m", "webmill", "index", str(root), *OPTIONS, "--jobs", "2"]
    printed = ""
    for _ in range(5):  # whoever sweeps up after four of them dies too, and is started again
        ended = subprocess.run(
            command,
            env={**os.environ, "LD_PRELOAD": str(killer()), **environment},
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        printed += ended.stderr
        if ended.returncode != -signal.SIGKILL:
            break
    assert ended.returncode == 3, printed
    assert "a worker died" in printed
    scene.check_end()
    scene.record(DURABLE, kills=printed.count("a worker died"))


def test_a_writer_without_discipline_is_noticed(root: Path, inline: None) -> None:
    """The negative control: were an index written in place, the checks above would fail."""
    scene = Scene(root)
    noticed = kills = 0
    with stage_of(scene) as stage, Stage("tests.pipeline.faulty_index", under=root) as faulty:
        for at in range(1, 12):
            ended = faulty.run(scene.elsewhere, root, at=at)
            kills += ended.killed
            try:
                scene.check_readers()
            except (AssertionError, FileNotFoundError, EOFError, ValueError, IndexError):
                noticed += 1
            assert stage.run("index", root, *OPTIONS).code == 3  # which also repairs it
            scene.check_end()
    print(f"{noticed} of {kills} noticed")
    scene.record("written in place", kills=kills, control=True)
    assert scene.lost > 0
    assert noticed >= 5
