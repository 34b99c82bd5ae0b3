"""Requisites of a crawl whose frontier is in Redis: the last page that its nodes may ask for is whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.crawling import Setup, counts, seen_by
from tests.pipeline.test_crawl_requisites import CLOSED, GALLERY, NEEDED, ROBOTS, WHOLE
from tests.services.crawl_nodes import NodeProgram, NodeSetup, nodes, visits
from tests.services.redis_kinds import private_redis
from webmill.crawl.options import CrawlLimits
from webmill.testing import TestWeb

pytestmark = [pytest.mark.server("redis"), pytest.mark.timeout(600)]


def test_a_page_and_all_that_it_needs_is_asked_for_once(tmp_path: Path) -> None:
    root = tmp_path / "collection"
    with TestWeb(hosts=1) as web, private_redis() as redis:
        crawl = Setup(
            seeds=(f"{GALLERY}/whole",),
            resolve=dict(web.resolve),
            rules=WHOLE,
            delay=5.0,
            page_resource_delay=0.02,
            limits=CrawlLimits(retry_wait=0.2, pages=1),
        )
        with nodes(lambda: NodeProgram(root, NodeSetup(url=redis.url, crawl=crawl, shards=2))) as started:
            printed = started[0].ended()
        assert web.log.settle()
        asked, known = counts(seen_by(web.log)), visits(redis.url, root)
    assert (printed["end"], printed["pages"]) == ("pages", 1)
    assert asked == dict.fromkeys({f"{GALLERY}/whole", *NEEDED, *ROBOTS}, 1)
    assert known.keys() == {f"{GALLERY}/whole", *NEEDED, CLOSED}
