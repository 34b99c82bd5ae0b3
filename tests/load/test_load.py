"""Well-behaved clients are answered beside abusive ones of every kind. Counts, no times: `make load` has those."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.load.abuse import ABUSES, CONNECTIONS, FLOODS
from tests.load.measure import ONE_ADDRESS, LoadPlan, measure
from tests.load.served_collection import Targets, build, targets_of
from tests.serve.server_process import RunningServer, serving

SMALL = {"hosts": 3, "pages": 4, "versions": 1}
MEMORY = 1 << 30  # bytes, all processes
pytestmark = [
    pytest.mark.xdist_group("serve"),
    pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc"),
]


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Targets]:
    root = build(tmp_path_factory.mktemp("load") / "served", **SMALL)
    return root, targets_of(root, **SMALL)


@pytest.fixture
def server(there: tuple[Path, Targets], tmp_path: Path) -> Iterator[RunningServer]:
    """As a new user starts it."""
    with serving(there[0], tmp_path / "errors") as running:
        yield running


def refusals(server: RunningServer) -> float:
    found = re.findall(r"webmill_serve_refused_total\{.*\} (\S+)", server.get("/metrics").decode())
    return sum(map(float, found))


def test_well_behaved_clients_are_answered_beside_all_kinds_of_abusive_ones(
    server: RunningServer, there: tuple[Path, Targets]
) -> None:
    plan = LoadPlan(readers=10, think=0.5, abuses=tuple(sorted(ABUSES)), seconds=5, warm_up=1)
    found = measure(server, there[1], plan)
    assert found.tally.refused == {}
    assert found.tally.answered >= 10
    assert found.abused > 2 * len(ABUSES)
    assert refusals(server) > 10  # they were abusive indeed
    assert found.memory < MEMORY
    assert "Traceback" not in server.errors.read_text(errors="replace")


def test_clients_behind_the_address_of_abusive_ones_are_refused_with_them(
    server: RunningServer, there: tuple[Path, Targets]
) -> None:
    """What these tests count can be seen: the limits are those of an address."""
    abuses = ("health",) * 20 + ("no HTTP",) * 20
    plan = LoadPlan(readers=10, think=0.2, abuses=abuses, together=1.0, source=ONE_ADDRESS, seconds=3, warm_up=2)
    assert measure(server, there[1], plan).tally.refused.total() > 0


def test_there_are_as_many_kinds_as_the_tables_say() -> None:
    assert len(FLOODS) >= 15
    assert len(CONNECTIONS) >= 15
