"""When a page is visited again: sooner when it changes, later when it does not.

    interval = next_interval(86400.0, changed=True, schedule=RevisitSchedule())    # half a day

A page that had changed is visited after half the last interval, one that had not (also: 304) after one and a half times
it. That settles where about every third visit finds a change. An error says nothing about the page: it waits longer, as
if unchanged. A page that is gone (404, 410) is requested once more, after the longest interval, and then never.
"""

from __future__ import annotations

from typing import Self

import msgspec

from webmill.settings import CrawlSettings

DAY = 86400.0
SHORTER, LONGER = 0.5, 1.5


class RevisitSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """How often pages are visited again, in seconds. When it is off, each page is visited once."""

    on: bool = False
    first: float = DAY
    shortest: float = 3600.0
    longest: float = 30 * DAY

    @classmethod
    def from_settings(cls, settings: CrawlSettings) -> Self:
        shortest = min(cls().shortest, settings.refresh_every)  # what was asked for is never too often
        return cls(on=settings.refresh, first=settings.refresh_every, shortest=shortest)

    def clamp(self, interval: float) -> float:
        return max(self.shortest, min(interval, self.longest))


def next_interval(previous: float, *, changed: bool, schedule: RevisitSchedule) -> float:
    """Return the interval after an answer. `previous` is 0 after the first visit, which cannot tell a change."""
    if not previous > 0:  # NaN, too
        return schedule.clamp(schedule.first)
    return schedule.clamp(previous * (SHORTER if changed else LONGER))


def interval_after_error(previous: float, *, schedule: RevisitSchedule) -> float:
    """Return the interval after no answer, or one that tells of the server and not of the page (5xx)."""
    return next_interval(previous, changed=False, schedule=schedule)


def interval_after_gone(*, was_gone: bool, schedule: RevisitSchedule) -> float | None:
    """Return the interval after 404 or 410. `was_gone`: the visit before said so, too. None: never again."""
    return None if was_gone else schedule.longest
