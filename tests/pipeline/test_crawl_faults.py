"""Servers that send a crawl where it must not go, or on and on: it goes nowhere, ends, and says what it left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.pipeline.crawling import ALLOW, Linked, Setup, check_records, children, crawl_here, moved_to, seen_by, visits
from tests.pipeline.rebinding_namespace import HOSTS, IMAGES, STABLE, THERE
from tests.pipeline.test_crawl_ends import PATIENCE, command, wait_for
from tests.unit.crawl.fetch.namespace import PRIVATE, PUBLIC
from tests.unit.crawl.fetch.test_namespaces import pytestmark as needs_namespace
from webmill.crawl.options import CrawlLimits, CrawlRules
from webmill.testing import Answer, HttpReply, ReceivedRequest, ScriptedReply, TestWeb, Wait

ROOT = Path(__file__).parents[2]


@pytest.fixture
def root(memory_folder: Path) -> Path:
    return memory_folder / "collection"


@needs_namespace
def test_a_name_that_turns_private_after_its_first_answer_is_not_followed_there(root: Path) -> None:
    """N02, live: a name server of ours with a TTL of 0, IPv4, IPv6, NAT64; the servers there count who comes."""
    command = ["unshare", "--net", "--mount", sys.executable, "-m", "tests.pipeline.rebinding_namespace", str(root)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    first, news, (before, asked) = report["first"], report["news"], report["asked"]
    assert {tuple(said) for said in first.values()} == {(200, "")}
    assert first.keys() >= {f"http://{host}/" for host in (STABLE, *HOSTS)}
    assert len(first) == 1 + len(HOSTS) + len(IMAGES), "pages and their images, while the names are public"
    assert all(asked[name] > before[name] for name in (*HOSTS, *IMAGES)), "asked for again, and private"
    assert {ip: report["connected"][ip] for ip in THERE} == dict.fromkeys(THERE, 0)
    assert news[f"http://{STABLE}/later"] == [200, ""]
    refused = {url for url, (status, error) in news.items() if not status and "blocked_address" in error}
    assert refused >= {f"http://{host}/{path}" for host in HOSTS for path in ("later", "by-redirect")}
    assert refused >= {f"http://{host}/later.png" for host in IMAGES}


@needs_namespace
def test_redirects_of_pages_and_of_robots_txt_reach_no_private_address(root: Path) -> None:
    """N03 and R06: each hop is looked at before it is connected; the servers there count who comes."""
    command = ["unshare", "--net", "--mount", sys.executable, "-m", "tests.pipeline.crawl_namespace", str(root)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    known = report["visits"]
    assert report["end"] == "finished"
    assert {ip: report["connected"][ip] for ip in PRIVATE} == dict.fromkeys(PRIVATE, 0)
    assert report["connected"][PUBLIC] > 0
    assert known["http://www.public.test/page"] == [200, ""]  # a redirect to where one may go is followed
    private = {"10.0.0.8", "169.254.169.254", "127.0.0.1", "[::ffff:a00:8]", "inside.private.test"}
    reported = {
        url.split("/")[2]: printed for url, printed in known.items() if not url.startswith("http://www.public.test")
    }
    assert reported.keys() >= private
    for printed in reported.values():  # the hosts whose robots.txt led there as well
        assert printed[0] == 0
        assert printed[1].startswith("robots_unreachable: blocked_address")


@pytest.mark.parametrize("place", ["file:///etc/hostname", "javascript:alert(1)", "gopher://x.test/"])
def test_a_redirect_out_of_the_web_is_counted(root: Path, place: str) -> None:
    """N03."""
    with TestWeb(hosts=0, sites={"www.one.test": Linked(0, out=moved_to(place))}) as web:
        report = crawl_here(root, Setup(seeds=("http://www.one.test/out",), resolve=dict(web.resolve)))
    assert report.total.refused == {"redirect_refused": 1}
    assert visits(root)["http://www.one.test/out"].status == 302


class Maps(Linked):
    """robots.txt names an index of sitemaps, which names another, and so on."""

    def answer(self, request: ReceivedRequest) -> Answer:
        path = request.path.strip("/")
        if not path.startswith("map"):
            return super().answer(request)
        number = int(path.removeprefix("map"))
        body = f"<sitemap><loc>http://{request.host}/map{number + 1}</loc></sitemap>"
        return HttpReply(body=f"<sitemapindex>{body}</sitemapindex>".encode(), media_type="application/xml")


def test_indexes_of_sitemaps_without_an_end_are_left(root: Path) -> None:
    """H04: no budget of pages would end this, since a sitemap is none."""
    sites = {"www.one.test": Maps(0, robots=b"Sitemap: http://www.one.test/map0\n")}
    with TestWeb(hosts=0, sites=sites) as web:
        setup = Setup(seeds=("http://www.one.test/",), resolve=dict(web.resolve), rules=CrawlRules(scope="host"))
        report = crawl_here(root, setup)
        assert web.log.settle()
        asked = {one.path for one in seen_by(web.log)}
    assert report.end == "finished"
    assert asked == {"/robots.txt", "/", "/map0", "/map1", "/map2", "/map3"}
    assert report.total.refused == {"sitemap_too_deep": 1}


def test_a_sitemap_is_one_wherever_it_was_moved_to(root: Path) -> None:
    """`--scope path` is for pages: maps may lie in any folder."""
    body = b"<urlset><url><loc>http://www.one.test/docs/a</loc></url></urlset>"
    site = Linked(0, robots=b"Sitemap: /old.xml\n")
    site.replies |= {
        "/old.xml": moved_to("/new.xml", 301),
        "/new.xml": HttpReply(body=body, media_type="application/xml"),
    }
    with TestWeb(hosts=0, sites={"www.one.test": site}) as web:
        setup = Setup(seeds=("http://www.one.test/docs/",), resolve=dict(web.resolve), rules=CrawlRules(scope="path"))
        report = crawl_here(root, setup)
        assert web.log.settle()
        asked = [one.path for one in seen_by(web.log)]
    assert sorted(asked) == ["/docs/", "/docs/a", "/new.xml", "/old.xml", "/robots.txt"]
    assert report.total.pages == 2


def test_a_feed_that_forbids_it_is_not_followed(root: Path) -> None:
    body = b"<rss><channel><item><link>http://www.one.test/item</link></item></channel></rss>"
    feed = HttpReply(body=body, media_type="application/rss+xml", headers=(("X-Robots-Tag", "nofollow"),))
    with TestWeb(hosts=0, sites={"www.one.test": Linked(0, feed=feed)}) as web:
        setup = Setup(seeds=("http://www.one.test/feed",), resolve=dict(web.resolve), rules=CrawlRules(scope="host"))
        report = crawl_here(root, setup)
    assert (report.total.pages, report.total.refused) == (1, {"nofollow": 1})


def test_a_robots_txt_is_read_whatever_is_read_of_pages(root: Path) -> None:
    robots = ALLOW + b"# filling\n" * 1000
    with TestWeb(hosts=0, sites={"www.one.test": Linked(2, robots=robots)}) as web:
        setup = Setup(seeds=("http://www.one.test/",), resolve=dict(web.resolve), limits=CrawlLimits(body=2000))
        assert crawl_here(root, setup).total.pages == 3


def test_what_is_excluded_later_is_not_asked_any_more(root: Path) -> None:
    with TestWeb(hosts=0, sites={"www.one.test": Linked(9)}) as web:
        limits = CrawlLimits(pages=3, retry_wait=0.1)
        setup = Setup(seeds=("http://www.one.test/",), resolve=dict(web.resolve), limits=limits, rules=CrawlRules())
        crawl_here(root, setup)
        rules = CrawlRules(exclude=("/[2-7]$",))
        report = crawl_here(root, msgspec.structs.replace(setup, rules=rules, limits=CrawlLimits(retry_wait=0.1)))
        assert web.log.settle()
        asked = {one.path for one in seen_by(web.log)}
    first = {"/robots.txt", "/", "/0", "/1"}
    assert first < asked
    assert asked - first <= {"/8"} | {f"/{number}" for number in range(2, 4)}
    assert report.total.refused["excluded"] >= 5


class Moody(Linked):
    """Its second page has no answer, until it has one."""

    is_silent = True

    def answer(self, request: ReceivedRequest) -> Answer:
        if request.path == "/1" and self.is_silent:
            return ScriptedReply(steps=[Wait(1000)])
        return super().answer(request)


@pytest.mark.skipif(sys.platform != "linux", reason="its processes are found in /proc")
@pytest.mark.parametrize(
    ("signals", "code"),
    [((signal.SIGINT, signal.SIGTERM), 130), ((signal.SIGHUP,), -signal.SIGHUP)],  # two of a kind might be one
    ids=["asked twice", "the terminal is gone"],
)
def test_whoever_does_not_want_to_wait_loses_nothing(root: Path, signals: tuple[int, ...], code: int) -> None:
    """T08: a request is under way that will have no answer. Its processes end with it."""
    site = Moody(3)
    with TestWeb(hosts=0, sites={"www.one.test": site}) as web:
        begun = subprocess.Popen(
            command(root, web, ["www.one.test"], "--delay", "0s", "--processes", "1", "--no-languages"),
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        wait_for(lambda: any(visit.path == "/0" for visit in web.log) and children(begun.pid))
        shards = children(begun.pid)
        for number in signals:
            assert begun.poll() is None
            os.killpg(begun.pid, number)
        _, errors = begun.communicate(timeout=PATIENCE)
        assert begun.returncode == code, errors
        assert b"Traceback" not in errors
        wait_for(lambda: not any(Path(f"/proc/{shard}").exists() for shard in shards))
        site.is_silent = False
        again = [sys.executable, "-m", "webmill", "crawl", str(root)]
        subprocess.run(again, check=True, capture_output=True, timeout=PATIENCE)
    assert {url.rpartition("/")[2] for url, visit in visits(root).items() if visit.status == 200} >= {"", "0", "1", "2"}
    check_records(root)
    assert not list(root.rglob("*.open"))
