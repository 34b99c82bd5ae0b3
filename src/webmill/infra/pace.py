"""How fast a server may be asked: the rules of `limiter.py`, as values without clock or file.

Token bucket. A turn costs a token; tokens come at `rate` times `share`, and at most `burst` are saved up.
Share. Halved when the server asks for fewer requests, given back step by step while it is content (AIMD, as TCP does).
Not before. What Retry-After said holds for everyone.
Breaker. Opened by one refusal (403) or by many failures in a row: nobody asks for a while, which doubles each time.
Then one turn is the probe: it closes the breaker, or opens it again for longer.

A turn's number tells echoes: what was asked before the last cut and answered after it says nothing new.
"""

from __future__ import annotations

import math

from msgspec import Struct
from msgspec.structs import replace

from webmill.infra.origin import Answer

NEVER = -math.inf
WHOLE = 1 - 1e-6  # a token, as well as sums of seconds since the machine started can tell


class Manners(Struct, frozen=True, kw_only=True):
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


class Pace(Struct, frozen=True, kw_only=True):
    """What is shared. Times are of one clock, NEVER where there was none."""

    stamp: float  # when the tokens were counted
    tokens: float
    share: float = 1.0  # of the configured rate, which each process brings along
    changed: float = NEVER  # the share, last
    not_before: float = NEVER
    open_until: float = NEVER
    probed: float = NEVER
    turns: int = 0  # given so far
    echo: int = 0  # turns up to this number were given before the last cut
    probe: int = 0  # the number of the turn that is the probe
    failures: int = 0  # in a row
    trips: int = 0  # how often the breaker opened, less what good times have made up for
    open: bool = False
    refused: bool = False  # why the breaker opened


class Turn(Struct, frozen=True):
    """The right to ask once."""

    number: int


def fresh(now: float) -> Pace:
    return Pace(stamp=now, tokens=1.0)


def careful(now: float, *, manners: Manners) -> Pace:
    """After the state was lost: whatever the server had said, this is slow enough to hear it again."""
    return Pace(stamp=now, tokens=0.0, share=max(manners.least, 1 / 8), changed=now)


def at(pace: Pace, now: float) -> Pace:
    """With a clock that went back, as after a restart of the machine: no time has passed, what is left is left."""
    back = now - pace.stamp
    if back >= 0:
        return pace
    times = ("stamp", "changed", "not_before", "open_until", "probed")
    return replace(pace, **{name: getattr(pace, name) + back for name in times})


def take(pace: Pace, now: float, *, rate: float, burst: float, manners: Manners) -> tuple[Pace, Turn | float]:
    """A turn, or for how many seconds there will be none (at least)."""
    pace = _refilled(pace, now, rate=rate * pace.share, burst=burst)
    closed_for = blocked(pace, now, manners=manners)
    if closed_for > 0:
        return pace, closed_for
    if pace.tokens < WHOLE:
        return pace, (1 - pace.tokens) / (rate * pace.share)
    number = pace.turns + 1
    pace = replace(pace, tokens=pace.tokens - 1, turns=number)
    if pace.open:
        pace = replace(pace, probe=number, probed=now)
    return pace, Turn(number)


def spend(pace: Pace) -> Pace:
    """One request more than a turn allows: the next turns pay for it."""
    return replace(pace, tokens=pace.tokens - 1)


def blocked(pace: Pace, now: float, *, manners: Manners) -> float:
    """For how long nobody may ask, whatever the tokens. While a probe is out this is its lease: it may end any time."""
    until = max(pace.not_before, pace.open_until)
    if pace.open and pace.probe:
        until = max(until, pace.probed + manners.probe_lease)
    return max(0.0, until - now)


def note(
    pace: Pace, now: float, turn: Turn, answer: Answer, *, retry_after: float | None = None, manners: Manners
) -> Pace:
    """What came of a turn."""
    if retry_after is not None and retry_after > 0:  # NaN compares false
        wait = min(retry_after, manners.longest_retry_after)
        pace = replace(pace, not_before=max(pace.not_before, now + wait))
    if pace.open:
        return _probed(pace, now, answer, manners=manners) if turn.number == pace.probe else pace
    if turn.number <= pace.echo or answer == "lost":
        return pace
    if answer == "ok":
        return _content(pace, now, manners=manners)
    if answer == "refused":
        return _opened(_cut(pace, now, manners=manners), now, refused=True, manners=manners)
    if answer == "slow_down":
        pace = _cut(pace, now, manners=manners)
    pace = replace(pace, failures=pace.failures + 1)
    return _opened(pace, now, refused=False, manners=manners) if pace.failures >= manners.failures else pace


def _refilled(pace: Pace, now: float, *, rate: float, burst: float) -> Pace:
    """Nothing is saved up while nobody may ask: the end of a pause must not be a burst."""
    since = max(pace.stamp, pace.not_before, pace.open_until)
    return replace(pace, stamp=now, tokens=min(burst, pace.tokens + max(0.0, now - since) * rate))


def _probed(pace: Pace, now: float, answer: Answer, *, manners: Manners) -> Pace:
    pace = replace(pace, probe=0, probed=NEVER)
    if answer == "lost":
        return pace  # the next turn is the probe
    if answer == "ok":
        return replace(pace, open=False, failures=0, changed=now)
    return _opened(pace, now, refused=answer == "refused", manners=manners)


def _content(pace: Pace, now: float, *, manners: Manners) -> Pace:
    pace = replace(pace, failures=0)
    if now - pace.changed < manners.step_every or (pace.share >= 1 and not pace.trips):
        return pace
    return replace(pace, share=min(1.0, pace.share + manners.step), trips=max(0, pace.trips - 1), changed=now)


def _cut(pace: Pace, now: float, *, manners: Manners) -> Pace:
    share = max(manners.least, pace.share * manners.cut)
    return replace(pace, share=share, changed=now, echo=pace.turns, tokens=min(pace.tokens, 0.0))


def _opened(pace: Pace, now: float, *, refused: bool, manners: Manners) -> Pace:
    first = manners.pause_refused if refused else manners.pause_failed
    pause = min(manners.longest_pause, first * 2.0 ** min(pace.trips, 60))
    return replace(
        pace,
        open=True,
        refused=refused,
        open_until=now + pause,
        trips=pace.trips + 1,
        echo=pace.turns,
        tokens=min(pace.tokens, 0.0),
        probe=0,
        probed=NEVER,
    )
