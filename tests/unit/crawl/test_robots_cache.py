"""A robots.txt is good for as long as it says, and for the page that it was asked for."""

from __future__ import annotations

import asyncio

import msgspec

from webmill.crawl.frontier.base import FrontierUpdate, RobotsEntry
from webmill.crawl.frontier.memory import MemoryFrontier
from webmill.crawl.politeness.robots import RobotsPolicy
from webmill.crawl.politeness.robots_fetcher import RobotsCache
from webmill.infra.clock import SteadyClock

ORIGIN, DAY = "http://a.test", 86400.0
ENTRY = RobotsEntry(origin=ORIGIN, fetched=1000.0, expires=1600.0, status=200, body=b"User-agent: *\nDisallow: /x\n")


class Times:
    now = 1000.0


def make_cache(times: Times) -> RobotsCache:
    clock = SteadyClock(wall=lambda: times.now, since_boot=lambda: times.now, boot="one")
    return RobotsCache(MemoryFrontier(), RobotsPolicy(), clock=clock)


def is_known(robots: RobotsCache) -> bool:
    return asyncio.run(robots.find(ORIGIN)) is not None


def test_a_file_waits_with_its_page_for_up_to_a_day() -> None:
    """Else no page would ever be asked where the delay is longer than the file is good."""
    times = Times()
    robots = make_cache(times)
    robots.add(ENTRY)
    times.now = 5000.0
    assert is_known(robots)
    robots.mark_used(ORIGIN)
    assert not is_known(robots)
    robots.add(msgspec.structs.replace(ENTRY, fetched=5000.0, expires=5600.0))
    times.now = 5000.0 + DAY + 1
    assert not is_known(robots)


def test_a_file_that_could_not_be_had_is_asked_for_when_its_time_has_come() -> None:
    times = Times()
    robots = make_cache(times)
    robots.add(msgspec.structs.replace(ENTRY, status=503, body=b"", failing_since=1000.0))
    times.now = 1599.0
    assert is_known(robots)
    times.now = 1601.0
    assert not is_known(robots)


def test_what_the_frontier_has_is_good_as_long_as_it_says() -> None:
    times = Times()
    frontier = MemoryFrontier()
    frontier.commit(FrontierUpdate(robots=[ENTRY]), now=1000.0)
    clock = SteadyClock(wall=lambda: times.now, since_boot=lambda: times.now, boot="one")
    robots = RobotsCache(frontier, RobotsPolicy(), clock=clock)
    assert is_known(robots)
    times.now = 1601.0
    assert not is_known(robots)
