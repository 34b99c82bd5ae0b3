"""Which ranges are asked for."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.commoncrawl.ranges import ByteRange, RangeLimits, plan_ranges
from webmill.model import CaptureRef


def item(filename: str, offset: int, length: int) -> CaptureRef:
    return CaptureRef(url="https://example.com/", filename=filename, offset=offset, length=length)


def plan(*places: tuple[str, int, int], gap: int = 10, most: int = 1000) -> list[ByteRange]:
    items = {number: item(*place) for number, place in enumerate(places)}
    return [part for ranges in plan_ranges(items, limits=RangeLimits(gap=gap, most=most)) for part in ranges]


def test_neighbours_of_one_file_are_asked_for_together() -> None:
    assert plan(("a", 200, 50), ("b", 0, 5), ("a", 100, 95)) == [
        ByteRange(filename="a", start=100, end=250, items=(2, 0)),
        ByteRange(filename="b", start=0, end=5, items=(1,)),
    ]


def test_a_gap_wider_than_the_limit_is_asked_around() -> None:
    assert [(part.start, part.end) for part in plan(("a", 0, 10), ("a", 20, 10), ("a", 41, 1))] == [(0, 30), (41, 42)]


def test_a_request_grows_to_its_limit_and_no_further() -> None:
    parts = plan(*(("a", 100 * number, 100) for number in range(25)))
    assert [part.length for part in parts] == [1000, 1000, 500]


def test_a_capture_larger_than_the_limit_is_a_request_of_its_own() -> None:
    assert [part.length for part in plan(("a", 0, 5000), ("a", 5000, 1))] == [5000, 1]


def test_a_capture_that_is_wanted_twice_is_fetched_once() -> None:
    assert plan(("a", 5, 5), ("a", 5, 5)) == [ByteRange(filename="a", start=5, end=10, items=(0, 1))]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 500), st.integers(1, 80)), max_size=30),
    st.integers(0, 50),
    st.integers(1, 300),
)
def test_every_capture_lies_in_exactly_one_range(places: list[tuple[str, int, int]], gap: int, most: int) -> None:
    parts = plan(*places, gap=gap, most=most)
    assert sorted(number for part in parts for number in part.items) == list(range(len(places)))
    for part in parts:
        assert part.length <= most or len(part.items) == 1 or part.length == max(places[n][2] for n in part.items)
        for number in part.items:
            filename, offset, length = places[number]
            assert filename == part.filename
            assert part.start <= offset
            assert offset + length <= part.end
