"""`webmill save`: one page now, beside a crawl that may be running, by all the rules of a crawl."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import webmill as api
from tests.pipeline.crawling import Setup, crawl_here
from tests.pipeline.watched_site import HOME, HOST, WatchedSite, text, watch
from tests.unit.cli.command import started, webmill
from webmill.crawl.frontier.base import LastVisit
from webmill.crawl.frontier.local import LocalFrontier
from webmill.crawl.status_file import read_status
from webmill.errors import NotFound
from webmill.infra.host_schedule.fixed_delays import Reservation
from webmill.infra.host_schedule.sqlite_schedule import SqliteHostSchedule
from webmill.testing import Answer, HttpReply, ReceivedRequest, TestWeb

PAGE = f"{HOME}a"


class SlowSite(WatchedSite):
    """Counts the requests that are under way at the same time. `seconds` is how long an answer takes."""

    def __init__(self, *paths: str) -> None:
        super().__init__(*paths)
        self.seconds, self.under_way, self.most = 0.0, 0, 0
        self._lock = threading.Lock()

    def answer(self, request: ReceivedRequest) -> Answer:
        with self._lock:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        time.sleep(self.seconds)
        with self._lock:
            self.under_way -= 1
        return super().answer(request)


@pytest.fixture
def root(memory_folder: Path) -> Path:
    return memory_folder / "watched"


@pytest.fixture
def site() -> WatchedSite:
    return WatchedSite("/a", "/b")


@pytest.fixture
def web(site: WatchedSite) -> Iterator[TestWeb]:
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        yield web


def save(root: Path, url: str = PAGE, *flags: str, code: int = 0) -> dict[str, Any]:
    ended = webmill("save", root, url, "--json", *flags)
    assert ended.code == code, ended.err
    return json.loads(ended.out)  # type: ignore[no-any-return]


def captures(root: Path, url: str = PAGE) -> list[tuple[str, str]]:
    """What the index has of a URL: status and type of each capture."""
    lines = webmill("cdxj", "query", url, "--index", root).lines
    fields = [json.loads(line.split(b" ", 2)[2]) for line in lines]
    return [(one.get("status", ""), one.get("mime", "")) for one in fields]


def visit_of(root: Path, url: str = PAGE) -> LastVisit | None:
    with closing(LocalFrontier(root / "frontier" / "shard-00")) as frontier:
        return frontier.visit(url)


def test_a_page_is_fetched_archived_and_in_the_index(root: Path, site: WatchedSite, web: TestWeb) -> None:
    watch(root, web)
    report = save(root)
    assert site.requests == ["/robots.txt", "/a"]
    assert captures(root) == [("200", "text/html")]
    assert report["path"] == f"/web/{report['pages'][0]['timestamp']}/{PAGE}"
    with api.open_collection(root) as collection:
        assert b"first words of a" in collection.read(collection.capture(PAGE)).body
    files = [path.name for path in root.rglob("*.open")]
    assert files == []


def test_saving_again_makes_one_more_capture_and_stores_the_content_once(
    root: Path, site: WatchedSite, web: TestWeb
) -> None:
    watch(root, web)
    assert save(root)["pages"][0]["is_unchanged"] is False
    assert save(root)["pages"][0]["is_unchanged"] is True
    site.pages["/a"] = text("second words")
    time.sleep(1.0)  # an index has whole seconds
    assert save(root)["pages"][0]["is_unchanged"] is False
    assert [mime for _, mime in captures(root)] == ["text/html", "warc/revisit", "text/html"]
    assert site.times("/robots.txt") == 1, "the frontier knows it"
    with api.open_collection(root) as collection:
        bodies = [collection.read(one).body for one in collection.captures(PAGE)]
    assert [b"second words" in body for body in bodies] == [False, False, True]


def test_redirects_are_followed_and_archived(root: Path, site: WatchedSite, web: TestWeb) -> None:
    watch(root, web)
    site.replies["/old"] = HttpReply(status=301, headers=(("Location", "/a"),))
    report = save(root, f"{HOME}old")
    assert [(page["url"], page["status"]) for page in report["pages"]] == [(f"{HOME}old", 301), (PAGE, 200)]
    assert captures(root) == [("200", "text/html")]


def test_what_a_page_needs_is_saved_with_it(root: Path, site: WatchedSite, web: TestWeb) -> None:
    watch(root, web)
    page = b"<html><head><link rel=stylesheet href=/s.css></head><body><img src=/i.png><a href=/b>b</a></body></html>"
    site.replies["/a"] = HttpReply(body=page)
    site.replies["/s.css"] = HttpReply(body=b"body { background: url(/deep.png) }", media_type="text/css")
    site.replies["/i.png"] = site.replies["/deep.png"] = HttpReply(body=b"\x89PNG", media_type="image/png")
    report = save(root, PAGE, "--page-resources")
    assert sorted(one["url"].removeprefix(HOME) for one in report["resources"]) == ["deep.png", "i.png", "s.css"]
    assert captures(root, f"{HOME}deep.png") == [("200", "image/png")]
    assert "/b" not in site.requests
    site.replies["/i.png"] = HttpReply(status=404)
    assert save(root, PAGE, "--page-resources")["resources"][0]["status"] in (200, 404)


def test_what_robots_txt_forbids_is_not_saved(root: Path, site: WatchedSite, web: TestWeb) -> None:
    watch(root, web)
    site.robots = b"User-agent: *\nDisallow: /a\n"
    ended = webmill("save", root, PAGE)
    assert (ended.code, site.requests) == (1, ["/robots.txt"])
    assert "not saved" in ended.err
    assert "robots" in ended.err


def test_private_addresses_are_refused_unless_allowed(root: Path, site: WatchedSite, web: TestWeb) -> None:
    watch(root, web, settings={"allow_private": "false"})
    ended = webmill("save", root, PAGE)
    assert (ended.code, site.requests) == (1, [])
    assert "blocked" in ended.err
    ended = webmill("save", root, "http://169.254.169.254/latest/meta-data/")
    assert (ended.code, "blocked" in ended.err) == (1, True)


@pytest.mark.parametrize(
    "url", ["ftp://example.org/", "file:///etc/passwd", "not a url", "http://user:pw@example.org/"]
)
def test_what_is_not_a_url_of_the_web_is_wrong_usage(root: Path, url: str, web: TestWeb) -> None:
    watch(root, web)
    ended = webmill("save", root, url)
    assert ended.code == 2, ended.err


def test_a_host_that_wants_to_be_left_alone_is(root: Path, site: WatchedSite, web: TestWeb) -> None:
    watch(root, web)
    site.replies["/a"] = HttpReply(status=503, headers=(("Retry-After", "3600"),))
    ended = webmill("save", root, PAGE, "--max-wait", "2s")
    assert ended.code == 1, ended.err
    asked = list(site.requests)
    ended = webmill("save", root, f"{HOME}b", "--max-wait", "2s")
    assert (ended.code, site.requests) == (1, asked)
    assert "must wait" in ended.err


def test_an_error_of_the_server_is_archived_and_told(root: Path, web: TestWeb) -> None:
    watch(root, web)
    assert save(root, f"{HOME}missing", code=3)["pages"][0]["status"] == 404


def test_the_watch_goes_on_from_a_saved_page(root: Path, site: WatchedSite, web: TestWeb) -> None:
    watch(root, web, every="1d")
    assert webmill("run", root, "--stage", "crawl").code == 0
    before = visit_of(root)
    site.pages["/a"] = text("second words")
    save(root)
    after = visit_of(root)
    assert before
    assert after
    assert after.time > before.time
    assert after.digest != before.digest
    assert after.interval == before.interval
    save(root, f"{HOME}b")
    assert captures(root, f"{HOME}b")[-1][1] == "warc/revisit", "the crawl has archived the content"


def test_a_page_that_the_crawl_would_never_visit_is_saved_and_not_watched(
    root: Path, site: WatchedSite, web: TestWeb
) -> None:
    watch(root, web, every="1d", settings={"include": '["/b"]'})
    assert webmill("run", root, "--stage", "crawl").code == 0
    save(root)
    assert captures(root) == [("200", "text/html")]
    assert visit_of(root) is None


def test_a_domain_that_is_excluded_is_not_asked(root: Path, site: WatchedSite, web: TestWeb) -> None:
    watch(root, web)
    save(root)
    assert webmill("frontier", "exclude", root, HOST.removeprefix("www.")).code == 0
    asked = list(site.requests)
    ended = webmill("save", root, PAGE)
    assert (ended.code, site.requests) == (1, asked)
    assert "excluded" in ended.err


def test_it_works_beside_a_running_crawl_and_never_asks_a_host_at_the_same_time(root: Path) -> None:
    site = SlowSite(*(f"/{number}" for number in range(400)), "/a")
    site.linked = {f"/{number}" for number in range(400)}
    site.seconds = 0.3
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web, settings={"delay": '"100ms"'})
        with started("run", root, "--stage", "crawl") as crawl:
            wait_for_pages(root, 3)
            report = save(root)
            assert report["crawl_was_running"] is True
            assert captures(root) == [("200", "text/html")], (
                "its own files are indexed while those of the crawl are open"
            )
            pages = read_status(root / "frontier").total.pages
            wait_for_pages(root, pages + 2)
            crawl.send_signal(signal.SIGINT)
            crawl.wait(30)
        assert site.most == 1
        visit = visit_of(root)
        assert visit, "the crawl has learned of it"
        assert visit.filename == report["pages"][0]["filename"]
        assert site.times("/a") == 1


def wait_for_pages(root: Path, pages: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if read_status(root / "frontier").total.pages >= pages:
                return
        except NotFound:
            pass
        time.sleep(0.05)
    raise AssertionError("the crawl does not go on")


def test_a_save_that_was_killed_leaves_nothing_that_stops_the_next(root: Path) -> None:
    site = SlowSite("/a", "/b")
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web)
        save(root, f"{HOME}b")
        for delay in (0.2, 0.4, 0.6, 0.8):
            site.seconds = 0.2
            with started("save", root, PAGE) as killed:
                time.sleep(delay)
                killed.kill()
                killed.wait(30)
        site.seconds = 0.0
        save(root)
        assert captures(root)[0][0] == "200", "what comes after it may be revisits"
        assert captures(root, f"{HOME}b") == [("200", "text/html")]
        assert webmill("doctor", root, "--read-data").code == 0
        assert list(root.rglob("*.open")) == []


def test_a_new_folder_becomes_a_collection(root: Path, web: TestWeb) -> None:
    resolve = [f"--resolve={host}={address}:{port}" for host, (address, port) in web.resolve.items() if host == HOST]
    save(root, PAGE, "--contact", "me@example.org", "--allow-private", *resolve)
    assert captures(root) == [("200", "text/html")]
    assert webmill("status", root).code == 0
    ended = webmill("crawl", root, "--contact", "me@example.org")
    assert (ended.code, "name a URL" in ended.err) == (2, True), ended.err


def test_the_function_for_programs(root: Path, web: TestWeb) -> None:
    watch(root, web)
    told: list[str] = []
    report = api.save(root, PAGE, notice=told.append)
    assert (report.page.status, report.indexed) == (200, True)
    assert "indexing" in told


def test_a_host_stays_reserved_while_a_slow_response_is_under_way(root: Path) -> None:
    site, held = SlowSite("/a"), list[bool]()

    def look() -> None:
        with closing(SqliteHostSchedule(root / "frontier" / "gates.sqlite")) as schedule:
            now = schedule.clock(None)()
            wanted = Reservation(now=now, window=0.1, delays={f"host:{HOST}": 0.01})
            held.append(bool(schedule.reserve({0: wanted}, now=now, longest=1000.0)))

    class Asking(SlowSite):
        def answer(self, request: ReceivedRequest) -> Answer:
            if request.path == "/":
                time.sleep(2.5)  # longer than window and delay
                look()
            return site.answer(request)

    with TestWeb(hosts=1, sites={HOST: Asking()}) as web:
        setup = Setup(seeds=(HOME,), resolve=dict(web.resolve), delay=0.1, window=1.0)
        assert crawl_here(root, setup).end == "finished"
    assert held == [True]
