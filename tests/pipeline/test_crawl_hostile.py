"""Crawls of a web that means no good: they end, and each URL ends with a record or with a reason."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.pipeline.crawling import (
    NAME,
    Linked,
    Setup,
    captures,
    check_records,
    crawl_here,
    crawl_until,
    moved_to,
    seen_by,
    visits,
)
from webmill.archive.segment import open_stored
from webmill.collection import Collection
from webmill.crawl.options import CrawlLimits, CrawlRules
from webmill.crawl.scheduler import shard_crawler
from webmill.crawl.visit import answer_reading
from webmill.crawl.visit.sitemap_links import FIRST_SITEMAPS
from webmill.formats.warc import digest
from webmill.formats.warc.single_record import read_record_at
from webmill.testing import Answer, HttpReply, ReceivedRequest, TestWeb, smallest_gap
from webmill.testing import AnswerLimits as WebLimits

DISPUTED = {"http://broken.harvest.test/blank-first"}  # see the test of that name
MANY = r"/(page|after)/[0-9]{3,}$"  # of tens of thousands of pages, which are all the same, a hundred are asked for
QUICK = CrawlLimits(retry_wait=0.05, attempts=2, deadline=3.0, body=1 << 20)


@pytest.fixture
def root(memory_folder: Path) -> Path:
    return memory_folder / "collection"


@contextmanager
def listening() -> Iterator[tuple[int, list[object]]]:
    """A port where nobody may come, and who came."""
    came: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        ending = threading.Event()

        def listen() -> None:
            while not ending.is_set():
                try:
                    connection, address = server.accept()
                except TimeoutError:
                    continue
                came.append(address)
                connection.close()

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield server.getsockname()[1], came
        finally:
            ending.set()
            thread.join()


@pytest.mark.slow
@pytest.mark.parametrize(
    "host",
    ["broken.harvest.test", "slow.harvest.test", "bombs.harvest.test", "packed.grain.example", "letters.grain.example",
     "codes.mill.example", "moved.mill.example", "files.mill.example", "signs.grain.example", "maps.mill.example"],
)  # fmt: skip
def test_every_url_of_a_hostile_host_ends_with_a_record_or_a_reason(root: Path, host: str) -> None:
    with TestWeb(hosts=1, pace=0.01, limits=WebLimits(answer_bytes=4 << 20, answer_seconds=5.0)) as web:
        rules = CrawlRules(scope="host", skip_binary=False, exclude=(MANY,))
        setup = Setup(
            seeds=(f"http://{host}/",), resolve=dict(web.resolve), limits=QUICK, rules=rules, max_retry_after=0.2
        )
        report = crawl_here(root, setup)
    assert report.end == "finished"
    known = visits(root)
    assert len(known) > 5
    assert "internal" not in report.total.errors
    check_records(root)
    assert captures(root, disputed=DISPUTED)


def test_empty_lines_before_an_answer_are_stored_and_are_no_head(root: Path) -> None:
    """To warcio the first empty line ends the head, and all of the message is payload: there the digests differ."""
    [url] = DISPUTED
    with TestWeb(hosts=1) as web:
        crawl_here(root, Setup(seeds=(url,), resolve=dict(web.resolve), rules=CrawlRules(scope="path")))
    visit = visits(root)[url]
    with open_stored(Collection(root.resolve(), NAME), visit.filename) as stream:
        stream.seek(visit.offset)
        record = read_record_at(stream.read(visit.length))
    blank, _, rest = record.content.partition(b"HTTP/1.1 200")
    assert blank == b"\r\n\r\n"
    assert record.payload_digest == digest.compute(rest.partition(b"\r\n\r\n")[2])
    assert digest.check(record.headers, record.content) == digest.DigestCheck(
        digest.DigestVerdict.OK, digest.DigestVerdict.OK
    )


def test_a_host_whose_answers_cost_much_cpu_is_asked_less_often(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_reading, "CPU_PER_ANSWER", 1e-6)
    monkeypatch.setattr(answer_reading, "CPU_REST", 1e4)  # 10 ms for each microsecond: any page takes many
    with TestWeb(hosts=1, pages_per_host=2) as web:
        setup = Setup(seeds=(web.home,), resolve=dict(web.resolve), rules=CrawlRules(scope="host", sitemaps=False))
        report = crawl_here(root, setup)
        pages = [visit for visit in web.log.visits() if visit.path.endswith((".html", "/"))]
    assert report.end == "finished"
    assert len(pages) > 3
    assert smallest_gap(pages) >= 0.01


class Listing(Linked):
    """Its pages have no links; a sitemap lists them."""

    def answer(self, request: ReceivedRequest) -> Answer:
        if request.path == "/robots.txt":
            return HttpReply(body=f"Sitemap: http://{request.host}/map.xml\n".encode(), media_type="text/plain")
        if request.path == "/map.xml":
            listed = "".join(f"<url><loc>/{number}</loc></url>" for number in range(self._pages))
            return HttpReply(body=f"<urlset>{listed}</urlset>".encode(), media_type="text/xml")
        return HttpReply(body=f"<html><body>{request.host}{request.path}</body></html>".encode())


@pytest.fixture
def sliced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer counts as large, and few links as many."""
    monkeypatch.setattr(answer_reading, "READ_AT_ONCE", 1)
    monkeypatch.setattr(shard_crawler, "LINKS_PER_BATCH", 7)
    monkeypatch.setattr(shard_crawler, "LINKS_AT_THE_END", 7)


LISTED = {f"/{number}" for number in range(60)}


@pytest.mark.usefixtures("sliced")
def test_all_links_of_long_sitemaps_are_followed_once(root: Path) -> None:
    hosts = ("one.test", "two.test", "www.three.test")
    sites = {"one.test": Listing(60), "two.test": Listing(60), "www.three.test": Linked(60)}
    with TestWeb(hosts=0, sites=sites) as web:
        setup = Setup(seeds=tuple(f"http://{host}/" for host in hosts), resolve=dict(web.resolve))
        assert crawl_here(root, setup).end == "finished"
        asked = sorted((visit.host, visit.path) for visit in web.log.visits())
    assert len(asked) == len(set(asked))
    for host in hosts:
        assert {path for name, path in asked if name == host} >= LISTED
    check_records(root)


@pytest.mark.usefixtures("sliced")
def test_a_sitemap_whose_links_a_stop_has_cut_off_is_read_again(root: Path) -> None:
    with TestWeb(hosts=0, sites={"one.test": Listing(60)}) as web:
        setup = Setup(seeds=("http://one.test/",), resolve=dict(web.resolve), delay=0.05)
        crawl_until(root, setup, lambda _: any(visit.path == "/map.xml" for visit in web.log.visits()))
        assert not {visit.path for visit in web.log.visits()} >= LISTED
        assert crawl_here(root, setup).end == "finished"
        asked = [visit.path for visit in web.log.visits()]
    assert set(asked) >= LISTED
    assert all(asked.count(path) == 1 for path in LISTED)
    check_records(root)


class SitemapFlood(Linked):
    """robots.txt names 200 sitemaps, each of them an index of 100 more, the last of them the newest."""

    def answer(self, request: ReceivedRequest) -> Answer:
        if request.path == "/robots.txt":
            return HttpReply(body=b"".join(b"Sitemap: http://flood.test/map/%d\n" % n for n in range(200)))
        if not request.path.startswith("/map/"):
            return super().answer(request)
        named = "".join(
            f"<sitemap><loc>{request.path}-{n}</loc><lastmod>{2000 + n}</lastmod></sitemap>" for n in range(100)
        )
        return HttpReply(body=f"<sitemapindex>{named}</sitemapindex>".encode(), media_type="text/xml")


def test_sitemaps_without_end_do_not_keep_pages_waiting(root: Path) -> None:
    with TestWeb(hosts=0, sites={"flood.test": SitemapFlood(20)}) as web:
        limits = CrawlLimits(pages=21, retry_wait=0.2)
        crawl_here(root, Setup(seeds=("http://flood.test/",), resolve=dict(web.resolve), limits=limits))
        asked = [visit.path for visit in web.log.visits()]
    sitemaps = [path for path in asked if path.startswith("/map/")]
    assert {path for path in asked if path not in sitemaps} == {"/robots.txt", "/", *(f"/{n}" for n in range(20))}
    assert len(sitemaps) == FIRST_SITEMAPS + FIRST_SITEMAPS**2
    assert {path.partition("-")[2] for path in sitemaps if "-" in path} == {"99", "98", "97", "96", "95"}


@pytest.mark.slow
def test_each_kind_of_robots_txt_is_survived(root: Path) -> None:
    """429 and 5xx say "not now": after a few tries their pages are given up, with that reason."""
    with TestWeb(hosts=1, pace=0.01) as web:
        names = [name for name in web.resolve if name.endswith(".rules.test") and not name.startswith("delay")]
        seeds = tuple(f"http://{name}/{page}" for name in names for page in ("open.html", "closed.html"))
        setup = Setup(seeds=seeds, resolve=dict(web.resolve), limits=QUICK, rules=CrawlRules(scope="host"))
        report = crawl_here(root, setup)
        assert web.log.settle()
        asked = {one.url for one in seen_by(web.log)}
    assert report.end == "finished"
    known = visits(root)
    assert known.keys() >= set(seeds)
    for name, path in [("some", "closed"), ("forbid", "open"), ("huge", "open"), ("moved-host", "closed"),
                       ("bom", "closed"), ("slow", "closed"), ("status-503", "open"), ("reset", "open")]:  # fmt: skip
        url = f"http://{name}.rules.test/{path}.html"
        assert url not in asked, url
        assert known[url].error.startswith("robots"), known[url]
    for name in ("allow", "empty", "status-404", "status-403", "moved-loop", "far", "html", "binary"):
        assert f"http://{name}.rules.test/open.html" in asked, name
    check_records(root)


def test_traps_end_and_are_counted(root: Path) -> None:
    with TestWeb(hosts=1) as web:
        pages = ("calendar/2024-01", "grow/", "session", "shop", "hosts")
        seeds = tuple(f"http://maze.grain.example/{page}" for page in pages)
        limits = CrawlLimits(retry_wait=0.05, pages=400)
        setup = Setup(seeds=seeds, resolve=dict(web.resolve), rules=CrawlRules(scope="host"), limits=limits)
        report = crawl_here(root, setup)
    assert any(reason.startswith("trap_") for reason in report.total.refused), report.total.refused
    assert report.end in ("finished", "pages")


def test_redirects_in_circles_and_for_ever_end(root: Path) -> None:
    with TestWeb(hosts=1) as web:
        seeds = tuple(f"http://moved.mill.example/{path}" for path in ("loop/a", "self", "forever/1", "chain/5"))
        setup = Setup(seeds=seeds, resolve=dict(web.resolve))
        report = crawl_here(root, setup)
        assert web.log.settle()
        paths = [one.path for one in seen_by(web.log)]
    assert report.end == "finished"
    assert len(paths) == len(set(paths))
    assert sum(path.startswith("/forever/") for path in paths) == 11
    assert report.total.refused["too_many_redirects"] == 1
    assert "/target" in paths


def test_private_addresses_are_refused_without_a_connection(root: Path) -> None:
    with listening() as (port, came):
        seeds = tuple(f"http://{host}:{port}/" for host in ("127.0.0.1", "127.1", "[::ffff:7f00:1]", "localhost.test"))
        seeds = (*seeds, f"http://2130706433:{port}/")
        setup = Setup(
            seeds=tuple(map(normal, seeds)),
            resolve={"localhost.test": ("127.0.0.1", port)},
            allow_private=False,
            limits=QUICK,
        )
        report = crawl_here(root, setup)
    assert report.end == "finished"
    assert came == []
    assert report.total.pages == report.total.fetched == 0
    assert {visit.error.partition(":")[0] for visit in visits(root).values()} <= {
        "blocked_address", "blocked_port", "robots_unreachable",
    }  # fmt: skip


def normal(url: str) -> str:
    from webmill.formats.url.normalise import join

    return join(url, "")


@pytest.mark.parametrize(
    "place",
    ["file:///etc/hostname", "javascript:alert(1)", "data:text/html,x", "gopher://x.test/", "ftp://x.test/", ""],
)
def test_a_redirect_out_of_the_web_leads_nowhere(root: Path, place: str) -> None:
    with TestWeb(hosts=0, sites={"www.one.test": Linked(0, out=moved_to(place))}) as web:
        report = crawl_here(root, Setup(seeds=("http://www.one.test/out",), resolve=dict(web.resolve)))
    known = visits(root)
    assert known["http://www.one.test/out"].status == 302
    assert report.end == "finished"
    assert {url.partition(":")[0] for url in known} == {"http"}
