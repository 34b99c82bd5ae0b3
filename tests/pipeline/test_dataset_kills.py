"""Runs of datasets killed at random moments, and stopped. Every document is there once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.faults import Stage, needs_killer
from tests.faults.matrix import record, seed
from tests.pipeline.datasets import (
    create,
    drafts,
    lines_of,
    receipts,
    run,
    snapshot,
    views,
    write_files,
)
from tests.thoroughness import kills as kills_of
from webmill.pipeline.dataset.folder import DatasetFolder

FILES, PAGES = 4, 60
PARTS = FILES * PAGES // 3
WRITE: dict[str, object] = {"pages_per_part": 3}


def start(folder: DatasetFolder, *options: str) -> subprocess.Popen[bytes]:
    """In a group of its own: a kill takes the run, and the kernel its workers."""
    command = [sys.executable, "-m", "webmill", "-q", "dataset", "run", str(folder.path), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def kill_at_random(process: subprocess.Popen[bytes], folder: DatasetFolder, dice: random.Random, *, most: int) -> bool:
    """After some more parts, and a moment; or earlier, if the run ends. Whether it was killed."""
    goal = receipts(folder) + dice.randint(0, most)
    while receipts(folder) < goal and process.poll() is None:
        time.sleep(0.002)
    time.sleep(dice.random() * 0.03)
    process.kill()
    process.communicate()
    return process.returncode == -signal.SIGKILL


def disturb(tmp_path: Path, *, kills: int, options: tuple[str, ...], number: int) -> Counter[str]:
    """So many kills, in one dataset after the other; each must end as one that nobody disturbed."""
    lines = write_files(tmp_path / "in", files=FILES, count=PAGES)
    calm = create(tmp_path / "calm", lines, source=tmp_path / "in", write=WRITE)
    run(calm)
    dice, seen = random.Random(number), Counter[str]()
    while seen["kills"] < kills:
        seen["datasets"] += 1
        promised: Iterable[str] = ()
        folder = create(tmp_path / f"storm{seen['datasets']}", lines, source=tmp_path / "in", write=WRITE)
        while seen["kills"] < kills and receipts(folder) < PARTS:
            before = receipts(folder)
            seen["kills"] += kill_at_random(start(folder, *options), folder, dice, most=PARTS // 8)
            seen["in the middle"] += before < receipts(folder) < PARTS
            promised = urls_of(folder).keys()
        last = start(folder, *options)
        _, errors = last.communicate()
        assert last.returncode == 0, errors.decode()
        seen["promised"] += FILES * PAGES
        seen.update(weigh(folder, {*promised, *urls_of(calm)}))
        compare(folder, calm, f"seed {number}, {seen}")
    numbers = {"acknowledged": seen["promised"], "lost": seen["lost"], "duplicated": seen["twice"]}
    record("datasets", "kill -9 at random", injected=seen["kills"], **numbers)
    assert (seen["lost"], seen["twice"]) == (0, 0)
    return seen


def urls_of(folder: DatasetFolder) -> Counter[str]:
    """Of the documents that are there, whole parts only."""
    return Counter(document["url"] for document in lines_of(folder.path / "output"))


def weigh(folder: DatasetFolder, promised: set[str]) -> dict[str, int]:
    found = urls_of(folder)
    return {"lost": len(promised - found.keys()), "twice": sum(times > 1 for times in found.values())}


def compare(folder: DatasetFolder, calm: DatasetFolder, message: str) -> None:
    assert snapshot(folder) == snapshot(calm), message
    assert not drafts(folder)
    urls = urls_of(folder)
    assert len(urls) == FILES * PAGES
    assert set(urls.values()) == {1}
    assert {view.state for view in views(folder)} == {"done"}


INLINE, POOL = ("--executor", "inline"), ("--executor", "pool", "--jobs", "2")


@pytest.mark.crash
@pytest.mark.parametrize("options", [INLINE, POOL], ids=["inline", "pool"])
def test_a_run_killed_at_random_moments_ends_as_one_that_was_not(tmp_path: Path, options: tuple[str, ...]) -> None:
    seen = disturb(tmp_path, kills=4, options=options, number=seed(12))
    assert seen["in the middle"] >= 1


@pytest.mark.soak
@pytest.mark.crash
@pytest.mark.timeout(400 + 30 * kills_of(20))
@pytest.mark.parametrize("options", [INLINE, POOL], ids=["inline", "pool"])
def test_many_kills(tmp_path: Path, options: tuple[str, ...]) -> None:
    kills = kills_of(20)
    seen = disturb(tmp_path, kills=kills, options=options, number=seed(13))
    print(dict(seen))
    assert seen["in the middle"] >= kills // 4


@needs_killer
@pytest.mark.crash
def test_a_task_that_is_called_done_before_it_is_run_is_seen(tmp_path: Path) -> None:
    """The negative control."""
    lines = write_files(tmp_path / "in", files=2, count=12)
    calm = create(tmp_path / "calm", lines, source=tmp_path / "in", write=WRITE)
    run(calm)
    folder = create(tmp_path / "too_early", lines, source=tmp_path / "in", write=WRITE)
    command = ("ack", "-q", "dataset", "run", folder.path, *INLINE)
    with Stage("tests.pipeline.broken_promises", under=folder.path / "output") as stage:
        assert stage.run(*command, at=7).killed
        again = stage.run(*command)
        assert again.code == 0, again.output
    wanted = {*urls_of(calm)}
    lost = weigh(folder, wanted)["lost"]
    record("datasets", "done before it is run", injected=1, acknowledged=len(wanted), lost=lost, control=True)
    assert lost


# --- stopping ---------------------------------------------------------------------------------------------------------

SLOW = """
import time
from pathlib import Path
from webmill.extract.capture import document_of
from webmill.model import Document

def document(page) -> Document:
    while int(page.target_uri.rpartition("-")[2]) > 10 and not Path({gate!r}).exists():
        time.sleep(0.01)
    return document_of(page)
"""


def slow(tmp_path: Path) -> DatasetFolder:
    """No task ends before the file `gate` is there, and each makes three parts until then."""
    lines = write_files(tmp_path / "in", files=2, count=60)
    (tmp_path / "in" / "slow.py").write_text(SLOW.format(gate=str(tmp_path / "gate")))
    return create(tmp_path, lines, source=tmp_path / "in", write=WRITE, document={"function": "slow.py:document"})


def wait_for_parts(folder: DatasetFolder, process: subprocess.Popen[bytes]) -> None:
    while receipts(folder) < 2:
        assert process.poll() is None
        time.sleep(0.01)


@pytest.mark.parametrize("executor", ["inline", "pool"])
def test_a_run_is_stopped_and_goes_on(tmp_path: Path, executor: str) -> None:
    folder = slow(tmp_path)
    process = start(folder, "--executor", executor)
    wait_for_parts(folder, process)
    assert views(folder)[0].state == "running"
    command = [sys.executable, "-m", "webmill", "dataset", "stop", str(folder.path)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors.decode()
    assert b"stopped" in errors
    assert 2 <= receipts(folder) <= 6
    assert views(folder)[0].state == "paused"
    (tmp_path / "gate").touch()
    assert run(folder).documents == 120
    assert len(lines_of(folder.path / "output")) == 120


def test_what_a_killed_run_left_is_paused_wherever_it_is_shown(tmp_path: Path) -> None:
    folder = slow(tmp_path)
    process = start(folder, "--executor", "inline")
    wait_for_parts(folder, process)
    process.kill()
    process.communicate(timeout=60)
    assert views(folder)[0].state == "paused"
    command = [sys.executable, "-m", "webmill", "dataset", "view", str(folder.path)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    assert "2 tasks (1 planned, 0 running, 1 paused, 0 done, 0 failed)" in shown


def test_ctrl_c_ends_with_130_and_the_next_run_goes_on(tmp_path: Path) -> None:
    folder = slow(tmp_path)
    process = start(folder, "--executor", "pool")
    wait_for_parts(folder, process)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"run the same command again" in errors
    assert b"Traceback" not in errors
    assert not folder.is_running()
    (tmp_path / "gate").touch()
    assert run(folder).documents == 120
