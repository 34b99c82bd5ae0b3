"""When a page is visited again: sooner when it changes, later when it does not.

    interval = next_interval(86400.0, changed=True, schedule=RevisitSchedule())    # half a day

A page that had changed is visited after half the last interval, one that had not (also: 304) after one and a half times
it. That settles where about every third visit finds a change. An error says nothing about the page: it waits longer, as
if unchanged. A page that is gone (404, 410) is requested once more, after the longest interval, and then never.

`webmill crawl --refresh` goes on for ever. A run that watches a collection (`watching`) looks once at each page that is
due when it starts: intervals are whole runs, a page that is gone is asked again in the next one and then twice as
late each time, since sites lose pages for days and find them again, and sitemaps and feeds, which tell what is new, in
every one.
"""

from __future__ import annotations

from typing import Self

import msgspec

from webmill.crawl.frontier.base import LastVisit, RevisitRule
from webmill.settings import CrawlSettings

DAY = 86400.0
GONE, MOVED = frozenset({404, 410}), frozenset({301, 308})  # statuses
SHORTER, LONGER = 0.5, 1.5
LONGEST_LEFT_ALONE = 32 * DAY
SLACK = 0.75  # of the interval of runs: how much sooner than planned a page is looked at


class RevisitSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """How often pages are visited again, in seconds. When it is off, each page is visited once."""

    on: bool = False
    first: float = DAY
    shortest: float = 3600.0
    longest: float = 30 * DAY
    watches: bool = False  # a run looks once at what is due when it starts

    @classmethod
    def watching(cls, every: float, *, longest: float | None = None) -> Self:
        """Return the schedule of runs that come about every so many seconds, and look at every page each time; at
        those that do not change less and less often, if `longest` says how seldom they may.
        """
        return cls(on=True, first=every, shortest=every, longest=max(every, longest or 0.0), watches=True)

    @property
    def rule(self) -> RevisitRule:
        """Return which pages are due when a run starts."""
        return RevisitRule(self.shortest, self.longest, SLACK * self.first)

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


def interval_after_gone(previous: float, *, was_gone: bool, schedule: RevisitSchedule) -> float | None:
    """Return the interval after 404 or 410. `was_gone`: the visit before said so, too. None: never again."""
    if not schedule.watches:
        return None if was_gone else schedule.longest
    return interval_left_alone(previous, schedule=schedule) if was_gone else schedule.first


def interval_left_alone(previous: float, *, schedule: RevisitSchedule) -> float | None:
    """Return the interval of a page that may not be requested, or is gone: a watch asks less and less often whether
    that is still so. `previous` is 0 at first. None: never again.
    """
    if not schedule.watches:
        return None
    return max(schedule.first, min(2 * previous, LONGEST_LEFT_ALONE)) if previous > 0 else schedule.first


def interval_of_list(previous: float, *, changed: bool, schedule: RevisitSchedule) -> float:
    """Return the interval of a sitemap or feed: it is in every run, before the pages that are due with it."""
    if schedule.watches:
        return schedule.first * (1 - SLACK)
    return next_interval(previous, changed=changed, schedule=schedule)


def is_gone(status: int, last: LastVisit | None) -> bool:
    """Tell whether a page is no longer there: not found for the second time in a row, or moved for good."""
    if last is None:
        return False
    if status in GONE:
        return last.status in GONE or last.gone
    return status in MOVED and (last.gone or last.status not in MOVED)
