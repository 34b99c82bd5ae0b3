"""Publishing and gc as processes: killed before each durable call, stopped, and racing each other."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.faults import Stage, needs_killer
from tests.faults.matrix import record, seed
from tests.faults.pauses import pause
from tests.unit.publish.publications import closure, missing
from tests.unit.publish.publish_program import LIVE, NEW
from webmill.infra.storage.local import LocalStorage
from webmill.publish import gc
from webmill.publish.gc import collect_garbage
from webmill.publish.verify import verify

ROOT = Path(__file__).parent.parent.parent
PROGRAM = "tests.unit.publish.publish_program"


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """In memory: a kill loses nothing that was written, so a disk would only make these tests slow."""
    memory = Path("/dev/shm")
    base = Path(tempfile.mkdtemp(prefix="webmill-test-", dir=memory if memory.is_dir() else None))
    tempfile.gettempdir()  # is asked for once in a process: this one keeps the usual place
    monkeypatch.setenv("TMPDIR", str(base))  # where the killed leave their files
    yield base / "root"
    shutil.rmtree(base)


def hand(*arguments: str | Path, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", PROGRAM, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, **options)  # type: ignore[call-overload,no-any-return]


def check_at_rest(root: Path) -> None:
    """Everything whole, and nothing there that the live version does not need."""
    storage = LocalStorage(root)
    assert verify(storage, read_data=True).findings == ()
    assert closure(storage) == NEW
    storage.sweep()
    version = json.loads(storage.read("latest.json"))["version"]
    assert {stat.key.split("/")[1] for stat in storage.list("snapshots/0")} == {version}
    assert len([*storage.list("blobs/")]) == len(NEW) + 1  # and one shard
    assert [*storage.list("snapshots/_trash/")] == []
    assert [*storage.list("snapshots/_leases/run-")] == []
    assert [*root.rglob(".webmill-tmp*")] == []


@needs_killer
@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.parametrize("command", ["publish", "gc"])
def test_killed_before_some_durable_calls_nothing_is_lost_and_nothing_dangles_c01(root: Path, command: str) -> None:
    assert killed(root, command, step=5) > 10


@needs_killer
@pytest.mark.soak
@pytest.mark.crash
@pytest.mark.parametrize("command", ["publish", "gc"])
def test_killed_before_any_durable_call_nothing_is_lost_and_nothing_dangles_c01(root: Path, command: str) -> None:
    assert killed(root, command, step=1) > 50


def killed(root: Path, command: str, *, step: int) -> int:
    """How often it was killed: before one of the first durable calls, and each `step` calls later, to its end."""
    template, storage = root.with_name("template"), LocalStorage(root)
    work = ("publish", root, "new") if command == "publish" else ("gc", root)
    kills = acknowledged = promised = lost = 0
    with Stage(PROGRAM, under=root) as stage:
        for which in ("old", "live"):
            assert stage.warm_up("publish", root, which).code == 0
        shutil.copytree(root, template, copy_function=os.link)
        for at in range(random.Random(seed(1)).randint(1, step), 2000, step):
            shutil.rmtree(root)
            shutil.copytree(template, root, copy_function=os.link)  # values are replaced, never changed
            ended = stage.run(*work, at=at)
            if not ended.killed:
                break
            kills += 1
            versions = (NEW,) if "published" in ended.output else (LIVE, NEW)
            promised, lost = promised + len(versions[0]), lost + missing(storage, *versions)
            if "published" in ended.output:
                acknowledged += 1
                assert closure(storage) == NEW
            assert closure(storage) in (LIVE, NEW)
            assert verify(storage).findings == ()
            again = [stage.run(*order) for order in (("publish", root, "new"), ("gc", root), ("gc", root))]
            assert [run.code for run in again] == [0, 0, 0], again
            check_at_rest(root)
    component = "blobs and versions" if command == "publish" else "gc"
    record(component, "kill -9 before a durable call", injected=kills, acknowledged=promised, lost=lost)
    assert not lost
    print(f"{command}: {kills} kills, {acknowledged} after the acknowledgement")
    return kills


@needs_killer
@pytest.mark.crash
def test_who_writes_in_place_loses_what_was_published(root: Path) -> None:
    """The negative control."""
    template, storage = root.with_name("template"), LocalStorage(root)
    kills = promised = lost = 0
    with Stage(PROGRAM, under=root) as stage:
        assert stage.warm_up("publish", root, "live").code == 0
        shutil.copytree(root, template)
        while not lost:
            shutil.rmtree(root)
            shutil.copytree(template, root)
            assert stage.run("publish-in-place", root, at=kills + 1).killed
            kills, promised, lost = kills + 1, promised + len(LIVE), lost + missing(storage, LIVE, NEW)
    fault = "written in place, killed before a write"
    record("blobs and versions", fault, injected=kills, acknowledged=promised, lost=lost, control=True)


@pytest.mark.crash
def test_a_stopped_publisher_is_waited_for_whatever_the_clock_says_c04(root: Path) -> None:
    storage = LocalStorage(root)
    assert hand("publish", root, "live").communicate()[0].startswith("put\npublished")
    publisher = hand("wait", root, stdin=subprocess.PIPE)
    assert publisher.stdout
    assert publisher.stdout.readline() == "put\n"
    pause(publisher.pid)
    a_week_later = datetime.now(UTC) + timedelta(days=7)
    jumped = LocalStorage(root, now=lambda: int(a_week_later.timestamp() * 1e9))
    report = collect_garbage(jumped, keep=1, grace=timedelta(0), now=a_week_later)
    publisher.send_signal(signal.SIGCONT)
    assert "published" in publisher.communicate("go\n")[0]
    assert publisher.returncode == 0
    if sys.platform == "linux":
        assert (len(report.waiting_for), report.trashed) == (1, 0)
    record("gc", "publisher paused", injected=1, acknowledged=len(NEW), lost=missing(storage, NEW))
    assert closure(storage) == NEW
    assert verify(storage, read_data=True).findings == ()


@pytest.mark.crash
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only time tells that a process is gone")
def test_what_a_killed_publisher_left_is_collected_at_once(root: Path) -> None:
    storage = LocalStorage(root)
    hand("publish", root, "live").communicate()
    publisher = hand("wait", root, stdin=subprocess.PIPE)
    assert publisher.stdout
    assert publisher.stdout.readline() == "put\n"
    publisher.kill()
    publisher.communicate()
    report = collect_garbage(storage, keep=1, grace=timedelta(0), now=datetime.now(UTC))
    record("gc", "kill -9 at random", injected=1, acknowledged=len(LIVE), lost=missing(storage, LIVE))
    assert (report.waiting_for, report.trashed) == ([], 3)  # all but "1", which is published
    assert closure(storage) == LIVE


@pytest.mark.crash
def test_a_gc_that_overlooks_what_is_reachable_is_seen(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control."""
    storage = LocalStorage(root)
    hand("publish", root, "live").communicate()
    assert missing(storage, LIVE) == 0
    monkeypatch.setattr(gc, "find_reachable", lambda *_, **__: set())
    report = collect_garbage(storage, keep=1, grace=timedelta(0), now=datetime.now(UTC))
    lost, fault = missing(storage, LIVE), "overlooks what is reachable"
    record("gc", fault, injected=report.trashed, acknowledged=len(LIVE), lost=lost, control=True)
    assert lost


@pytest.mark.slow
def test_two_publishers_and_gc_make_one_line_and_the_reader_always_sees_one_whole_version(root: Path) -> None:
    storage = LocalStorage(root)
    hand("publish", root, "live").communicate()
    publishers = [hand("publish-on", root, name, 25) for name in ("x", "y")]
    stop = root.with_name("stop")
    collector = hand("gc-on", root, stop)
    looks, seen = 0, set()
    while any(process.poll() is None for process in publishers):
        seen.add(json.dumps(closure(storage), sort_keys=True))
        looks += 1
    printed = [process.communicate()[0].splitlines() for process in publishers]
    assert [process.returncode for process in publishers] == [0, 0]
    stop.touch()
    collections = collector.communicate()[0].splitlines()
    assert collector.returncode == 0
    waited = sum(line.startswith("collected 0 0 0 ") and line[-1] != "0" for line in collections)
    acknowledged = {
        line.removeprefix("published ") for lines in printed for line in lines if line.startswith("published")
    }
    records = [json.loads(storage.read(stat.key)) for stat in storage.list("snapshots/_history/")]
    published = [record["live"]["version"] for record in records if record["kind"] == "publish"]
    assert len(published) == len(acknowledged) + 1 == 51
    assert acknowledged < set(published)
    assert [record["sequence"] for record in records] == [*range(1, len(records) + 1)]
    assert verify(storage, read_data=True).findings == ()  # which checks that each record names the one before
    print(f"{looks} looks, {len(seen)} versions seen, {len(records) - 51} records of gc, {waited} times it waited")
    assert seen
