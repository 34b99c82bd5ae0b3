"""The table of the crash tests: sums, and which component nobody has proven."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.faults.matrix import BIT_ROT, FILE, read_totals, record, table, without_control


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FILE, str(tmp_path / "matrix.jsonl"))
    return tmp_path / "matrix.jsonl"


def test_rows_of_one_fault_are_added_up_and_controls_stand_apart(file: Path) -> None:
    for acknowledged in (10, 1000):
        record("queue", "kill -9 at random", injected=2, acknowledged=acknowledged, quarantined=1)
    record("queue", "acked too early", injected=1, acknowledged=5, lost=3, control=True)
    rows, controls = table(file.read_text().splitlines(), when=datetime.now(UTC), about="a test").split("## Controls")
    assert "**4 faults, 1,010 acknowledged, 0 lost.**" in rows
    assert "| queue | kill -9 at random | 2 | 4 | 1,010 | 0 | 0 | 2 |" in rows
    assert "| queue | acked too early | 1 | 1 | 5 | 3 | 0 | 0 |" in controls
    assert "early" not in rows


def test_a_fault_that_did_not_happen_is_no_row(file: Path) -> None:
    with pytest.raises(AssertionError, match="did not happen"):
        record("queue", "kill -9 at random", injected=0, acknowledged=10)
    assert not file.exists()


def test_a_component_needs_a_control_that_saw_a_loss(file: Path) -> None:
    record("queue", "kill -9 at random", injected=1, acknowledged=1)
    record("tasks (SQLite)", "kill -9 at random", injected=1, acknowledged=1)
    record("index", "kill -9 at random", injected=1, acknowledged=1)
    record("queue", "acked too early", injected=1, acknowledged=1, lost=1, control=True)
    record("tasks (SQLite)", "blind", injected=1, acknowledged=1, lost=0, control=True)
    record("another", "deleted", injected=1, acknowledged=1, lost=1, control=True)
    assert without_control(file.read_text().splitlines()) == {"tasks (SQLite)", "index"}


def test_the_page_says_how_many_files_were_changed_behind_the_programs_back(file: Path) -> None:
    record("queue", "kill -9 at random", injected=3, acknowledged=9)
    without = table(file.read_text().splitlines(), when=datetime.now(UTC), about="a test")
    record(BIT_ROT, "a bit flipped", injected=2000, acknowledged=2000)
    record(BIT_ROT, "cut short", injected=400, acknowledged=400)
    page = table(file.read_text().splitlines(), when=datetime.now(UTC), about="a test")
    assert "2,400 of the faults were files" in page
    assert "files of a whole collection" not in without
    assert read_totals(page) == "2,403 faults, 2,409 acknowledged, 0 lost"


def test_readme_and_page_count_the_same() -> None:
    root = Path(__file__).parents[2]
    totals = read_totals((root / "docs" / "reference" / "crash-matrix.md").read_text())
    assert f"-->{totals}<!--" in (root / "README.md").read_text()
