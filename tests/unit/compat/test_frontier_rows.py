"""Rows of another crawler's tables, with whatever a column of numbers can hold."""

from __future__ import annotations

import math

import pytest

from webmill.compat.frontier.rows import VisitedRows, WaitingRows
from webmill.errors import BadInput

ODD = [None, math.nan, math.inf, -math.inf]


@pytest.mark.parametrize("odd", ODD, ids=map(str, ODD))
def test_a_number_that_is_none_counts_as_nothing(odd: float | None) -> None:
    waiting = WaitingRows(priority=5, clock=lambda: 0.0).read(("a.example", odd, "http://a.example/", odd))
    assert (waiting.url, waiting.depth) == ("http://a.example/", 0)
    visited = VisitedRows(clock=lambda: 0.0).read((odd, "http://a.example/", odd))
    assert (visited.visit.time, visited.visit.error) == (0.0, "imported: no status")


@pytest.mark.parametrize("depth", [-1.0, 1e300])
def test_a_depth_beyond_reason_is_refused(depth: float) -> None:
    with pytest.raises(BadInput, match="bad_depth"):
        WaitingRows(priority=5, clock=lambda: 0.0).read(("a.example", 0.0, "http://a.example/", depth))
