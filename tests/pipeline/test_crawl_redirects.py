"""Redirects that never end are followed as far as was said: over restarts, and from one shard to the other and back."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.pipeline.crawling import Linked, Setup, crawl_here, moved_to, seen_by, visits
from webmill.crawl.options import CrawlLimits
from webmill.testing import Answer, ReceivedRequest, TestWeb

LIMITS = CrawlLimits(retry_wait=0.2, redirects=6)


class Onward(Linked):
    """Each page leads to the next one of the other host."""

    def __init__(self, other: str) -> None:
        super().__init__(0)
        self._other = other

    def answer(self, request: ReceivedRequest) -> Answer:
        if request.path == "/robots.txt":
            return super().answer(request)
        return moved_to(f"http://{self._other}/{int(request.path[1:]) + 1}")


@pytest.mark.parametrize("processes", [1, 2])
def test_a_chain_without_an_end_is_followed_as_far_as_was_said_over_restarts(tmp_path: Path, processes: int) -> None:
    hosts = ["www.d0.test", "www.d5.test"]  # of two shards
    with TestWeb(hosts=0, sites={host: Onward(hosts[1 - at]) for at, host in enumerate(hosts)}) as web:
        setup = Setup(seeds=(f"http://{hosts[0]}/0",), resolve=dict(web.resolve), processes=processes, limits=LIMITS)
        reports = []
        for pages in (2, 4, 30):  # in all: it is stopped twice on the way
            limits = msgspec.structs.replace(LIMITS, pages=pages)
            reports.append(crawl_here(tmp_path / "root", msgspec.structs.replace(setup, limits=limits)))
        assert web.log.settle()
        asked = [one.path for one in seen_by(web.log) if one.path != "/robots.txt"]
    assert [report.end for report in reports] == ["pages", "pages", "finished"]
    assert asked == [f"/{number}" for number in range(7)]
    assert reports[-1].total.refused["too_many_redirects"] == 1
    assert sorted(visit.redirects for visit in visits(tmp_path / "root").values()) == list(range(7))
