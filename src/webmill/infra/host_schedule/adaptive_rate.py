"""The policy of an adaptive rate: how fast a server may be asked, as it answers. Functions of values.

Token bucket. A permit costs a token; tokens come at `rate` times `share`, and at most `burst` are saved up.
Share. Halved when the server asks for fewer requests, given back step by step while it is content (AIMD, as TCP does).
Not before. What Retry-After said holds for everyone.
Breaker. Opened by one refusal (403) or by many failures in a row: nobody asks for a while, twice as long each time.
Then one permit is the probe: it closes the breaker, or opens it again for longer.

A permit's number tells stale answers: what was asked before the last cut and answered after it says nothing new.
"""

from __future__ import annotations

import math

from msgspec import Struct
from msgspec.structs import replace

from webmill.infra.request_outcome import RequestOutcome

NEVER = -math.inf
WHOLE = 1 - 1e-6  # a token, as well as sums of seconds since the machine started can tell


class LimiterPolicy(Struct, frozen=True, kw_only=True):
    """Times are in seconds."""

    cut: float = 0.5  # the share is multiplied by this …
    least: float = 1 / 64  # … down to this,
    step: float = 1 / 8  # and this is added …
    step_every: float = 60.0  # … after each such time without a complaint
    failures: int = 10  # in a row: the breaker opens
    pause_failed: float = 10.0  # the breaker's first pause after failures …
    pause_refused: float = 180.0  # … and after a refusal
    longest_pause: float = 3600.0
    longest_retry_after: float = 86400.0
    probe_lease: float = 300.0  # a probe that says nothing for so long is dead, and another may go


class LimiterState(Struct, frozen=True, kw_only=True):
    """What processes share. Times are of one clock, NEVER where there was none."""

    stamp: float  # when the tokens were counted
    tokens: float
    share: float = 1.0  # of the configured rate, which each process brings along
    changed: float = NEVER  # the share, last
    not_before: float = NEVER
    open_until: float = NEVER
    probed: float = NEVER
    permits: int = 0  # given so far
    stale_permits: int = 0  # permits up to this number were given before the last cut
    probe: int = 0  # the number of the permit that is the probe
    failures: int = 0  # in a row
    trips: int = 0  # how often the breaker opened, less what good times have made up for
    open: bool = False
    refused: bool = False  # why the breaker opened


class Permit(Struct, frozen=True):
    """The right to send one request."""

    number: int


def initial_state(now: float) -> LimiterState:
    return LimiterState(stamp=now, tokens=1.0)


def cautious_state(now: float, *, policy: LimiterPolicy) -> LimiterState:
    """Return a state for when the file was damaged: slow enough to hear again what the server had said."""
    return LimiterState(stamp=now, tokens=0.0, share=max(policy.least, 1 / 8), changed=now)


def correct_clock(state: LimiterState, now: float) -> LimiterState:
    """Return the state for a clock that went back, as after a restart of the machine: what was left to wait is left."""
    back = now - state.stamp
    if back >= 0:
        return state
    times = ("stamp", "changed", "not_before", "open_until", "probed")
    return replace(state, **{name: getattr(state, name) + back for name in times})


def acquire(
    state: LimiterState, now: float, *, rate: float, burst: float, policy: LimiterPolicy
) -> tuple[LimiterState, Permit | float]:
    """Return a permit, or for how many seconds there will be none (at least)."""
    state = _refill(state, now, rate=rate * state.share, burst=burst)
    closed_for = blocked_for(state, now, policy=policy)
    if closed_for > 0:
        return state, closed_for
    if state.tokens < WHOLE:
        return state, (1 - state.tokens) / (rate * state.share)
    number = state.permits + 1
    state = replace(state, tokens=state.tokens - 1, permits=number)
    if state.open:
        state = replace(state, probe=number, probed=now)
    return state, Permit(number)


def spend(state: LimiterState) -> LimiterState:
    """Count one request more than was permitted: the next permits pay for it."""
    return replace(state, tokens=state.tokens - 1)


def blocked_for(state: LimiterState, now: float, *, policy: LimiterPolicy) -> float:
    """Return for how long nobody may ask, whatever the tokens.

    While a probe is out this is its lease: it may end any time.
    """
    until = max(state.not_before, state.open_until)
    if state.open and state.probe:
        until = max(until, state.probed + policy.probe_lease)
    return max(0.0, until - now)


def record(
    state: LimiterState,
    now: float,
    permit: Permit,
    outcome: RequestOutcome,
    *,
    retry_after: float | None = None,
    policy: LimiterPolicy,
) -> LimiterState:
    """Adapt to how the request of a permit ended."""
    if retry_after is not None and retry_after > 0:  # NaN compares false
        wait = min(retry_after, policy.longest_retry_after)
        state = replace(state, not_before=max(state.not_before, now + wait))
    if state.open:
        return _record_probe(state, now, outcome, policy=policy) if permit.number == state.probe else state
    if permit.number <= state.stale_permits or outcome == "lost":
        return state
    if outcome == "ok":
        return _record_success(state, now, policy=policy)
    if outcome == "refused":
        return _open_breaker(_cut_rate(state, now, policy=policy), now, refused=True, policy=policy)
    if outcome == "slow_down":
        state = _cut_rate(state, now, policy=policy)
    state = replace(state, failures=state.failures + 1)
    return _open_breaker(state, now, refused=False, policy=policy) if state.failures >= policy.failures else state


def _refill(state: LimiterState, now: float, *, rate: float, burst: float) -> LimiterState:
    """Add tokens, but none for the time in which nobody could ask: the end of a pause must not be a burst."""
    since = max(state.stamp, state.not_before, state.open_until)
    return replace(state, stamp=now, tokens=min(burst, state.tokens + max(0.0, now - since) * rate))


def _record_probe(state: LimiterState, now: float, outcome: RequestOutcome, *, policy: LimiterPolicy) -> LimiterState:
    state = replace(state, probe=0, probed=NEVER)
    if outcome == "lost":
        return state  # the next permit is the probe
    if outcome == "ok":
        return replace(state, open=False, failures=0, changed=now)
    return _open_breaker(state, now, refused=outcome == "refused", policy=policy)


def _record_success(state: LimiterState, now: float, *, policy: LimiterPolicy) -> LimiterState:
    state = replace(state, failures=0)
    if now - state.changed < policy.step_every or (state.share >= 1 and not state.trips):
        return state
    return replace(state, share=min(1.0, state.share + policy.step), trips=max(0, state.trips - 1), changed=now)


def _cut_rate(state: LimiterState, now: float, *, policy: LimiterPolicy) -> LimiterState:
    share = max(policy.least, state.share * policy.cut)
    return replace(state, share=share, changed=now, stale_permits=state.permits, tokens=min(state.tokens, 0.0))


def _open_breaker(state: LimiterState, now: float, *, refused: bool, policy: LimiterPolicy) -> LimiterState:
    first = policy.pause_refused if refused else policy.pause_failed
    pause = min(policy.longest_pause, first * 2.0 ** min(state.trips, 60))
    return replace(
        state,
        open=True,
        refused=refused,
        open_until=now + pause,
        trips=state.trips + 1,
        stale_permits=state.permits,
        tokens=min(state.tokens, 0.0),
        probe=0,
        probed=NEVER,
    )
