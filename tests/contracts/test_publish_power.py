"""The power is cut while versions are published: those that were acknowledged are there, and whole (C01)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.faults.matrix import record, seed
from tests.faults.power import DISK, cut_power
from tests.unit.publish.publications import closure
from webmill.errors import WebmillError
from webmill.infra.storage.local import LocalStorage
from webmill.publish import history
from webmill.publish.verify import verify

pytestmark = [pytest.mark.slow, pytest.mark.crash]


@pytest.mark.parametrize("mode", ["work", "faulty"])
def test_a_power_cut_takes_no_version_that_was_acknowledged(tmp_path: Path, mode: str) -> None:
    """But those of a publisher that does not wait for the disk: the negative control."""
    after = random.Random(seed(7)).randint(9, 20)  # a version is two lines
    left = cut_power(tmp_path / "cut", "tests.contracts.publish_power", mode, DISK, after=after)
    reported = {line.removeprefix("published ") for line in left.printed if line.startswith("published ")}
    storage = LocalStorage(left.folder)
    lost = len(reported - versions(storage))
    record(
        "blobs and versions", "power cut", injected=1, acknowledged=len(reported), lost=lost, control=mode == "faulty"
    )
    assert reported
    assert (lost > 0) == (mode == "faulty")
    if mode == "work":
        assert closure(storage)["a"] == "1"
        assert verify(storage, read_data=True).findings == ()


def versions(storage: LocalStorage) -> set[str]:
    try:
        return {version.version for version in history.list_versions(storage)}
    except WebmillError:
        return set()
