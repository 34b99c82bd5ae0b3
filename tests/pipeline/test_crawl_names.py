"""Crawls of names that are dead in all ways beside names that are not (R-F02), judged by name server and web server."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.pipeline.crawling import Linked, Setup, check_records, crawl_here, crawl_until, seen_by, visits
from webmill.crawl.options import CrawlLimits, CrawlRules
from webmill.formats.dns import SERVER_FAILURE
from webmill.testing import TestWeb
from webmill.testing.name_server import NOT_FOUND, SimulatedNameServer, ZoneAnswer

LIVE = tuple(f"www.live{n}.test" for n in range(30))
SILENT = tuple(f"www.silent{n}.test" for n in range(60))
GONE = tuple(f"www.gone{n}.test" for n in range(15))
FAILING = tuple(f"www.failing{n}.test" for n in range(15))
SUBDOMAINS = tuple(f"silent{n}.slow.test" for n in range(30))  # of one zone


@pytest.fixture
def root(memory_folder: Path) -> Path:
    return memory_folder / "collection"


def zone(name: str, _: int) -> ZoneAnswer:
    if name in LIVE:
        return ZoneAnswer(addresses=("127.0.0.1",), delay=0.01, lies=("id",))
    if name in SILENT or name in SUBDOMAINS:
        return ZoneAnswer(is_silent=True)
    return ZoneAnswer(code=SERVER_FAILURE) if name in FAILING else NOT_FOUND


def test_live_names_do_not_wait_for_dead_ones(root: Path) -> None:
    """A handful of turns, a hundred names that nobody answers for before those that live: all pages of the living are
    there while the first of the dead is still waited for."""
    sites = {name: Linked(0) for name in LIVE}
    with TestWeb(hosts=0, sites=sites, addresses=("127.0.0.1",)) as web, SimulatedNameServer(zone) as server:
        seeds = tuple(f"http://{name}:{web.port}/" for name in (*SILENT, *SUBDOMAINS, *GONE, *FAILING, *LIVE))
        setup = Setup(
            seeds=seeds, dns_servers=(server.address,), concurrency=5, limits=CrawlLimits(retry_wait=60, seconds=200)
        )
        crawl_until(root, setup, lambda progress: progress.pages == len(LIVE))
        assert web.log.settle()
        seen = seen_by(web.log)
        asked = {question.name for question in server.asked}
    assert {one.url.split("/")[2].partition(":")[0] for one in seen if one.path == "/"} == set(LIVE)
    assert asked & set(SILENT), "they were asked for before"
    assert not [url for url, visit in visits(root).items() if "silent" in url and visit.error]
    check_records(root)


def test_names_that_fail_are_tried_again_by_the_rules_and_asked_for_once(root: Path) -> None:
    with SimulatedNameServer(zone) as server:
        seeds = tuple(f"http://{name}/" for name in (*GONE, *FAILING))
        setup = Setup(
            seeds=seeds,
            dns_servers=(server.address,),
            limits=CrawlLimits(attempts=3, retry_wait=0.1),
            rules=CrawlRules(scope="host", sitemaps=False),
            obey_robots=False,
        )
        assert crawl_here(root, setup).end == "finished"
        errors = {url.split("/")[2]: visit.error.partition(":")[0] for url, visit in visits(root).items()}
        asked = Counter(question.name for question in server.asked if question.kind == 1)
    assert errors == {**dict.fromkeys(GONE, "dns_notfound"), **dict.fromkeys(FAILING, "dns_failed")}
    assert asked == dict.fromkeys((*GONE, *FAILING), 1), "what a name server says is remembered"
