"""The clock of a dataset's ledger: whatever a killed run held is due at once in the next, whatever the clock says."""

from __future__ import annotations

from pathlib import Path

import pytest

from webmill.infra.ledger import Claim, Task
from webmill.pipeline.dataset.ledger import RunLedger, looking

TASKS = [Task(f"t{number}", b"") for number in range(4)]


def claims(path: Path, *, settled: int, now: float) -> list[str]:
    """Of one run that is killed after it has settled so many."""
    book = RunLedger(path, clock=lambda: now)
    book.ledger.plan(TASKS)
    held: list[Claim] = []
    for claim in book.round("w"):
        held.append(claim)
        if len(held) <= settled:
            book.ledger.done(claim)
    book.close()
    return [claim.task_id for claim in held]


@pytest.mark.parametrize("step", [0.0, 1e-9, 0.0005, 3600.0, -3600.0], ids=str)
def test_the_next_run_claims_what_a_killed_one_held(tmp_path: Path, step: float) -> None:
    path, now = tmp_path / "ledger.sqlite", 1_800_000_000.0
    assert claims(path, settled=1, now=now) == ["t0", "t1", "t2", "t3"]
    assert claims(path, settled=1, now=now + step) == ["t1", "t2", "t3"]
    assert claims(path, settled=2, now=now + 2 * step) == ["t2", "t3"]


@pytest.mark.parametrize("step", [0.0, 3600.0, -3600.0], ids=str)
def test_a_task_that_may_work_later_has_its_turn_in_the_next_round_and_not_in_this(tmp_path: Path, step: float) -> None:
    now = 1_800_000_000.0
    book = RunLedger(tmp_path / "ledger.sqlite", clock=lambda: now)
    book.ledger.plan(TASKS)
    for _ in range(3):
        turn = []
        for claim in book.round("w"):
            turn.append(claim.task_id)
            book.failed(claim, "later", again=True)
        assert turn == ["t0", "t1", "t2", "t3"]
        now += step
    book.close()
    again = RunLedger(tmp_path / "ledger.sqlite", clock=lambda: now)
    assert len(list(again.round("w"))) == 4
    again.close()


def test_looking_takes_nothing_from_a_run(tmp_path: Path) -> None:
    book = RunLedger(tmp_path / "ledger.sqlite")
    book.ledger.plan(TASKS)
    for claim in book.round("w"):
        with looking(tmp_path / "ledger.sqlite") as ledger:
            assert ledger.counts().running == 1
            assert [entry.state for entry in ledger.entries("running")] == ["running"]
        book.ledger.done(claim)
    assert book.unsettled() == 0
    book.close()
