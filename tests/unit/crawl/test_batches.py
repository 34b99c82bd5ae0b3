"""The links of a large page go ahead of it in slices: all of them, once, and no result overtakes one of its turn."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from webmill.crawl.frontier.base import NotTried
from webmill.crawl.scheduler.batch import take_results
from webmill.crawl.visit.outcome import VisitResult
from webmill.model import Link

RESULTS = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 30)), max_size=12)


def make_result(number: int, token: int, links: int) -> VisitResult:
    urls = [Link(f"http://a.test/{number}/{link}", 1, 5) for link in range(links)]
    return VisitResult(token=token, outcome=NotTried(f"http://a.test/{number}"), links=urls)


@given(RESULTS, st.integers(1, 10))
def test_every_link_is_in_a_batch_before_or_with_its_page(shapes: list[tuple[int, int]], most: int) -> None:
    whole = [make_result(number, *shape) for number, shape in enumerate(shapes)]
    waiting, taken = whole, list[VisitResult]()
    while waiting:
        batch, waiting = take_results(waiting, most=most)
        sliced = [len(one.links) for one in batch if one.outcome is None]
        assert sum(sliced) <= most
        assert batch, "it goes on"
        taken += batch
    for token in {1, 2, 3}:
        mine = [one for one in whole if one.token == token]
        found = [one for one in taken if one.token == token]
        assert [one.outcome for one in found if one.outcome] == [one.outcome for one in mine]
        assert [link for one in found for link in one.links] == [link for one in mine for link in one.links]
        assert not any(one.was_handed_out for one in found if one.outcome is None), "it is counted once"


def test_pages_of_other_turns_are_not_held_back() -> None:
    waiting = [make_result(0, 1, 100), make_result(1, 2, 3), make_result(2, 1, 0)]
    batch, held = take_results(waiting, most=10)
    assert [(one.token, len(one.links)) for one in batch] == [(1, 10), (2, 3)]
    assert [(one.token, len(one.links)) for one in held] == [(1, 90), (1, 0)]
