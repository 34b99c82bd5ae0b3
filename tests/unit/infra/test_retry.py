"""Patience: what is tried again, how long is waited, when it is given up. Time is a number here."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.errors import BadInput, Conflict, Misconfigured, NotFound, Unavailable
from webmill.infra.retry import BackoffPolicy, retrying


@dataclass
class World:
    """A clock that only sleeping and calling move."""

    failures: list[Exception]
    cost: float = 0.0
    random: float = 1.0
    now: float = 1000.0
    calls: int = 0
    slept: list[float] = field(default_factory=list)

    def call(self) -> str:
        self.calls += 1
        self.now += self.cost
        if self.failures:
            raise self.failures.pop(0)
        return "done"

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def run(self, **policy: float) -> str:
        return retrying(
            self.call,
            policy=BackoffPolicy(**policy),  # type: ignore[arg-type]
            clock=lambda: self.now,
            sleep=self.sleep,
            random=lambda: self.random,
        )


def down(times: int, retry_after: float | None = None) -> list[Exception]:
    return [Unavailable(f"down {n}", retry_after=retry_after) for n in range(times)]


def test_waits_double_up_to_the_longest() -> None:
    world = World(down(6))
    assert world.run(attempts=7, first_wait=1, longest_wait=10) == "done"
    assert world.slept == [1, 2, 4, 8, 10, 10]


def test_waits_are_spread_over_the_whole_interval() -> None:
    world = World(down(2), random=0.0)
    world.run()
    assert world.slept == [0, 0]
    world = World(down(2), random=0.25)
    world.run(first_wait=1)
    assert world.slept == [0.25, 0.5]


def test_the_last_failure_is_raised_when_the_attempts_are_used_up() -> None:
    world = World(down(9))
    with pytest.raises(Unavailable, match="down 2"):
        world.run(attempts=3)
    assert world.calls == 3
    assert len(world.slept) == 2


def test_no_wait_is_begun_that_ends_after_the_deadline() -> None:
    world = World(down(99), cost=4)
    with pytest.raises(Unavailable):
        world.run(attempts=99, first_wait=1, longest_wait=1, deadline=20)
    assert world.calls == 5
    assert world.now - world.cost - 1000 == 20  # the last wait ended just in time


@pytest.mark.parametrize(
    "error", [NotFound("x"), Conflict("x"), Misconfigured("x"), BadInput("x", reason="r"), OSError()]
)
def test_nothing_but_unavailable_is_tried_again(error: Exception) -> None:
    world = World([error])
    with pytest.raises(type(error)):
        world.run()
    assert world.calls == 1


def test_what_the_server_asks_for_is_the_least_wait() -> None:
    world = World(down(2, retry_after=7), random=0.5)
    world.run(first_wait=1)
    assert world.slept == [7.5, 8.0]


@pytest.mark.parametrize(("printed", "waited"), [(1e9, 60), (math.inf, 60), (-3, 0), (math.nan, 0), (0, 0), (None, 0)])
def test_what_the_server_asks_for_is_clamped(printed: float | None, waited: float) -> None:
    world = World(down(1, retry_after=printed), random=0.0)
    world.run(longest_retry_after=60)
    assert world.slept == [waited]


@given(attempts=st.integers(1, 50), deadline=st.floats(0, 1e6), cost=st.floats(0, 100), random=st.floats(0, 1))
@settings(deadline=None)
def test_it_always_ends_within_its_limits(attempts: int, deadline: float, cost: float, random: float) -> None:
    world = World(down(50), cost=cost, random=random)
    with pytest.raises(Unavailable):
        world.run(attempts=attempts, deadline=deadline)
    assert world.calls <= attempts
    assert sum(world.slept) <= deadline + 1e-6
    assert all(0 <= wait <= 30 for wait in world.slept)
