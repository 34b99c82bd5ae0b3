"""When a page is visited again: sooner when it changes, later when it does not.

    interval = next_interval(86400.0, changed=True, bounds=Bounds())    # half a day

A page that had changed is visited after half the last interval, one that had not (also: 304) after one and a half times
it. That settles where about every third visit finds a change. An error says nothing about the page: it waits longer, as
if unchanged. A page that is gone (404, 410) is asked for once more, after the longest interval, and then never.
"""

from __future__ import annotations

import msgspec

DAY = 86400.0
SHORTER, LONGER = 0.5, 1.5


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds."""

    first: float = DAY
    least: float = 3600.0
    most: float = 30 * DAY

    def clamp(self, interval: float) -> float:
        return max(self.least, min(interval, self.most))


def next_interval(previous: float, *, changed: bool, bounds: Bounds) -> float:
    """After an answer. `previous` is 0 after the first visit, of which nobody knows whether it was a change."""
    if not previous > 0:  # NaN, too
        return bounds.clamp(bounds.first)
    return bounds.clamp(previous * (SHORTER if changed else LONGER))


def interval_after_error(previous: float, *, bounds: Bounds) -> float:
    """After no answer, or one that tells of the server and not of the page (5xx), when retries are used up."""
    return next_interval(previous, changed=False, bounds=bounds)


def interval_after_gone(*, was_gone: bool, bounds: Bounds) -> float | None:
    """After 404 or 410; `was_gone`: the visit before said so, too. None: never again."""
    return None if was_gone else bounds.most
