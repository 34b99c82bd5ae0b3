"""Servers that send a crawl where it must not go, or on and on: it goes nowhere, ends, and says what it left."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.crawling import Linked, Setup, crawl_here, moved_to, seen_by, visits
from tests.unit.crawl.fetch.namespace import PRIVATE, PUBLIC
from tests.unit.crawl.fetch.test_namespaces import pytestmark as needs_namespace
from webmill.flows.crawl.options import Rules
from webmill.testing import Answer, Reply, Request, TestWeb

ROOT = Path(__file__).parents[2]


@pytest.fixture
def root() -> Iterator[Path]:
    memory = Path("/dev/shm")
    base = Path(tempfile.mkdtemp(prefix="webmill-test-", dir=memory if memory.is_dir() else None))
    yield base / "collection"
    shutil.rmtree(base)


@needs_namespace
def test_redirects_of_pages_and_of_robots_txt_reach_no_private_address(root: Path) -> None:
    """N03 and R06: each hop is looked at before it is connected; the servers there count who comes."""
    command = ["unshare", "--net", "--mount", sys.executable, "-m", "tests.flows.crawl_namespace", str(root)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    known = report["visits"]
    assert report["end"] == "finished"
    assert {ip: report["connected"][ip] for ip in PRIVATE} == dict.fromkeys(PRIVATE, 0)
    assert report["connected"][PUBLIC] > 0
    assert known["http://www.public.test/page"] == [200, ""]  # a redirect to where one may go is followed
    private = {"10.0.0.8", "169.254.169.254", "127.0.0.1", "[::ffff:a00:8]", "inside.private.test"}
    told = {url.split("/")[2]: said for url, said in known.items() if not url.startswith("http://www.public.test")}
    assert told.keys() >= private
    for said in told.values():  # the hosts whose robots.txt led there as well
        assert said[0] == 0
        assert said[1].startswith("robots_unreachable: blocked_address")


@pytest.mark.parametrize("place", ["file:///etc/hostname", "javascript:alert(1)", "gopher://x.test/"])
def test_a_redirect_out_of_the_web_is_counted(root: Path, place: str) -> None:
    """N03."""
    with TestWeb(hosts=0, sites={"www.one.test": Linked(0, out=moved_to(place))}) as web:
        report = crawl_here(root, Setup(seeds=("http://www.one.test/out",), resolve=dict(web.resolve)))
    assert report.total.refused == {"redirect_refused": 1}
    assert visits(root)["http://www.one.test/out"].status == 302


class Maps(Linked):
    """robots.txt names an index of sitemaps, which names another, and so on."""

    def answer(self, request: Request) -> Answer:
        path = request.path.strip("/")
        if not path.startswith("map"):
            return super().answer(request)
        number = int(path.removeprefix("map"))
        body = f"<sitemap><loc>http://{request.host}/map{number + 1}</loc></sitemap>"
        return Reply(body=f"<sitemapindex>{body}</sitemapindex>".encode(), media_type="application/xml")


def test_indexes_of_sitemaps_without_an_end_are_left(root: Path) -> None:
    """H04: no budget of pages would end this, since a sitemap is none."""
    sites = {"www.one.test": Maps(0, robots=b"Sitemap: http://www.one.test/map0\n")}
    with TestWeb(hosts=0, sites=sites) as web:
        setup = Setup(seeds=("http://www.one.test/",), resolve=dict(web.resolve), rules=Rules(scope="host"))
        report = crawl_here(root, setup)
        assert web.log.settle()
        asked = {one.path for one in seen_by(web.log)}
    assert report.end == "finished"
    assert asked == {"/robots.txt", "/", "/map0", "/map1", "/map2", "/map3"}
    assert report.total.refused == {"sitemap_too_deep": 1}
