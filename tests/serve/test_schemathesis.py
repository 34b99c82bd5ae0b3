"""The API answers whatever its description allows, and what it does not, with answers that are described."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.serve.api_requests import run_schemathesis
from tests.serve.server_process import serving

SEED = 28


def test_no_answer_is_a_server_error_or_undescribed(sample_root: Path, tmp_path: Path) -> None:
    with serving(sample_root, tmp_path / "errors", "--no-feed", "--rate", "0", "--processes", "1") as server:
        count, wrong = run_schemathesis(server.address, tmp_path, examples=11, seed=SEED, phases="examples,fuzzing")
    assert not wrong, wrong
    assert count > 250


@pytest.mark.soak
def test_nor_is_one_of_ten_thousand(sample_root: Path, tmp_path: Path) -> None:
    with serving(sample_root, tmp_path / "errors", "--no-feed", "--rate", "0", "--processes", "1") as server:
        count, wrong = run_schemathesis(
            server.address, tmp_path, examples=360, seed=SEED, phases="examples,coverage,fuzzing"
        )
    assert not wrong, wrong
    assert count > 10_000
