"""Crawls that fetch what pages need to be seen, judged by the log of the server."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from tests.pipeline.crawl_manners import check_manners, keep_journal
from tests.pipeline.crawling import (
    Linked,
    Setup,
    captures,
    check_records,
    counts,
    crawl_here,
    crawl_until,
    most_at_once,
    moved_to,
    seen_by,
    visits,
)
from webmill.crawl.options import CrawlLimits, CrawlRules, RevisitSchedule
from webmill.crawl.visit.recent_links import FREE_PAGES
from webmill.testing import Answer, HttpReply, ReceivedRequest, TestWeb
from webmill.testing.features.page_resources import CDN, HOST

GALLERY, DEPOT = f"http://{HOST}", f"http://{CDN}"
PAGES = {f"{GALLERY}/whole", f"{GALLERY}/other"}
OWN = {
    *("icon.png", "look/inline.css", "frame"),
    *(f"pictures/{name}.png" for name in ("head", "one", "one-large", "two", "two-old", "styled", "framed")),
    *(f"pictures/{name}.png" for name in ("moved", "found")),
}
OF_DEPOT = {
    *("look/main.css", "look/more.css", "look/mill.woff2", "script.js", "frame"),
    *(f"pictures/{name}.png" for name in ("depot", "wall", "deep", "framed")),
}
NEEDED = {*(f"{GALLERY}/{path}" for path in OWN), *(f"{DEPOT}/{path}" for path in OF_DEPOT)}
CLOSED = f"{DEPOT}/closed/secret.png"
ROBOTS = {f"{GALLERY}/robots.txt", f"{DEPOT}/robots.txt"}
BEHIND = f"{GALLERY}/behind-the-frame"
WHOLE = CrawlRules(scope="host", page_resources=True)


@pytest.fixture
def root(memory_folder: Path) -> Path:
    keep_journal(memory_folder / "collection")
    return memory_folder / "collection"


def setup_for(web: TestWeb, **given: object) -> Setup:
    setup = Setup(seeds=(f"{GALLERY}/whole",), resolve=dict(web.resolve), rules=WHOLE)
    return msgspec.structs.replace(setup, **given)


@pytest.mark.parametrize("processes", [1, 2], ids=["one process", "two processes"])
def test_all_that_a_page_needs_is_asked_for_once_and_nothing_else(root: Path, processes: int) -> None:
    with TestWeb(hosts=1) as web:
        report = crawl_here(root, setup_for(web, processes=processes))
        assert web.log.settle()
        seen = seen_by(web.log)
    pages = {*PAGES, BEHIND}  # a frame in scope is a page as well: its links are followed
    assert counts(seen) == dict.fromkeys({*pages, *NEEDED, *ROBOTS}, 1)
    assert most_at_once(seen) == 1
    assert report.end == "finished"
    assert report.total.pages == len(pages)
    assert report.total.page_resources == len(NEEDED)
    known = visits(root)
    assert known.keys() == {*pages, *NEEDED, CLOSED}
    assert known[CLOSED].error == "robots"
    check_records(root)
    assert {url for _, url, _ in captures(root)} == {*pages, *NEEDED, *ROBOTS}


def test_without_the_flag_no_requisite_is_asked_for(root: Path) -> None:
    with TestWeb(hosts=1) as web:
        crawl_here(root, setup_for(web, rules=CrawlRules(scope="host")))
        assert web.log.settle()
        asked = counts(seen_by(web.log))
    assert asked.keys() == {*PAGES, f"{GALLERY}/frame", BEHIND, f"{GALLERY}/robots.txt"}


@pytest.mark.parametrize("processes", [1, 2], ids=["one process", "two processes"])
def test_the_last_page_that_may_be_asked_for_is_whole_too(root: Path, processes: int) -> None:
    with TestWeb(hosts=1) as web:
        setup = setup_for(web, processes=processes, limits=CrawlLimits(retry_wait=0.2, pages=1))
        report = crawl_here(root, setup)
        assert web.log.settle()
        assert (report.end, report.total.pages) == ("pages", 1)
        assert counts(seen_by(web.log)) == dict.fromkeys({f"{GALLERY}/whole", *NEEDED, *ROBOTS}, 1)
        again = crawl_here(root, setup)  # it finds nothing to do
        assert (again.end, again.total.pages) == ("pages", 1)
        more = crawl_here(root, setup_for(web, processes=processes, limits=CrawlLimits(retry_wait=0.2, pages=2)))
        assert web.log.settle()
        asked = counts(seen_by(web.log))
    assert (more.end, more.total.pages) == ("pages", 2)
    assert len(asked.keys() & {*PAGES, BEHIND}) == 2
    assert set(asked.values()) == {1}


def test_what_a_domain_may_give_is_pages_and_not_pictures(root: Path) -> None:
    with TestWeb(hosts=1) as web:
        report = crawl_here(root, setup_for(web, limits=CrawlLimits(retry_wait=0.2, pages_per_domain=1)))
        assert web.log.settle()
        asked = counts(seen_by(web.log))
    assert report.total.pages == 1
    assert asked == dict.fromkeys({f"{GALLERY}/whole", *NEEDED, *ROBOTS}, 1)


def test_exclusions_count_for_requisites_and_skipped_endings_do_not(root: Path) -> None:
    with TestWeb(hosts=1) as web:
        rules = CrawlRules(scope="path", include=("whole",), exclude=("two", r"\.css$"), page_resources=True)
        crawl_here(root, setup_for(web, rules=rules, excluded=("depot.example",)))
        assert web.log.settle()
        asked = counts(seen_by(web.log)).keys()
    own = {url for url in NEEDED if url.startswith(GALLERY) and "two" not in url and not url.endswith(".css")}
    assert asked == {f"{GALLERY}/whole", f"{GALLERY}/robots.txt", *own}


def test_sheets_that_import_each_other_without_end_come_to_an_end(root: Path) -> None:
    with TestWeb(hosts=1) as web:
        report = crawl_here(
            root, setup_for(web, seeds=(f"{GALLERY}/endless",), limits=CrawlLimits(retry_wait=0.2, page_resources=40))
        )
        assert web.log.settle()
        sheets = [one for one in seen_by(web.log) if one.path.startswith("/endless.css")]
    assert report.end == "finished"
    assert 10 < len(sheets) <= 40
    assert report.total.refused["too_many_requisites"]


def test_a_page_brings_no_more_than_it_may(root: Path) -> None:
    with TestWeb(hosts=1) as web:
        setup = setup_for(web, seeds=(f"{GALLERY}/many/30",), limits=CrawlLimits(retry_wait=0.2, page_resources=12))
        report = crawl_here(root, setup)
        assert web.log.settle()
        pictures = [one.path for one in seen_by(web.log) if one.path.startswith("/pictures/")]
    assert sorted(pictures) == sorted(f"/pictures/{number}.png" for number in range(12))
    assert report.total.refused == {"too_many_requisites": 18}


def test_what_a_sheet_names_for_which_nothing_is_left_is_counted(root: Path) -> None:
    site = Linked(0, sheet=HttpReply(body=b"a{b:url(/never.png)}", media_type="text/css"))
    site.replies["/"] = HttpReply(body=b"<html><link rel=stylesheet href=/sheet><img src=/strange><img src=/beyond>")
    site.replies["/strange"] = HttpReply(body=b"<html><img src=/of-no-picture>")
    with TestWeb(hosts=0, sites={"a.example": site}) as web:
        setup = Setup(seeds=("http://a.example/",), resolve=dict(web.resolve), rules=WHOLE)
        report = crawl_here(root, msgspec.structs.replace(setup, limits=CrawlLimits(retry_wait=0.2, page_resources=2)))
        assert web.log.settle()
        paths = {one.path for one in seen_by(web.log)}
    assert paths == {"/robots.txt", "/", "/sheet", "/strange"}
    assert report.total.refused == {"too_many_requisites": 2}


def test_what_cannot_be_had_is_tried_less_often_than_a_page(root: Path) -> None:
    broken = HttpReply(status=500, body=b"not now")
    site = Linked(0, picture=broken, page=broken)
    site.replies["/"] = HttpReply(body=b"<html><img src=/picture><a href=/page>")
    with TestWeb(hosts=0, sites={"a.example": site}) as web:
        setup = Setup(seeds=("http://a.example/",), resolve=dict(web.resolve), rules=WHOLE)
        crawl_here(root, msgspec.structs.replace(setup, limits=CrawlLimits(retry_wait=0.05, attempts=3)))
        assert web.log.settle()
        asked = Counter(one.path for one in seen_by(web.log))
    assert asked == {"/robots.txt": 1, "/": 1, "/picture": 2, "/page": 3}


def test_what_a_page_needs_is_not_waited_for_longer_than_was_said(root: Path) -> None:
    site = Linked(0, picture=HttpReply(status=503, headers=(("Retry-After", "86400"),)))
    site.replies["/"] = HttpReply(body=b"<html><img src=/picture><img src=/other><a href=/page>")
    with TestWeb(hosts=0, sites={"a.example": site}) as web:
        setup = Setup(seeds=("http://a.example/",), resolve=dict(web.resolve), rules=WHOLE)
        report = crawl_here(root, msgspec.structs.replace(setup, limits=CrawlLimits(pages=1, wait=3600)))
    assert (report.end, report.total.pages) == ("pages", 1)
    assert report.total.resource_due is not None
    assert report.total.waiting >= 2  # the picture and the page


def test_a_requisite_that_leads_out_of_the_web_is_counted(root: Path) -> None:
    site = Linked(0, picture=moved_to("javascript:alert(1)"))
    site.replies["/"] = HttpReply(body=b"<html><img src=/picture>")
    with TestWeb(hosts=0, sites={"a.example": site}) as web:
        report = crawl_here(root, Setup(seeds=("http://a.example/",), resolve=dict(web.resolve), rules=WHOLE))
    assert report.total.refused == {"redirect_refused": 1}


def test_requisites_come_sooner_than_pages_and_never_two_at_once(root: Path) -> None:
    with TestWeb(hosts=1) as web:
        crawl_here(root, setup_for(web, delay=2.0, page_resource_delay=0.05, window=2.0))
        assert web.log.settle()
        seen = seen_by(web.log)
    pages = [one for one in seen if one.url in {*PAGES, BEHIND}]
    assert counts(seen) == dict.fromkeys({*PAGES, BEHIND, *NEEDED, *ROBOTS}, 1)
    assert most_at_once(seen) == 1
    check_manners(root, pages, host=2.0, domain=2.0)
    check_manners(root, seen, soon_host=0.05, soon_domain=0.05)
    own = [one.path for one in seen if one.host == HOST and not one.is_robots]
    assert own[0] == "/whole"
    assert {f"{GALLERY}{path}" for path in own[1 : len(OWN) + 1]} <= NEEDED  # all of them before the next page


def test_an_address_is_asked_no_sooner_for_requisites_than_for_pages(root: Path) -> None:
    with TestWeb(hosts=1) as web:
        limits = CrawlLimits(retry_wait=0.2, pages=1)
        crawl_here(
            root, setup_for(web, delay=0.3, address_delay=0.1, page_resource_delay=0.01, window=2.0, limits=limits)
        )
        assert web.log.settle()
        seen = seen_by(web.log)
    assert counts(seen) == dict.fromkeys({f"{GALLERY}/whole", *NEEDED, *ROBOTS}, 1)
    check_manners(root, seen, address=0.1)


def test_a_crawl_delay_lies_between_requisites_too(root: Path) -> None:
    site = Linked(0, robots=b"User-agent: *\nCrawl-delay: 0.3\n")
    site.replies["/"] = HttpReply(body=b"<html><img src=/a.png><img src=/b.png>")
    with TestWeb(hosts=0, sites={"slow.example": site}) as web:
        setup = Setup(seeds=("http://slow.example/",), resolve=dict(web.resolve), rules=WHOLE, window=1.0)
        crawl_here(root, setup)
        assert web.log.settle()
        seen = seen_by(web.log)
    assert {one.path for one in seen} == {"/robots.txt", "/", "/a.png", "/b.png"}
    check_manners(root, [one for one in seen if not one.is_robots], soon_host=0.3)


@pytest.mark.parametrize("rules", [WHOLE, CrawlRules(scope="any")], ids=["requisites", "pages"])
def test_a_crawl_delay_lies_before_a_robots_txt_that_another_host_leads_to(root: Path, rules: CrawlRules) -> None:
    slow = Linked(1, robots=b"User-agent: *\nCrawl-delay: 0.3\n")
    sites = {"slow.example": slow, "moved.example": Linked(1)}
    sites["moved.example"].replies["/robots.txt"] = moved_to("http://slow.example/robots.txt")
    with TestWeb(hosts=0, sites=sites) as web:
        for seed in ("http://slow.example/", "http://moved.example/"):
            crawl_here(root, Setup(seeds=(seed,), resolve=dict(web.resolve), rules=rules, window=1.0))
        assert web.log.settle()
        seen = [one for one in seen_by(web.log) if one.host == "slow.example"]
    assert [one.path for one in seen].count("/robots.txt") == 2
    check_manners(root, seen[1:], host=0.3)  # before the first of all nothing was known


def test_what_was_begun_with_requisites_goes_on_politely_without(root: Path) -> None:
    """What waits is asked for as pages are, and brings nothing more."""
    with TestWeb(hosts=1) as web:
        setup = setup_for(web, limits=CrawlLimits(retry_wait=0.2, pages=1))
        crawl_until(root, setup, lambda seen: seen.page_resources >= 1)
        before = len(web.log)
        plain = setup_for(web, rules=CrawlRules(scope="host"), delay=0.05, window=1.0)
        report = crawl_here(root, plain)
        assert web.log.settle()
        seen = seen_by(web.log)[before:]
    assert report.end == "finished"
    assert most_at_once(seen) == 1


def test_a_page_that_is_visited_again_brings_what_is_new_and_requisites_stay_requisites(root: Path) -> None:
    site = Linked(0)
    site.replies["/"] = HttpReply(body=b"<html><img src=/a.png>")
    site.replies["/a.png"] = HttpReply(body=b"a picture", media_type="image/png", etag='"1"')
    with TestWeb(hosts=0, sites={"one.example": site}) as web:
        refresh = RevisitSchedule(on=True, first=0.2, shortest=0.1, longest=0.4)
        setup = Setup(seeds=("http://one.example/",), resolve=dict(web.resolve), rules=WHOLE, revisits=refresh)
        crawl_until(root, setup, lambda _: _asked(web, "/a.png") >= 2)
        site.replies["/"] = HttpReply(body=b"<html><img src=/a.png><img src=/b.png>")
        report = crawl_until(root, setup, lambda _: _asked(web, "/b.png") >= 1)
        pages = _asked(web, "/")
    assert report.total.pages <= pages
    assert visits(root)["http://one.example/a.png"].status in (200, 304)


def _asked(web: TestWeb, path: str) -> int:
    return sum(visit.path == path for visit in web.log)


def test_a_page_that_was_met_as_a_picture_is_whole_when_a_link_leads_to_it_too(root: Path) -> None:
    """/old is a picture no more; /article, where it leads, is linked by a page that comes later."""
    site = Linked(0, old=moved_to("/article"), lost=HttpReply(body=b"<html><img src=/never.png>"))
    site.replies["/"] = HttpReply(body=b"<html><img src=/old><img src=/lost><a href=/two>")
    site.replies["/two"] = HttpReply(body=b"<html><a href=/article>")
    site.replies["/article"] = HttpReply(body=b"<html><img src=/own.png><iframe src=/frame></iframe>")
    site.replies["/frame"] = HttpReply(body=b"<html><img src=/framed.png>")
    with TestWeb(hosts=0, sites={"a.example": site}) as web:
        report = crawl_here(root, Setup(seeds=("http://a.example/",), resolve=dict(web.resolve), rules=WHOLE))
        assert web.log.settle()
        asked = Counter(one.path for one in seen_by(web.log))
    paths = {"/robots.txt", "/", "/old", "/lost", "/two", "/article", "/own.png", "/frame", "/framed.png"}
    assert asked == dict.fromkeys(paths, 1)
    assert report.total.pages == 2  # what was met as a picture stays one


class Chain(Linked):
    """Each of its pages names the next one as a picture, and links to it."""

    def answer(self, request: ReceivedRequest) -> Answer:
        number = request.path[1:]
        if not number.isdecimal():
            return super().answer(request)
        next_ = int(number) + 1
        return HttpReply(body=f"<html><img src=/{next_}><a href=/{next_}>next</a>".encode())


def test_pages_that_are_pictures_of_each_other_come_to_an_end(root: Path) -> None:
    """None but the first counts as a page; without a bound of their own they were asked for for ever."""
    with TestWeb(hosts=0, sites={"a.example": Chain(0)}) as web:
        limits = CrawlLimits(pages=1, seconds=600)
        seeds = ("http://a.example/0",)
        report = crawl_here(root, Setup(seeds=seeds, resolve=dict(web.resolve), rules=WHOLE, limits=limits))
    assert (report.end, report.total.pages) == ("pages", 1)
    assert report.total.page_resources == FREE_PAGES + 2
    assert report.total.refused["too_many_requisites"] == 1


def test_a_module_brings_what_it_imports_and_a_script_does_not(root: Path) -> None:
    site = Linked(0)
    site.replies["/"] = HttpReply(
        body=b"<html><script type=module src=/m/main.js></script><script src=/plain.js></script>"
    )
    site.replies["/m/main.js"] = HttpReply(body=b"import './a.js'", media_type="text/javascript")
    site.replies["/m/a.js"] = HttpReply(body=b"export * from './b.js'", media_type="application/javascript")
    site.replies["/plain.js"] = HttpReply(body=b"\nimport './never.js'", media_type="text/javascript")
    with TestWeb(hosts=0, sites={"a.example": site}) as web:
        crawl_here(root, Setup(seeds=("http://a.example/",), resolve=dict(web.resolve), rules=WHOLE))
        assert web.log.settle()
        asked = {one.path for one in seen_by(web.log)}
    assert asked == {"/robots.txt", "/", "/m/main.js", "/plain.js", "/m/a.js", "/m/b.js"}
