"""How long a host rests between two requests."""

from __future__ import annotations

import pytest

from webmill.cli.crawl_progress import describe_left
from webmill.crawl.options import Politeness
from webmill.crawl.politeness.pace import MANY_DOMAINS, MOST_HOSTS, HostPace
from webmill.crawl.progress import CrawlProgress, sum_progress
from webmill.settings import CrawlSettings, all_settings

AUTO = Politeness.from_settings(CrawlSettings(), user_agent="test")


def test_a_number_is_used_as_it_is() -> None:
    pace = HostPace(Politeness.from_settings(CrawlSettings(delay=0.5), user_agent="test"))
    pace.learn("a.example", 10.0)
    pace.domains_waiting = MANY_DOMAINS
    assert pace.delay("a.example") == 0.5
    assert pace.typical() == 0.5


@pytest.mark.parametrize(("seconds", "delay"), [(0.01, 3.0), (1.0, 5.0), (2.0, 10.0), (60.0, 30.0)])
def test_a_host_rests_five_times_as_long_as_it_took_to_answer(seconds: float, delay: float) -> None:
    pace = HostPace(AUTO)
    assert pace.delay("a.example") == 30.0, "nothing is known of it"
    pace.learn("a.example", seconds)
    assert pace.delay("a.example") == pytest.approx(delay)
    assert pace.delay("b.example") == 30.0
    assert pace.typical() == pytest.approx(delay)


def test_where_hundreds_of_domains_wait_each_rests_longer() -> None:
    pace = HostPace(AUTO)
    pace.learn("a.example", 0.01)
    pace.domains_waiting = MANY_DOMAINS - 1
    assert pace.delay("a.example") == 3.0
    pace.domains_waiting = MANY_DOMAINS
    assert pace.delay("a.example") == 70.0
    assert pace.delay("a.example") <= AUTO.longest_delay < AUTO.longest_reservation


def test_one_slow_answer_does_not_decide_and_memory_is_bounded() -> None:
    pace = HostPace(AUTO)
    for seconds in (0.1, 0.1, 2.0):
        pace.learn("a.example", seconds)
    assert 3.0 <= pace.delay("a.example") < 5.0
    for number in range(MOST_HOSTS):
        pace.learn(f"{number}.example", 1.0)
    assert pace.delay("a.example") == 30.0, "it is forgotten"


def test_the_end_is_estimated_from_the_pace_and_from_what_waits() -> None:
    one = CrawlProgress(shard=0, waiting=790, in_hand=10, domains_waiting=1, pace=3.0)
    assert describe_left(one) == "about 40 minutes left at this pace"
    two = CrawlProgress(shard=1, waiting=800, domains_waiting=1, pace=3.0)
    assert describe_left(sum_progress([one, two])) == "about 40 minutes left at this pace"
    assert describe_left(CrawlProgress(shard=0, waiting=5, domains_waiting=5, pace=3.0)) == ""
    assert describe_left(CrawlProgress(shard=0, waiting=5)) == "", "nothing was asked yet"
    assert describe_left(CrawlProgress(shard=0, waiting=100_000, pace=5.0, domains_waiting=1)).startswith(
        "about 6 days"
    )


def test_auto_can_be_written_and_is_the_default() -> None:
    (delay,) = (one for one in all_settings() if (one.section, one.key) == ("crawl", "delay"))
    assert delay.parse("auto") is None
    assert delay.parse("Auto") is None
    assert delay.parse("20s") == 20.0
    assert delay.text(delay.default) == "auto"
    with pytest.raises(ValueError, match="not a duration"):
        delay.parse("automatic")
