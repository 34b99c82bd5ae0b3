"""What every store of a host schedule promises (webmill.infra.host_schedule.base), and the policy of delays on each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from webmill.errors import BadInput
from webmill.infra.host_schedule import fixed_delays
from webmill.infra.host_schedule.base import StateStore
from webmill.infra.host_schedule.fixed_delays import Reservation, ReservationUpdate, ReservedTime, RetrySlots
from webmill.infra.host_schedule.sqlite_schedule import SqliteHostSchedule
from webmill.infra.host_schedule.state_file import StateFile, StateFormat

FORMAT = StateFormat(ReservedTime, magic=b"test", fields="2d")
DAY = 86400.0
Store = StateStore[ReservedTime]


@pytest.fixture(params=["sqlite", "file"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Open the same store, as another process would."""
    with ExitStack() as opened:

        def open_() -> Store:
            if request.param == "file":
                return StateFile(tmp_path / "state", FORMAT)
            return opened.enter_context(closing(SqliteHostSchedule(tmp_path / "gates.sqlite")))

        yield open_


def read(store: Store) -> ReservedTime | None:
    with store.locked() as states:
        return states.get("a")


def put_and_fail(store: Store) -> None:
    with store.locked() as states:
        states.put("a", ReservedTime(3.0, 4.0))
        raise ArithmeticError


def test_what_a_block_puts_is_seen_by_all_and_only_when_it_ends_well(open_store: Callable[[], Store]) -> None:
    one, other = open_store(), open_store()
    assert read(one) is None
    with one.locked() as states:
        states.put("a", ReservedTime(1.0, 2.0))
    assert read(other) == ReservedTime(1.0, 2.0)
    with pytest.raises(ArithmeticError):
        put_and_fail(one)
    assert read(other) == read(one) == ReservedTime(1.0, 2.0)
    with one.locked() as states:
        states.put("a", ReservedTime(5.0, 6.0))
        states.put("a", ReservedTime(7.0, 8.0))
    assert read(other) == ReservedTime(7.0, 8.0)


def test_nobody_decides_on_a_state_that_another_is_changing(open_store: Callable[[], Store]) -> None:
    def add(store: Store) -> None:
        for _ in range(50):
            with store.locked() as states:
                state = states.get("a") or ReservedTime(0.0, 0.0)
                states.put("a", ReservedTime(state.until + 1, state.expected))

    stores = [open_store() for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, stores))
    assert read(stores[0]) == ReservedTime(200.0, 0.0)


def test_a_key_is_reserved_once_and_free_when_its_request_was_sent(open_store: Callable[[], Store]) -> None:
    one, other, slots = open_store(), open_store(), RetrySlots()

    def reserve(store: Store, now: float) -> float | None:
        wanted = Reservation(now=now, window=10.0, delays={"a": 5.0})
        with store.locked() as states:
            return fixed_delays.reserve(states, wanted, now=now, longest=DAY, slots=slots)

    assert reserve(one, 100.0) is None
    assert reserve(other, 100.0) == 105.0
    with one.locked() as states:
        fixed_delays.update(states, "a", ReservationUpdate(115.0, 107.0))
    assert reserve(other, 106.0) is not None
    assert reserve(other, 107.0) is None
    with one.locked() as states:
        fixed_delays.update(states, "a", ReservationUpdate(115.0, 108.0))  # late news of the first
    assert reserve(one, 110.0) is not None


def test_a_file_that_is_damaged_is_told_and_can_be_begun_anew(tmp_path: Path) -> None:
    store = StateFile(tmp_path / "state", FORMAT)
    with store.locked() as states:
        states.put("a", ReservedTime(1.0, 2.0))
    data = (tmp_path / "state").read_bytes()
    (tmp_path / "state").write_bytes(data[:9] + b"?" + data[10:])
    with store.locked() as states:
        with pytest.raises(BadInput, match="damaged"):
            states.get("a")
        states.put("a", ReservedTime(3.0, 4.0))
    assert read(store) == ReservedTime(3.0, 4.0)
