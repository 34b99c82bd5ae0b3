"""A dataset on a Ray cluster: the bytes of one process, also when a node dies in the middle of its task."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.pipeline.datasets import create, run, snapshot, views, write_files
from tests.services.ray_cluster import FAULTY, RayCluster
from webmill.infra.executor.ray import RayExecutor

pytestmark = [pytest.mark.server("ray"), FAULTY]
WRITE: dict[str, object] = {"pages_per_part": 3}
# Says on which node (its parent process) it runs, and waits there until it may go on.
WAITING = """
import os, time
from pathlib import Path
from webmill.extract.capture import document_of
from webmill.model import Document

marks = Path({marks!r})

def document(page) -> Document:
    name = page.target_uri.rpartition("/")[2]
    if name.endswith("-20"):
        with (marks / name).open("a") as file:
            file.write(f"{{os.getppid()}} {{os.getpid()}}\\n")
        while not (marks / "go").exists():
            time.sleep(0.02)
    return document_of(page)
"""


def test_a_cluster_makes_the_bytes_of_one_process(ray_executor: RayExecutor, tmp_path: Path) -> None:
    lines = write_files(tmp_path / "in", files=4, count=20)
    one, many = (create(tmp_path / name, lines, source=tmp_path / "in", write=WRITE) for name in ("one", "many"))
    run(one)
    assert run(many, ray_executor).documents == 80
    assert snapshot(one) == snapshot(many)


def test_a_node_that_dies_in_the_middle_is_replaced_and_its_task_goes_on(
    cluster: RayCluster, ray_executor: RayExecutor, tmp_path: Path
) -> None:
    """The last test: it kills one of the two nodes."""
    lines = write_files(tmp_path / "in", files=2, count=30)
    marks = tmp_path / "marks"
    marks.mkdir()
    (tmp_path / "in" / "waiting.py").write_text(WAITING.format(marks=str(marks)))
    made: dict[str, object] = {"function": "waiting.py:document"}
    folder, calm = (
        create(tmp_path / name, lines, source=tmp_path / "in", write=WRITE, document=made) for name in ("a", "b")
    )
    killed: list[int] = []

    def kill_node_when_both_run() -> None:
        deadline = time.monotonic() + 100
        while sum(mark.read_text().endswith("\n") for mark in marks.iterdir()) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        for node, worker in (mark.read_text().split() for mark in marks.iterdir()):
            if int(node) == cluster.second_node:
                killed.extend((int(node), int(worker)))
        for process in killed:
            os.kill(process, signal.SIGKILL)
        (marks / "go").touch()

    killer = threading.Thread(target=kill_node_when_both_run, daemon=True)
    killer.start()
    report = run(folder, ray_executor)
    killer.join()
    assert len(killed) == 2
    assert (report.documents, report.failures) == (60, [])
    assert sorted(len(mark.read_text().splitlines()) for mark in marks.glob("*-20")) == [1, 2]
    assert {view.state for view in views(folder)} == {"done"}
    run(calm)
    assert snapshot(folder) == snapshot(calm)
