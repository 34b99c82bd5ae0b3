"""The river for a minute; `make soak-river` lets it run for longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.matrix import record, seed
from tests.faults.river import soak


@pytest.mark.soak
@pytest.mark.crash
@pytest.mark.timeout(900)
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="looks at processes in /proc")
def test_killed_all_the_time_the_river_loses_nothing_and_does_not_grow(tmp_path: Path) -> None:
    river, wrong = soak(60, seed=seed(4), out=tmp_path / "river", every=1.0)
    kills = sum(count for name, count in river.counts.items() if name.endswith("killed"))
    record("river", "kill -9 at random", injected=kills, acknowledged=river.counts["archived"], lost=river.lost)
    assert not wrong
    assert "<polyline" in (tmp_path / "river.svg").read_text()
