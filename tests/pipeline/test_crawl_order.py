"""`--order best`: domains that others link to give more of a bounded number of pages. Judged by the server's log."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.pipeline.crawling import Linked, Setup, counts, crawl_here, seen_by
from webmill.crawl.options import CrawlLimits, CrawlRules
from webmill.testing import HttpReply, TestWeb

POOR = [f"www.p{number}.test" for number in range(40)]
GOOD = "www.good.test"


@pytest.fixture
def root(memory_folder: Path) -> Path:
    return memory_folder / "collection"


class Recommending(Linked):
    """Endless pages, the first of which has a link to the good domain."""

    def __init__(self) -> None:
        links = f'<a href="http://{GOOD}/">good</a>' + "".join(f'<a href="/{number}">x</a>' for number in range(40))
        super().__init__(40)
        self.replies["/"] = HttpReply(body=f"<html><body>{links}</body></html>".encode())


def crawled(root: Path, order: str, *, processes: int = 1) -> Counter[str]:
    """Return how many pages each host gave of 200."""
    sites = {name: Recommending() for name in POOR} | {GOOD: Linked(60)}
    with TestWeb(hosts=0, sites=sites) as web:
        setup = Setup(
            seeds=tuple(f"http://{name}/" for name in POOR),
            resolve=dict(web.resolve),
            processes=processes,
            delay=0.25,
            limits=CrawlLimits(retry_wait=0.2, pages=200),
            rules=CrawlRules(scope="any", order=order),  # type: ignore[arg-type]
        )
        report = crawl_here(root, setup)
        assert report.end == "pages"
        assert report.total.pages == 200
        assert web.log.settle()
        seen = [one for one in seen_by(web.log) if not one.is_robots]
        assert set(counts(seen).values()) == {1}
        return Counter(one.host for one in seen)


def test_a_domain_that_others_link_to_gives_more_pages(root: Path) -> None:
    breadth, best = crawled(root / "breadth", "breadth"), crawled(root / "best", "best")
    assert best[GOOD] > breadth[GOOD]
    assert set(best) == {*POOR, GOOD}


def test_every_page_is_asked_for_once_over_processes(root: Path) -> None:
    assert crawled(root, "best", processes=2).total() == 200
