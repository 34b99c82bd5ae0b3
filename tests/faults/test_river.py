"""The river for a minute; `make soak-river` lets it run for longer."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.matrix import record, seed
from tests.faults.river import River, soak
from webmill.search.backends import open_search
from webmill.testing import TestWeb


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


@pytest.mark.soak
@pytest.mark.crash
@pytest.mark.timeout(900)
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="looks at processes in /proc")
def test_a_document_that_is_not_found_is_seen(tmp_path: Path) -> None:
    """The negative control."""
    with TestWeb(seed=1, hosts=2, pages_per_host=4) as web:
        river = River(tmp_path / "collection", web, random.Random(1), every=1.0)
        river.flow(0)
        assert not river.verdict()
        with closing(open_search(str(river.root / "search"), create=False)) as engine:
            engine.apply([], [next(iter(river.found()))], cursor=engine.cursor())
        wrong = river.verdict()
    archived, lost = river.counts["archived"], river.lost
    record("river", "a document is taken out of the index", injected=1, acknowledged=archived, lost=lost, control=True)
    assert [line for line in wrong if line.endswith("is published, but not found")]
