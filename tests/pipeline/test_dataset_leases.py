"""A task whose lease is over while it is worked, as on a machine that slept: it is done when the work is, and once."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.pipeline.datasets import create, pool, run, snapshot, views, write_files
from webmill.pipeline.dataset.folder import DatasetFolder

WRITE: dict[str, object] = {"pages_per_part": 3}
# Ends the lease of its own task, waits until it is handed out again, and notes in which state it is then.
SLEPT = """
import sqlite3, time
from pathlib import Path
from webmill.extract.capture import document_of
from webmill.model import Document

def document(page) -> Document:
    note = Path({note!r})
    if page.target_uri.endswith("0-20") and not note.exists():
        tasks = sqlite3.connect({tasks!r}, timeout=60, isolation_level=None)
        tasks.execute("UPDATE message SET due = 0 WHERE state = 1")
        while tasks.execute("SELECT attempts FROM message").fetchone() != (2,):
            time.sleep(0.01)
        time.sleep(0.3)  # for whoever would settle it
        note.write_text(str(tasks.execute("SELECT state FROM message").fetchone()[0]))
        tasks.close()
        {then}
    return document_of(page)
"""
LEASED = "1"


def slept(tmp_path: Path, *, then: str = "") -> tuple[DatasetFolder, Path]:
    lines, note = write_files(tmp_path / "in", files=1, count=30), tmp_path / "note"
    tasks = str(tmp_path / "slept" / "test" / "tasks.sqlite")
    (tmp_path / "in" / "slept.py").write_text(SLEPT.format(note=str(note), tasks=tasks, then=then))
    made: dict[str, object] = {"function": "slept.py:document"}
    return create(tmp_path / "slept", lines, source=tmp_path / "in", document=made, write=WRITE), note


def test_a_task_that_is_handed_out_again_while_it_is_worked_is_done_when_the_work_is(tmp_path: Path) -> None:
    folder, note = slept(tmp_path)
    report = run(folder, pool())
    assert note.read_text() == LEASED
    assert (report.tasks, report.documents, report.failures) == (1, 30, [])
    (view,) = views(folder)
    assert (view.state, view.totals.documents) == ("done", 30)
    made: dict[str, object] = {"function": "slept.py:document"}
    calm = create(
        tmp_path / "calm",
        [*folder.path.joinpath("manifest.txt").read_text().split()],
        source=tmp_path / "in",
        document=made,
        write=WRITE,
    )
    run(calm)
    assert snapshot(folder) == snapshot(calm)


def test_and_it_is_not_lost_when_the_work_fails(tmp_path: Path) -> None:
    folder, note = slept(tmp_path, then="import os; os.abort()")
    report = run(folder, pool())
    assert note.read_text() == LEASED
    assert (report.documents, report.given_back, report.failures) == (30, 1, [])
    with closing(sqlite3.connect(folder.queue)) as tasks:
        assert tasks.execute("SELECT state, attempts FROM message").fetchall() == [(4, 3)]
