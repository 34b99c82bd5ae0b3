"""When pages are visited again."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webmill.crawl.visit.revisit_schedule import (
    DAY,
    RevisitSchedule,
    interval_after_error,
    interval_after_gone,
    next_interval,
)

BOUNDS = RevisitSchedule(first=1000.0, shortest=100.0, longest=10_000.0)


def test_the_first_interval_is_the_given_one() -> None:
    for changed in (True, False):
        assert next_interval(0.0, changed=changed, schedule=BOUNDS) == 1000.0


def test_a_change_makes_it_shorter_and_none_longer() -> None:
    assert next_interval(1000.0, changed=True, schedule=BOUNDS) == 500.0
    assert next_interval(1000.0, changed=False, schedule=BOUNDS) == 1500.0


def test_an_error_makes_it_longer() -> None:
    assert interval_after_error(1000.0, schedule=BOUNDS) == 1500.0
    assert interval_after_error(0.0, schedule=BOUNDS) == 1000.0


def test_a_page_that_is_gone_is_asked_for_once_more() -> None:
    assert interval_after_gone(1000.0, was_gone=False, schedule=BOUNDS) == 10_000.0
    assert interval_after_gone(10_000.0, was_gone=True, schedule=BOUNDS) is None


def test_a_watch_asks_for_a_page_that_is_gone_less_and_less_often() -> None:
    schedule, interval = RevisitSchedule.watching(DAY), 5 * DAY
    assert interval_after_gone(interval, was_gone=False, schedule=schedule) == DAY
    interval, intervals = DAY, []
    for _ in range(7):
        interval = interval_after_gone(interval, was_gone=True, schedule=schedule) or 0.0
        intervals.append(interval / DAY)
    assert intervals == [2, 4, 8, 16, 32, 32, 32]
    assert interval_after_gone(0.0, was_gone=True, schedule=schedule) == DAY
    rare = RevisitSchedule.watching(90 * DAY)
    assert interval_after_gone(90 * DAY, was_gone=True, schedule=rare) == 90 * DAY, "not in less than one run"


@given(st.floats(), st.booleans())
def test_it_stays_within_its_bounds_whatever_it_was(previous: float, changed: bool) -> None:
    interval = next_interval(previous, changed=changed, schedule=BOUNDS)
    assert 100.0 <= interval <= 10_000.0
    assert math.isfinite(interval)


@pytest.mark.parametrize("pace", [400.0, 1000.0, 3000.0])
def test_it_settles_near_the_pace_of_the_page(pace: float) -> None:
    """A page that changes every `pace` seconds is visited once to four times in that time, in the long run."""
    now, last_change, interval, visits = 0.0, 0.0, 0.0, 0
    while now < 400 * pace:
        change = math.floor(now / pace)
        interval = next_interval(interval, changed=change != last_change, schedule=BOUNDS)
        last_change, now, visits = change, now + interval, visits + 1
    assert 1.0 <= visits / 400 <= 4.0


def test_a_run_that_watches_looks_at_every_page() -> None:
    schedule = RevisitSchedule.watching(1000.0)
    interval = 0.0
    for _ in range(5):
        interval = next_interval(interval, changed=False, schedule=schedule)
        assert interval == 1000.0


def test_a_run_that_may_look_seldom_looks_less_and_less_often() -> None:
    schedule = RevisitSchedule.watching(1000.0, longest=3000.0)
    intervals = [0.0]
    for _ in range(5):
        intervals.append(next_interval(intervals[-1], changed=False, schedule=schedule))
    assert intervals[1:] == [1000.0, 1500.0, 2250.0, 3000.0, 3000.0]
    assert next_interval(3000.0, changed=True, schedule=schedule) == 1500.0
    assert RevisitSchedule.watching(1000.0, longest=10.0).longest == 1000.0
