"""When a crawl is over, on one machine and on many nodes."""

from __future__ import annotations

from tests.unit.crawl.test_shard_assignment import make_node, make_view
from webmill.crawl.cluster.cluster_state import ShardReport
from webmill.crawl.cluster.node import shard_states
from webmill.crawl.options import CrawlLimits
from webmill.crawl.progress import CrawlProgress
from webmill.crawl.scheduler.coordinator import CompletionDetector, CrawlEnd, ShardState

NODES, OWNERS = [make_node("one"), make_node("two")], {0: "one", 1: "two"}


def report(node: str, *, start: int = 1, work: int = 7, probe: int = 0, **more: object) -> ShardReport:
    progress = CrawlProgress(shard=0, is_idle=True, work=work, probe=probe, **more)  # type: ignore[arg-type]
    return ShardReport(node=node, start=start, progress=progress)


def find_end(
    detector: CompletionDetector, *reports: ShardReport, seconds: float = 0.0, bytes_: int = 0
) -> CrawlEnd | None:
    states = shard_states(make_view(NODES, OWNERS, reports=dict(enumerate(reports))), 2)
    return detector.find_end(states, seconds=seconds, bytes_=bytes_)


def test_it_is_over_when_all_were_idle_twice_and_nothing_was_done_in_between() -> None:
    detector = CompletionDetector(CrawlLimits())
    assert find_end(detector, report("one")) is None  # one has not reported yet
    assert find_end(detector, report("one"), report("gone")) is None
    assert find_end(detector, report("one"), report("two")) is None
    assert detector.probe == 1
    assert find_end(detector, report("one", probe=1), report("two")) is None  # it has not received the probe
    assert find_end(detector, report("one", probe=1), report("two", probe=1, work=8)) is None
    assert find_end(detector, report("one", probe=2), report("two", probe=2, start=2, work=8)) is None  # a new process
    assert find_end(detector, report("one", probe=3), report("two", probe=3, start=2, work=8)) == "finished"


def test_a_new_detector_begins_anew() -> None:
    detector = CompletionDetector(CrawlLimits())
    find_end(detector, report("one"), report("two"))
    detector.continue_from(5)
    assert find_end(detector, report("one", probe=5), report("two", probe=5)) is None
    assert detector.probe == 6


def test_limits_are_those_of_all_shards() -> None:
    reports = report("one", pages=3), report("two", pages=4)
    for limits, end in (
        (CrawlLimits(pages=7), "pages"),
        (CrawlLimits(pages=8), None),
        (CrawlLimits(seconds=10.0), "seconds"),
        (CrawlLimits(seconds=10.5), None),
        (CrawlLimits(bytes=50), "bytes"),
        (CrawlLimits(bytes=51), None),
    ):
        assert find_end(CompletionDetector(limits), *reports, seconds=10.0, bytes_=50) == end


def test_with_page_resources_it_is_over_when_the_last_pages_are_whole() -> None:
    detector = CompletionDetector(CrawlLimits(pages=7), page_resources=True)
    assert find_end(detector, report("one", pages=3, is_exhausted=True), report("two", pages=4)) is None
    exhausted = [report("one", pages=3, is_exhausted=True), report("two", pages=4, is_exhausted=True)]
    assert find_end(detector, *exhausted) is None
    exhausted = [
        report("one", probe=1, pages=3, is_exhausted=True),
        report("two", probe=1, pages=4, is_exhausted=True),
    ]
    assert find_end(detector, *exhausted) == "pages"


def test_what_waits_for_long_is_told_from_nothing() -> None:
    detector = CompletionDetector(CrawlLimits())
    for probe in (0, 1):
        progress = CrawlProgress(shard=0, is_idle=True, probe=probe, next_due=1e9)
        end = detector.find_end([ShardState((0, 1), progress)], seconds=0.0, bytes_=0)
    assert end == "waiting"
