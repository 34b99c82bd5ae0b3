"""The rules of the limiter, with time as a number: how many permits, after what was said, and who may ask next."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.infra.host_schedule.adaptive_rate import (
    LimiterPolicy,
    LimiterState,
    Permit,
    acquire,
    cautious_state,
    correct_clock,
    initial_state,
    record,
)
from webmill.infra.request_outcome import RequestOutcome


@dataclass
class World:
    rate: float = 2.0
    burst: float = 1.0
    policy: LimiterPolicy = field(default_factory=LimiterPolicy)
    now: float = 1000.0
    state: LimiterState = field(default_factory=lambda: initial_state(1000.0))

    def acquire(self) -> Permit | float:
        self.state = correct_clock(self.state, self.now)
        self.state, given = acquire(self.state, self.now, rate=self.rate, burst=self.burst, policy=self.policy)
        return given

    def permit(self) -> Permit:
        """Waits as long as it is told to, and not a moment longer."""
        for _ in range(10):
            given = self.acquire()
            if isinstance(given, Permit):
                return given
            self.now += given
        raise AssertionError(f"no permit: {self.state}")

    def record(self, permit: Permit, outcome: RequestOutcome, retry_after: float | None = None) -> None:
        self.state = record(self.state, self.now, permit, outcome, retry_after=retry_after, policy=self.policy)

    def ask(self, answer: RequestOutcome, retry_after: float | None = None) -> None:
        self.record(self.permit(), answer, retry_after)

    def gap(self) -> float:
        """Seconds until the next permit, which is taken and was fine."""
        before = self.now
        self.ask("ok")
        return self.now - before


def test_permits_come_at_the_rate_after_one_burst() -> None:
    world = World(rate=4, burst=3)
    world.now += 100
    assert [world.gap() for _ in range(6)] == pytest.approx([0, 0, 0, 0.25, 0.25, 0.25])


def test_a_new_file_gives_one_permit_and_a_lost_one_none_at_once() -> None:
    assert World().gap() == 0
    world = World(state=cautious_state(1000.0, policy=LimiterPolicy()))
    assert world.gap() == pytest.approx(1 / (2 / 8))


def test_a_complaint_halves_the_rate_once_however_many_hear_it() -> None:
    world = World(rate=8, burst=5)
    world.now += 10
    permits = [world.permit() for _ in range(5)]
    for permit in permits:
        world.record(permit, "slow_down")
    assert world.state.share == 0.5
    world.gap()
    assert world.gap() == pytest.approx(1 / 4)
    world.ask("slow_down")
    assert world.state.share == 0.25


def test_the_rate_never_falls_to_nothing() -> None:
    world = World(policy=LimiterPolicy(least=1 / 4, failures=99))
    for _ in range(9):
        world.ask("slow_down")
    assert world.state.share == 1 / 4


def test_the_rate_comes_back_step_by_step_after_minutes_without_a_complaint() -> None:
    world = World(policy=LimiterPolicy(step=1 / 4, step_every=60))
    world.ask("slow_down")
    began, shares = world.now, []
    while world.now - began < 200:
        world.ask("ok")
        shares.append((world.now - began, world.state.share))
    assert {share for after, share in shares if after < 60} == {0.5}
    assert {share for after, share in shares if 65 < after < 120} == {0.75}
    assert {share for after, share in shares if after > 130} == {1.0}


def test_nobody_asks_before_retry_after_and_then_not_all_at_once() -> None:
    world = World(rate=10, burst=10)
    world.now += 10
    early = [world.permit() for _ in range(3)]
    world.record(early[0], "slow_down", retry_after=30)
    world.record(early[1], "slow_down", retry_after=5)  # the later one counts, whichever is heard first
    world.record(early[2], "ok")
    assert world.acquire() == 30
    world.now += 30
    assert world.acquire() == pytest.approx(1 / 5)


@pytest.mark.parametrize(("printed", "waited"), [(1e18, 86400), (math.inf, 86400), (-5, 0), (math.nan, 0), (0, 0)])
def test_what_the_server_asks_for_is_clamped(printed: float, waited: float) -> None:
    world = World()
    world.ask("slow_down", retry_after=printed)
    assert max(0, world.state.not_before - world.now) == waited


def test_one_refusal_stops_everybody_and_then_one_asks() -> None:
    world = World(rate=100, burst=10, policy=LimiterPolicy(pause_refused=180))
    world.now += 10
    early = [world.permit() for _ in range(4)]
    world.record(early[0], "refused")
    world.record(early[1], "ok")  # asked before: it closes nothing
    world.record(early[2], "refused")  # nor does an echo make it longer
    assert world.acquire() == 180
    probe = world.permit()
    assert world.state.probe == probe.number
    assert world.acquire() == pytest.approx(300)  # the lease of the probe; its answer comes sooner
    world.record(early[3], "ok")
    assert not isinstance(world.acquire(), Permit)
    world.record(probe, "ok")
    assert world.gap() < 1
    assert world.gap() == pytest.approx(1 / 50)  # a refusal is a complaint too


def test_a_refused_probe_doubles_the_pause_up_to_the_longest() -> None:
    world = World(policy=LimiterPolicy(pause_refused=100, longest_pause=500))
    world.ask("refused")
    pauses = []
    for _ in range(4):
        pauses.append(world.acquire())
        world.ask("refused")
    assert pauses == [100, 200, 400, 500]


def test_a_refusal_soon_after_the_breaker_closed_pauses_longer() -> None:
    world = World(policy=LimiterPolicy(pause_refused=100))
    world.ask("refused")
    world.ask("ok")
    world.ask("refused")
    assert world.acquire() == 200


def test_failures_in_a_row_open_the_breaker_and_a_good_answer_between_them_does_not() -> None:
    world = World(policy=LimiterPolicy(failures=3, pause_failed=10))
    for answer in ("failed", "failed", "ok", "failed", "slow_down"):
        world.ask(answer)
    assert not world.state.open
    world.ask("failed")
    assert world.acquire() == 10


def test_a_probe_that_is_never_heard_of_again_is_followed_by_another() -> None:
    world = World(policy=LimiterPolicy(probe_lease=50))
    world.ask("refused")
    dead = world.permit()
    wait = world.acquire()
    assert wait == 50
    second = world.permit()
    world.record(dead, "ok")  # too late: it is not the probe any more
    assert world.state.open
    world.record(second, "ok")
    assert not world.state.open


def test_a_probe_that_was_given_up_lets_the_next_one_go() -> None:
    world = World()
    world.ask("refused")
    world.record(world.permit(), "lost")
    before = world.now
    world.ask("ok")
    assert world.now - before < 2
    assert not world.state.open


def test_what_is_left_to_wait_is_left_when_the_machine_starts_again() -> None:
    world = World()
    world.ask("refused")
    world.now += 80
    world.acquire()
    world.now = 3.0  # the clock begins anew
    assert world.acquire() == 100


ANSWERS = st.sampled_from(["ok", "slow_down", "refused", "failed", "lost"])
STEPS = st.tuples(st.floats(0, 20), ANSWERS, st.one_of(st.none(), st.floats(0, 30)))


@given(st.lists(STEPS, max_size=60), st.floats(0.1, 50), st.integers(1, 5))
@settings(deadline=None)
def test_whatever_is_said_no_more_turns_are_given_than_the_rate_allows(
    steps: list[tuple[float, RequestOutcome, float | None]], rate: float, burst: int
) -> None:
    world = World(
        rate=rate, burst=burst, policy=LimiterPolicy(pause_refused=5, pause_failed=2, probe_lease=7, failures=3)
    )
    given_at: list[float] = []
    for waited, answer, retry_after in steps:
        world.now += waited
        while isinstance(permit := world.acquire(), Permit):
            given_at.append(world.now)
            assert world.now >= world.state.not_before
            world.record(permit, answer, retry_after)
    for first, begin in enumerate(given_at):
        for last, end in enumerate(given_at[first:], first):
            assert last - first + 1 <= burst + (end - begin) * rate + 1e-5
