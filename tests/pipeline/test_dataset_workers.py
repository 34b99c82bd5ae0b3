"""Workers of a dataset that die, hang, eat memory, or are two at one task."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.pipeline.datasets import create, plan, pool, run, snapshot, views, write_files
from webmill.infra.executor.base import TaskDone
from webmill.pipeline.extract.worker import run_task

WRITE: dict[str, object] = {"pages_per_part": 3}

ONCE = """
import os, signal
from pathlib import Path
from webmill.extract.capture import document_of
from webmill.model import Document

def document(page) -> Document:
    if page.target_uri.endswith(("1-20", "2-7")):
        mark = Path({marks!r}) / page.target_uri.rpartition("/")[2]
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return document_of(page)
"""


def test_a_killed_worker_is_replaced_and_its_task_goes_on(tmp_path: Path) -> None:
    lines = write_files(tmp_path / "in", files=3, count=30)
    marks = tmp_path / "marks"
    marks.mkdir()
    (tmp_path / "in" / "once.py").write_text(ONCE.format(marks=str(marks)))
    made: dict[str, object] = {"function": "once.py:document"}
    folder, calm = (
        create(tmp_path / name, lines, source=tmp_path / "in", write=WRITE, document=made) for name in ("a", "b")
    )
    report = run(folder, pool())
    assert len(list(marks.iterdir())) == 2  # it happened
    assert (report.documents, report.failures) == (90, [])
    run(calm)
    assert snapshot(folder) == snapshot(calm)


POISON = """
import os, re
from webmill.extract.capture import document_of
from webmill.model import Document

def document(page) -> Document:
    if page.target_uri.endswith("1-20"):
        {deed}
    return document_of(page)
"""


@pytest.mark.parametrize(
    ("deed", "reason"),
    [
        ("os.abort()", "SIGABRT"),
        ('re.match("(a|a)*b", "a" * 64)', "Timeout"),
        ("while True: pass", "Timeout"),
        ("bytearray(1 << 32)", "MemoryError"),
    ],
    ids=["crash", "loop in C", "loop", "memory"],
)
def test_poison_fails_its_task_with_the_reason_and_the_others_finish(tmp_path: Path, deed: str, reason: str) -> None:
    lines = write_files(tmp_path / "in", files=3, count=30)
    (tmp_path / "in" / "poison.py").write_text(POISON.format(deed=deed))
    folder = create(
        tmp_path,
        lines,
        source=tmp_path / "in",
        write=WRITE,
        document={"function": "poison.py:document"},
        compute={"attempts": 2, "timeout": 4.0, "memory": 1024},
    )
    report = run(folder, pool())
    assert [view.state for view in views(folder)] == ["done", "failed", "done"]
    assert report.documents == 60
    (failure,) = report.failures
    assert reason in failure.reason
    failed = views(folder)[1]
    assert reason in failed.reason
    assert 0.5 < failed.progress < 0.9  # it got as far as the last part before the poison
    assert failed.totals.captures == 18


def test_two_workers_at_one_task_make_it_once(tmp_path: Path) -> None:
    """As when a worker was thought dead, and only slept."""
    lines = write_files(tmp_path / "in", files=1, count=30)
    folder, calm = (create(tmp_path / name, lines, source=tmp_path / "in", write=WRITE) for name in ("a", "b"))
    run(calm)
    (task,) = folder.tasks()
    outcomes = list(pool().run(partial(run_task, plan(folder)), [task, task, task]))
    assert all(isinstance(outcome, TaskDone) for outcome in outcomes), outcomes
    assert snapshot(folder) == snapshot(calm)
