"""Orchestrator, workers and aggregators killed: before each durable call, and at random while others go on."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.boards.board_run_program import POISON
from tests.boards.publishing import MemoryBoardReader, boards
from tests.faults import Stage, needs_killer
from tests.faults.matrix import record, seed
from tests.faults.pauses import pause
from tests.unit.publish.publications import closure, missing
from webmill.errors import NotFound
from webmill.infra import atomic
from webmill.infra.storage.local import LocalStorage
from webmill.publish import history
from webmill.publish.gc import collect_garbage
from webmill.publish.publication import utc_now
from webmill.publish.verify import verify

ROOT = Path(__file__).parent.parent.parent
PROGRAM = "tests.boards.board_run_program"
KILLS = int(os.environ.get("WEBMILL_TEST_KILLS", "50"))
DEADLINE = 240.0
COMPONENT = "publish runs"


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """In memory: a kill loses nothing that was written, so a disk would only make these tests slow."""
    memory = Path("/dev/shm")
    base = Path(tempfile.mkdtemp(prefix="webmill-test-", dir=memory if memory.is_dir() else None))
    tempfile.gettempdir()  # is asked for once in a process: this one keeps the usual place
    monkeypatch.setenv("TMPDIR", str(base))  # where the killed leave their files
    (base / "root").mkdir()
    yield base / "root"
    shutil.rmtree(base)


def write_town(root: Path, texts: dict[str, dict[str, str]]) -> dict[str, str]:
    atomic.write_bytes(root / "texts.json", json.dumps(texts).encode())
    return {f"{source}/{row}": text for source, rows in texts.items() for row, text in rows.items()}


def changed(reader: MemoryBoardReader) -> dict[str, dict[str, str]]:
    texts = {source: dict(rows) for source, rows in reader.texts.items()}
    first, second, *_ = texts
    texts[first]["0"] = "edited"
    texts[second]["new"] = "new"
    del texts[second]["1"]
    return texts


def killed_before_each_call(root: Path, *, step: int) -> int:
    reader, store = MemoryBoardReader(boards(3), notices=2), root / "store"
    template = root.with_name("template")
    kills = promised = lost = 0
    with Stage(PROGRAM, under=root) as stage:
        old = write_town(root, reader.texts)
        assert stage.warm_up("whole", root).code == 0
        new = write_town(root, changed(reader))
        shutil.copytree(root, template)
        for at in range(random.Random(seed(1)).randint(1, step), 5000, step):
            shutil.rmtree(root)
            shutil.copytree(template, root)
            ended = stage.run("whole", root, at=at)
            if not ended.killed:
                break
            kills += 1
            storage = LocalStorage(store)
            versions = (new,) if "published" in ended.output else (old, new)
            promised, lost = promised + len(versions[0]), lost + missing(storage, *versions)
            if "published" in ended.output:
                assert closure(storage) == new
            assert closure(storage) in (old, new)
            assert verify(storage, read_data=True).findings == ()
            again = stage.run("whole", root)
            assert again.code == 0, again.output
            assert closure(storage) == new
            assert verify(storage, read_data=True).findings == ()
            collect_garbage(storage, keep=1, grace=timedelta(0), now=utc_now())
            assert closure(storage) == new
            assert [*storage.list("snapshots/_runs/")] == []
            assert [*storage.list("snapshots/_leases/run-")] == []
    record(COMPONENT, "kill -9 before a durable call", injected=kills, acknowledged=promised, lost=lost)
    assert not lost
    return kills


@needs_killer
@pytest.mark.slow
@pytest.mark.crash
def test_killed_before_some_durable_calls_a_run_loses_nothing_c01_c03(root: Path) -> None:
    assert killed_before_each_call(root, step=23) > 5


@needs_killer
@pytest.mark.soak
@pytest.mark.crash
def test_killed_before_any_durable_call_a_run_loses_nothing(root: Path) -> None:
    kills = killed_before_each_call(root, step=1)
    print(f"{kills} kills")
    assert kills > 100


@needs_killer
@pytest.mark.slow
@pytest.mark.crash
def test_killed_while_nothing_has_changed_the_next_run_finds_the_same_version(root: Path) -> None:
    storage, kills = LocalStorage(root / "store"), 0
    with Stage(PROGRAM, under=root) as stage:
        texts = write_town(root, MemoryBoardReader(boards(3), notices=2).texts)
        assert stage.warm_up("calm", root).code == 0
        (only,) = history.list_versions(storage)
        for at in range(random.Random(seed(3)).randint(1, 7), 5000, 7):
            ended = stage.run("calm", root, at=at)
            assert history.list_versions(storage) == [only]
            if not ended.killed:
                break
            kills += 1
            assert closure(storage) == texts
            again = stage.run("calm", root)
            assert (again.code, again.output.split()[-2:]) == (0, ["published", only.version])
    assert kills > 3
    collect_garbage(storage, keep=1, grace=timedelta(0), now=utc_now())
    assert history.list_versions(storage) == [only]
    assert [*storage.list("snapshots/_runs/")] == [*storage.list("snapshots/_leases/run-")] == []
    assert verify(storage, read_data=True).findings == ()


@needs_killer
@pytest.mark.crash
def test_a_blob_that_is_gone_is_seen(root: Path) -> None:
    """The negative control."""
    storage, texts = LocalStorage(root / "store"), write_town(root, MemoryBoardReader(boards(3), notices=2).texts)
    with Stage(PROGRAM, under=root) as stage:
        assert stage.warm_up("whole", root).code == 0
    assert missing(storage, texts) == 0
    next((root / "store" / "blobs").rglob("*.json")).unlink()
    lost = missing(storage, texts)
    record(COMPONENT, "a blob is deleted", injected=1, acknowledged=len(texts), lost=lost, control=True)
    assert lost


class ProgramProcesses:
    """Processes that are killed and started again."""

    def __init__(self, root: Path, *names: str) -> None:
        self.root = root
        self.log = root / "said.txt"
        self.processes = [(name, self.start(name)) for name in names]

    def start(self, name: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", PROGRAM, name, str(self.root)]
            return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.DEVNULL)

    def kill(self, number: int, *, paused: bool) -> None:
        name, process = self.processes[number]
        if paused:
            pause(process.pid)
            self.processes.append((name, self.start(name)))  # somebody else goes on meanwhile
            return
        process.kill()
        process.wait()
        self.processes[number] = name, self.start(name)

    def wake(self) -> None:
        for _, process in self.processes:
            process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        for _, process in self.processes:
            process.kill()
            process.wait()

    def published(self) -> list[str]:
        words = [line.split() for line in self.log.read_text().splitlines()]
        return [word[1] for word in words if word[:1] == ["published"] and len(word) > 1 and word[1] != "None"]


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def read_on(storage: LocalStorage, known: list[dict[str, str]]) -> None:
    """What a reader sees at this moment is one complete version of the truth."""
    try:
        found = closure(storage)
    except NotFound:
        return
    assert found in known or is_mixed(found, known), found


def is_mixed(found: dict[str, str], known: list[dict[str, str]]) -> bool:
    """Boards were read while they changed: each of its own time, but all of some time."""
    return all(any(texts.get(id_) == text for texts in known) for id_, text in found.items())


def kill_at_random(root: Path, *, kills: int, dice: random.Random) -> None:
    reader, storage = MemoryBoardReader(boards(6), notices=2), LocalStorage(root / "store")
    known = [write_town(root, reader.texts)]
    faults, reported = Counter[str](), defaultdict[str, set[str]](set)
    started = ProgramProcesses(root, "run", "work", "work", "aggregate")
    try:
        wait_for(started.published)
        for round_ in range(kills):
            before = len(started.published())
            reader.texts[dice.choice([*reader.texts])]["0"] = f"edited in round {round_}"
            known.append(write_town(root, reader.texts))
            for _ in range(dice.randrange(1, 20)):
                read_on(storage, known)
            one = dice.randrange(4)
            paused = one > 0 and dice.random() < 0.3  # who has the turn and sleeps is waited for
            started.kill(one, paused=paused)
            fault = "publisher paused" if paused else "kill -9 at random"
            faults[fault] += 1
            wait_for(lambda count=before: len(started.published()) > count)
            reported[fault].update(started.published()[before:])
            read_on(storage, known)
        started.wake()
        wait_for(lambda: closure(storage) == known[-1])
    finally:
        started.close()
    names = {version.version for version in history.list_versions(storage)}
    for fault, count in faults.items():
        record(COMPONENT, fault, injected=count, acknowledged=len(reported[fault]), lost=len(reported[fault] - names))
    assert set(started.published()) <= names
    assert verify(storage, read_data=True).findings == ()  # which checks that the history is a line, too
    print(f"{kills} kills, {len(names)} versions")


@pytest.mark.soak
@pytest.mark.crash
@pytest.mark.timeout(1800)
def test_killed_at_random_nothing_is_lost_and_readers_see_whole_versions_c03_c07(root: Path) -> None:
    """The short form is above: fewer kills, at chosen moments."""
    kill_at_random(root, kills=KILLS, dice=random.Random(seed(2)))


@pytest.mark.slow
@pytest.mark.crash
def test_a_board_that_kills_its_workers_is_given_up_and_takes_no_neighbour_with_it(root: Path) -> None:
    reader, storage = MemoryBoardReader(boards(6), notices=1), LocalStorage(root / "store")
    sound = write_town(root, reader.texts)
    started, deaths = ProgramProcesses(root, "run", "work"), 0
    try:
        wait_for(started.published)
        reader.texts["Seoul/d002/notice"]["0"] = POISON
        reader.texts["Seoul/d003/notice"]["0"] = "changed meanwhile"
        expected = {**sound, "Seoul/d003/notice/0": "changed meanwhile"}
        write_town(root, reader.texts)

        def given_up() -> bool:
            nonlocal deaths
            name, process = started.processes[1]
            if process.poll() is not None:
                deaths += 1
                started.processes[1] = name, started.start(name)
            return bool(errors_of(storage)) and closure(storage) == expected

        wait_for(given_up)
    finally:
        started.close()
    errors = errors_of(storage)
    numbers = {"acknowledged": len(expected), "lost": missing(storage, expected), "quarantined": len(errors)}
    record(COMPONENT, "a job that kills its worker", injected=deaths, **numbers)
    assert {one["source"] for one in errors} == {"Seoul/d002/notice"}
    assert "the worker died or hung" in errors[0]["message"]


def errors_of(storage: LocalStorage) -> list[dict[str, str]]:
    version = json.loads(storage.read("latest.json"))["version"]
    return list(json.loads(storage.read(f"snapshots/{version}/aux/errors.json")))
