"""Pages are visited again: what changed gets a new record, what did not one that says so."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest
from warcio.archiveiterator import ArchiveIterator

from tests.pipeline.crawling import (
    NAME,
    Linked,
    Setup,
    archives,
    check_records,
    crawl_here,
    crawl_until,
    frontiers,
    seen_by,
    visits,
)
from tests.unit.cli.command import webmill
from tests.unit.index.test_pywb_reads_our_zipnum import get, wayback
from webmill.crawl.frontier.base import FrontierUpdate
from webmill.crawl.options import CrawlLimits, CrawlRules, RevisitSchedule
from webmill.testing import Answer, HttpReply, ReceivedRequest, TestWeb

HOST, SAME = "http://changes.mill.example", "http://www.same.test"
PAGE = b"<html><body>" + b"The same words, without a date. " * 50
SITES = {"www.same.test": Linked(0, page=HttpReply(body=PAGE))}


@pytest.fixture
def root(memory_folder: Path) -> Path:
    return memory_folder / "collection"


def records(root: Path) -> list[dict[str, str]]:
    """The headers of responses and revisits, in the order of their dates."""
    found = []
    for path in archives(root):
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream):
                found.append({"type": record.rec_type, **dict(record.rec_headers.headers)})  # noqa: PERF401
    kept = (one for one in found if one["type"] in ("response", "revisit"))
    return sorted(kept, key=lambda one: one["WARC-Date"])


def refreshed(web: TestWeb, root: Path) -> Setup:
    """Crawled at version 1, then again for ever; until each page was seen at version 2."""
    rules = CrawlRules(scope="host")
    refresh = RevisitSchedule(on=True, first=0.5, shortest=0.5, longest=2.0)
    seeds = (f"{HOST}/list", f"{HOST}/added", f"{SAME}/page")
    first = RevisitSchedule(on=False, first=0.5, shortest=0.5, longest=2.0)
    limits = CrawlLimits(retry_wait=0.1)
    setup = Setup(seeds=seeds, resolve=dict(web.resolve), rules=rules, limits=limits, revisits=first)
    crawl_here(root, setup)
    before = len(web.log)
    web.advance()
    again = msgspec.structs.replace(setup, revisits=refresh, segment="20240102000000")
    crawl_until(root, again, lambda _: len(web.log) > before + 30)
    return again


def test_of_equal_pages_one_is_stored_also_when_they_come_at_the_same_moment(root: Path) -> None:
    sites = {f"www.same{number}.test": Linked(0, page=HttpReply(body=PAGE)) for number in range(40)}
    with TestWeb(hosts=1, sites=sites) as web:
        setup = Setup(seeds=tuple(f"http://{host}/page" for host in sites), resolve=dict(web.resolve))
        crawl_here(root, setup)
    found = [one for one in records(root) if one["WARC-Target-URI"].endswith("/page")]
    (stored,) = (one for one in found if one["type"] == "response")
    others = [one for one in found if one["type"] == "revisit"]
    assert len(others) == 39
    assert {one["WARC-Refers-To"] for one in others} == {stored["WARC-Record-ID"]}
    check_records(root)


def test_pages_that_changed_are_archived_anew_and_others_are_only_said_to_be_the_same(root: Path) -> None:
    with TestWeb(hosts=1, sites=SITES) as web:
        refreshed(web, root)
        assert web.log.settle()
        statuses = Counter((one.path, one.status) for one in seen_by(web.log))
    assert statuses["/stable", 304]
    assert statuses["/stable", 200] == 1
    assert statuses["/changing", 200] == 2
    assert statuses["/page", 200] >= 2
    known = visits(root)
    assert known[f"{HOST}/stable"].status == 304
    assert known[f"{HOST}/removed"].status == 410
    assert known[f"{HOST}/added"].status == 200
    check_records(root)
    by_url: dict[str, list[dict[str, str]]] = {}
    for one in records(root):
        by_url.setdefault(one["WARC-Target-URI"].removeprefix(HOST).removeprefix(SAME), []).append(one)
    assert [one["type"] for one in by_url["/changing"]].count("response") == 2
    assert {one["type"] for one in by_url["/stable"][1:]} == {"revisit"}
    assert {one["WARC-Profile"].rpartition("/")[2] for one in by_url["/stable"][1:]} == {"server-not-modified"}
    assert {one["WARC-Profile"].rpartition("/")[2] for one in by_url["/page"][1:]} == {"identical-payload-digest"}
    for path in ("/stable", "/page"):
        first = by_url[path][0]
        for later in by_url[path][1:]:
            assert later["WARC-Refers-To"] == first["WARC-Record-ID"]
            assert later["WARC-Refers-To-Target-URI"] == first["WARC-Target-URI"]
            assert later["WARC-Refers-To-Date"] == first["WARC-Date"]
            assert later["WARC-Payload-Digest"] == first["WARC-Payload-Digest"]


SOON = RevisitSchedule(on=True, first=0.3, shortest=0.3, longest=1.0)
HOURS = CrawlLimits(retry_wait=0.05, attempts=2)


class Ailing(Linked):
    """A page with an ETag, and a host that can be told to fail."""

    def __init__(self) -> None:
        super().__init__(0)
        self.fails: dict[str, HttpReply] = {}
        self.conditions: list[str | None] = []

    def answer(self, request: ReceivedRequest) -> Answer:
        if request.path == "/page":
            self.conditions.append(request.headers.get("If-None-Match"))
        if request.path in self.fails:
            return self.fails[request.path]
        return HttpReply(body=PAGE, etag='"1"') if request.path == "/page" else super().answer(request)


def times_asked(web: TestWeb, path: str) -> int:
    return sum(one.path == path for one in web.log)


def test_a_page_that_fails_for_a_while_is_compared_with_its_last_record(root: Path) -> None:
    host = Ailing()
    with TestWeb(hosts=1, sites={"www.ill.test": host}) as web:
        setup = Setup(
            seeds=("http://www.ill.test/page",), resolve=dict(web.resolve), limits=HOURS, revisits=SOON,
            rules=CrawlRules(scope="host"),
        )  # fmt: skip
        crawl_until(root, setup, lambda _: times_asked(web, "/page") >= 2)
        before = visits(root)["http://www.ill.test/page"]
        host.fails = {"/page": HttpReply(status=400, body=b"no" * 500, etag='"of the error"')}
        asked = times_asked(web, "/page")
        crawl_until(root, setup, lambda _: times_asked(web, "/page") >= asked + 2)
        ill = visits(root)["http://www.ill.test/page"]
        assert (ill.status, ill.etag, ill.digest, ill.record_id) == (400, '"1"', before.digest, before.record_id)
        check_records(root)
        host.fails = {}
        asked = times_asked(web, "/page")
        crawl_until(root, setup, lambda _: times_asked(web, "/page") >= asked + 2)
    assert set(host.conditions[1:]) == {'"1"'}
    assert visits(root)["http://www.ill.test/page"].status == 304
    assert [one["type"] for one in records(root)].count("response") >= 2  # the page, and what the failing host said


def test_pages_whose_robots_txt_cannot_be_had_are_visited_again_when_it_can(root: Path) -> None:
    host = Ailing()
    with TestWeb(hosts=1, sites={"www.ill.test": host}) as web:
        setup = Setup(
            seeds=("http://www.ill.test/page",),
            resolve=dict(web.resolve),
            limits=HOURS,
            rules=CrawlRules(scope="host"),
            revisits=SOON,
        )
        crawl_until(root, setup, lambda _: times_asked(web, "/page") >= 2)
        known = visits(root)["http://www.ill.test/page"]
        host.fails = {"/robots.txt": HttpReply(status=503)}
        with frontiers(root) as (frontier,):
            robots = frontier.robots("http://www.ill.test")
            assert robots
            frontier.commit(FrontierUpdate(robots=[msgspec.structs.replace(robots, expires=0.0)]), now=robots.fetched)
        crawl_until(root, setup, lambda seen: seen.refused.get("robots_unreachable"))
        ill = visits(root)["http://www.ill.test/page"]
        assert ill.error.startswith("robots_unreachable")
        assert (ill.record_id, ill.etag) == (known.record_id, known.etag)
        with frontiers(root) as (frontier,):
            assert frontier.stats().revisits == 1


def test_a_host_that_was_down_at_first_is_asked_again(root: Path) -> None:
    with TestWeb(hosts=1, sites={"www.ill.test": Ailing()}) as web:
        setup = Setup(
            seeds=("http://www.ill.test/page",), resolve={"www.ill.test": ("127.0.0.1", 9)}, limits=HOURS,
            revisits=SOON, rules=CrawlRules(scope="host"),
        )  # fmt: skip
        crawl_until(root, setup, lambda seen: seen.refused.get("robots_unreachable"))
        assert visits(root)["http://www.ill.test/page"].status == 0
        setup = msgspec.structs.replace(setup, resolve=dict(web.resolve))
        report = crawl_until(root, setup, lambda seen: seen.pages)
    assert report.total.pages == 1
    assert visits(root)["http://www.ill.test/page"].status == 200
    check_records(root)


def test_a_full_domain_is_visited_again_and_keeps_what_is_known_of_it(root: Path) -> None:
    with TestWeb(hosts=1, sites={"www.full.test": Linked(5)}) as web:
        limits = CrawlLimits(retry_wait=0.1, pages_per_domain=2)
        setup = Setup(
            seeds=("http://www.full.test/0",), resolve=dict(web.resolve), limits=limits, rules=CrawlRules(scope="host"),
            revisits=SOON,
        )  # fmt: skip
        report = crawl_until(root, setup, lambda _: len(web.log) >= 12)
    assert report.total.refused["max_pages_per_domain"] > 0
    known = [visit for visit in visits(root).values() if visit.status]
    assert len(known) == 2
    assert {visit.error for visit in known} == {""}
    assert all(visit.interval for visit in known)
    check_records(root)


def test_what_is_gone_is_asked_for_once_more_and_then_never(root: Path) -> None:
    with TestWeb(hosts=1, sites=SITES) as web:
        setup = refreshed(web, root)
        before = len(web.log)
        crawl_until(root, setup, lambda _: len(web.log) > before + 60)
        assert web.log.settle()
        gone = [one for one in seen_by(web.log) if one.path == "/removed" and one.status == 410]
    assert len(gone) == 2


def test_pywb_replays_a_page_through_its_revisits(root: Path, judges: Path, tmp_path: Path) -> None:
    with TestWeb(hosts=1, sites=SITES) as web:
        refreshed(web, root)
    assert webmill("index", root, "--name", NAME).code == 0
    indexes = root / "cc-index" / "collections" / NAME / "indexes"
    prefix = f"{root}/"
    (tmp_path / "config.yaml").write_text(
        f"collections:\n  crawl:\n    index_paths: {indexes}/cluster.idx\n    archive_paths: {prefix}\n"
    )
    with wayback(judges, tmp_path) as url:
        assert get(f"{url}/crawl/2100id_/{SAME}/page") == PAGE  # the last of its records is a revisit
