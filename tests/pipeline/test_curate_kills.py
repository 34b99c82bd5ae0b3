"""`webmill curate` killed in the middle, on a full disk, and on a cluster that loses a node: the same bytes."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.faults import needs_killer
from tests.faults.matrix import seed
from tests.faults.refusing import Refusing
from tests.pipeline.corpora import STEPS, corpus_bytes, curate, files_of, made_documents, write_documents
from tests.services.ray_cluster import FAULTY, RayCluster
from webmill.infra.executor.ray import RayExecutor

KILLS = int(os.environ.get("WEBMILL_TEST_KILLS", "2"))
RECIPE = """
[[step]]
use = "length"
min_chars = 30
[[step]]
use = "lines"
min_words = 2
terminal_punctuation = false
[[step]]
use = "gopher-repetition"
[[step]]
use = "minhash"
[[step]]
use = "repeated-lines"
max_documents = 2
"""


@pytest.fixture
def calm(tmp_path: Path) -> Path:
    """A collection that was curated and exported without faults."""
    root = tmp_path / "calm" / "news"
    write_documents(root, made_documents(120), files=12)
    (root / "recipe.toml").write_text(RECIPE)
    for command in commands(root, root.parent / "out"):
        subprocess.run(command, check=True, capture_output=True)
    return root


def commands(root: Path, out: Path) -> list[list[str]]:
    program = [sys.executable, "-m", "webmill", "-q", "curate"]
    recipe = ["--recipe", str(root / "recipe.toml"), "--executor", "inline"]
    return [
        [*program, "run", str(root), *recipe],
        [*program, "export", str(root), "--hf", str(out), "--name", "news", "--shard-size", "64K"],
    ]


def copied(calm: Path, folder: Path) -> Path:
    root = folder / "news"
    shutil.copytree(calm, root, ignore=shutil.ignore_patterns("corpus"))
    return root


def written(folder: Path) -> int:
    return sum(1 for path in folder.rglob("*") if path.is_file())


def kill_after(command: list[str], folder: Path, files: int) -> bool:
    """Run a command and kill it when there are so many more files; return whether that was before its end."""
    before = written(folder)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and written(folder) - before < files:
        time.sleep(0.002)
    process.kill()
    return process.wait() == -signal.SIGKILL


@pytest.mark.slow
def test_killed_again_and_again_the_corpus_and_the_data_set_have_the_same_bytes(calm: Path, tmp_path: Path) -> None:
    dice = random.Random(seed(4))
    root, out = copied(calm, tmp_path / "killed"), tmp_path / "killed" / "out"
    killed = 0
    for number in range(KILLS):
        command = commands(root, out)[number % 3 == 2]
        if number % 3 == 2 and not (root / "corpus" / "decisions").exists():
            command = commands(root, out)[0]
        killed += kill_after(command, tmp_path / "killed", dice.randint(1, 12))
    for command in commands(root, out):
        subprocess.run(command, check=True, capture_output=True)
    assert killed > 0
    assert corpus_bytes(root) == corpus_bytes(calm)
    assert files_of(out) == files_of(calm.parent / "out")


@needs_killer
@pytest.mark.slow
def test_a_full_disk_is_told_and_nothing_is_half_there(calm: Path, tmp_path: Path) -> None:
    root, out = copied(calm, tmp_path / "full"), tmp_path / "full" / "out"
    disk = Refusing("full", each=9, under=root)
    ended = subprocess.run(commands(root, out)[0], capture_output=True, text=True, check=False, env=disk.environment)
    assert disk.refusals() > 0
    assert ended.returncode == 1
    assert "No space left on device" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (root / "corpus" / "decisions").exists()
    subprocess.run(commands(root, out)[0], check=True, capture_output=True)
    assert corpus_bytes(root) == corpus_bytes(calm)


# --- Ray ---

WAITING = """
import os, time
from pathlib import Path

marks = Path({marks!r})

def keep(batch):
    (marks / f"{{os.getppid()}}-{{os.getpid()}}").touch()
    while not (marks / "go").exists():
        time.sleep(0.02)
    return [True] * batch.num_rows
"""


@pytest.mark.server("ray")
@FAULTY
def test_a_cluster_that_loses_a_node_gives_the_same_bytes(
    cluster: RayCluster, ray_executor: RayExecutor, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    (tmp_path / "waiting.py").write_text(WAITING.format(marks=str(marks)))
    steps = [{"use": "function", "function": f"{tmp_path / 'waiting.py'}:keep"}, *STEPS]
    for name in ("calm", "cluster"):
        write_documents(tmp_path / name, made_documents(80), files=4)
    killed: list[int] = []

    def kill_a_node_when_both_work() -> None:
        while len(working := [path.name.split("-") for path in marks.glob("*-*")]) < 2:
            time.sleep(0.02)
        killed.extend(int(worker) for node, worker in working if int(node) == cluster.second_node)
        for process in (cluster.second_node, *killed):
            os.kill(process, signal.SIGKILL)
        (marks / "go").touch()

    killer = threading.Thread(target=kill_a_node_when_both_work, daemon=True)
    killer.start()
    curate(tmp_path / "cluster", steps, ray_executor)
    killer.join()
    assert killed
    curate(tmp_path / "calm", steps)
    assert corpus_bytes(tmp_path / "cluster") == corpus_bytes(tmp_path / "calm")
