"""Orders that wait in the box of a shard: obeyed once, and dropped with the reason when they cannot be."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.pipeline.crawling import Linked, Setup, crawl_here, frontiers, seen_by
from webmill.crawl.backends import open_inbox
from webmill.crawl.scheduler.commands import (
    BackUpFrontier,
    CompactFrontier,
    ExcludeDomains,
    IncludeDomains,
    ShardCommand,
)
from webmill.crawl.scheduler.inbox import publish_command
from webmill.testing import TestWeb


@pytest.fixture
def root(memory_folder: Path) -> Path:
    return memory_folder / "collection"


def order(root: Path, *orders: ShardCommand) -> None:
    (root / "frontier").mkdir(parents=True, exist_ok=True)
    with closing(open_inbox(root / "frontier" / "mail-00.sqlite")) as box:
        for one in orders:
            publish_command(box, one)


def test_orders_are_obeyed_in_their_order(root: Path) -> None:
    sites = {"www.a.test": Linked(2), "www.b.test": Linked(2)}
    with TestWeb(hosts=0, sites=sites) as web:
        setup = Setup(seeds=("http://www.a.test/0", "http://www.b.test/0"), resolve=dict(web.resolve))
        order(root, ExcludeDomains(("a.test", "b.test")), IncludeDomains(("a.test",)), CompactFrontier())
        report = crawl_here(root, setup)
        assert web.log.settle()
        hosts = {one.host for one in seen_by(web.log)}
    assert report.total.command_error == ""
    assert hosts == {"www.a.test"}
    with frontiers(root) as (frontier,):
        assert list(frontier.excluded()) == ["b.test"]


def test_an_order_that_fails_is_dropped_with_its_reason_and_the_crawl_goes_on(root: Path) -> None:
    with TestWeb(hosts=0, sites={"www.a.test": Linked(2)}) as web:
        setup = Setup(seeds=("http://www.a.test/0",), resolve=dict(web.resolve))
        order(root, BackUpFrontier(str(root.parent / ("x" * 300))), ExcludeDomains(("b.test",)))
        report = crawl_here(root, setup)
        assert report.end == "finished"
        assert report.total.pages == 2
        assert report.total.command_error.startswith("BackUpFrontier: ")
        again = crawl_here(root, setup)
    assert again.total.command_error == ""  # it was told once
    with frontiers(root) as (frontier,):
        assert list(frontier.excluded()) == ["b.test"]
