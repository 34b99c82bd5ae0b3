"""Orders that wait in the box of a shard: obeyed once, and dropped with the reason when they cannot be."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.pipeline.crawling import Linked, Setup, crawl_here, frontiers, seen_by
from webmill.crawl.backends import open_letter_box
from webmill.crawl.scheduler.commands import BackUp, Compact, Exclude, Include, Order
from webmill.crawl.scheduler.inbox import post_order
from webmill.testing import TestWeb


@pytest.fixture
def root(memory_folder: Path) -> Path:
    return memory_folder / "collection"


def order(root: Path, *orders: Order) -> None:
    (root / "frontier").mkdir(parents=True, exist_ok=True)
    with closing(open_letter_box(root / "frontier" / "mail-00.sqlite")) as box:
        for one in orders:
            post_order(box, one)


def test_orders_are_obeyed_in_their_order(root: Path) -> None:
    sites = {"www.a.test": Linked(2), "www.b.test": Linked(2)}
    with TestWeb(hosts=0, sites=sites) as web:
        setup = Setup(seeds=("http://www.a.test/0", "http://www.b.test/0"), resolve=dict(web.resolve))
        order(root, Exclude(("a.test", "b.test")), Include(("a.test",)), Compact())
        report = crawl_here(root, setup)
        assert web.log.settle()
        hosts = {one.host for one in seen_by(web.log)}
    assert report.total.complaint == ""
    assert hosts == {"www.a.test"}
    with frontiers(root) as (frontier,):
        assert list(frontier.excluded()) == ["b.test"]


def test_an_order_that_fails_is_dropped_with_its_reason_and_the_crawl_goes_on(root: Path) -> None:
    with TestWeb(hosts=0, sites={"www.a.test": Linked(2)}) as web:
        setup = Setup(seeds=("http://www.a.test/0",), resolve=dict(web.resolve))
        order(root, BackUp(str(root.parent / ("x" * 300))), Exclude(("b.test",)))
        report = crawl_here(root, setup)
        assert report.end == "finished"
        assert report.total.pages == 2
        assert report.total.complaint.startswith("BackUp: ")
        again = crawl_here(root, setup)
    assert again.total.complaint == ""  # it was told once
    with frontiers(root) as (frontier,):
        assert list(frontier.excluded()) == ["b.test"]
