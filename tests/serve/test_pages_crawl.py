"""/crawl: how a crawl stands, from what it has written beside its frontier."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser
from starlette.testclient import TestClient

from tests.serve.conftest import ADDRESS, site_of
from webmill.collection import Collection
from webmill.crawl.control import pending_requests
from webmill.crawl.frontier_admin.local import LocalFrontierBackend
from webmill.crawl.layout import CrawlFolder, load_or_create_layout
from webmill.crawl.progress import ClusterProgress, CrawlProgress
from webmill.crawl.scheduler.commands import ExcludeDomains, PauseCrawl
from webmill.crawl.scheduler.inbox import InboxMessage, decode_message
from webmill.crawl.status_file import StatusFile, read_status
from webmill.infra.lock import exclusive, shared
from webmill.model import Link
from webmill.serve.app import application
from webmill.serve.pages.crawl import KEPT, ProgressPoint, format_past, parse_past, rates_of
from webmill.settings import ServeSettings, Settings

SCRIPT = "<script>owned()</script>"
ClientOf = Callable[[Path], TestClient]


def write_status_file(root: Path, *, now: float, slot: str = "", **seen: object) -> None:
    folder = root / "frontier"
    folder.mkdir(exist_ok=True)
    file = StatusFile(folder, name="town", started=1000.0, clock=lambda: now, slot=slot)
    file.write(msgspec.structs.replace(CrawlProgress(shard=-1), **seen), end="stopped")


def figures(text: str) -> dict[str, str]:
    page = LexborHTMLParser(text)
    return {each.css("dt")[0].text(): each.css("dd")[0].text() for each in page.css(".figures > div")}


def link(text: str) -> str:
    """Where the button for a fresh look leads."""
    (found,) = (each for each in LexborHTMLParser(text).css("a.button") if each.text() == "Refresh")
    return str(found.attributes["href"])


def test_a_crawl_tells_what_it_has_done_and_what_waits(tmp_path: Path, client_of: ClientOf) -> None:
    write_status_file(
        tmp_path,
        now=time.time(),
        pages=1234,
        waiting=56789,
        domains_waiting=12,
        turns=3,
        bytes=2_500_000,
        fetched=100,
        seconds=50.0,
        errors={"timeout": 7},
        refused={"robots": 9},
        statuses={"2xx": 90, "5xx": 10},
        slowest=[("slow.example", 12.5)],
    )
    with client_of(tmp_path) as client, exclusive(tmp_path / "frontier", "crawl", doing="crawling"):
        text = client.get("/crawl").text
    found = figures(text)
    assert (found["Pages"], found["URLs waiting"], found["Bytes, this run"]) == ("1,234", "56,789", "2.5 MB")
    assert found["Response time"] == "500 ms"
    page = LexborHTMLParser(text)
    labels = {label.text(): label.parent.css(".value")[0].text().split()[0] for label in page.css(".bars .label")}
    assert labels == {"timeout": "7", "robots": "9", "2xx": "90", "5xx": "10"}
    assert "slow.example" in text
    assert page.css("[data-live]")
    assert page.css(".badge.good")[0].text() == "running"


def test_the_overview_shows_a_first_crawl_instead_of_how_to_start_one(tmp_path: Path, client_of: ClientOf) -> None:
    write_status_file(tmp_path, now=time.time(), pages=1234, waiting=56789)
    with client_of(tmp_path) as client, exclusive(tmp_path / "frontier", "crawl", doing="crawling"):
        text = client.get("/").text
    assert "The first crawl is running" in text
    assert "1,234 pages archived, 56,789 URLs waiting." in text
    assert "There is no index yet" not in text
    assert "Nothing is published yet" not in text
    assert LexborHTMLParser(text).css("[data-reload]")


def test_a_crawl_that_has_ended_says_how_and_is_not_asked_again(tmp_path: Path, client_of: ClientOf) -> None:
    write_status_file(tmp_path, now=2000.0)
    with client_of(tmp_path) as client:
        text = client.get("/crawl").text
    assert "The last run was stopped." in text
    assert "data-live" not in text


def test_two_who_look_at_once_do_not_take_each_other_for_the_crawl(tmp_path: Path) -> None:
    write_status_file(tmp_path, now=2000.0)
    with shared(tmp_path / "frontier", "crawl", doing="looking"):
        assert not read_status(tmp_path / "frontier").is_running


def test_what_hosts_and_errors_are_called_stays_text(tmp_path: Path, client_of: ClientOf) -> None:
    write_status_file(
        tmp_path,
        now=2000.0,
        errors={SCRIPT: 1},
        refused={SCRIPT: 1},
        slowest=[(SCRIPT, 1.0)],
        write_error=SCRIPT,
        command_error=SCRIPT,
    )
    with client_of(tmp_path) as client:
        text = client.get("/crawl").text
    assert SCRIPT not in text
    assert text.count("&lt;script&gt;owned()") >= 5


def test_nodes_of_a_crawl_are_told_one_by_one(tmp_path: Path, client_of: ClientOf) -> None:
    crowd = ClusterProgress(nodes=2, shards=16, shards_here=8, shards_nowhere=1, pages=500, notice="Redis is away")
    for slot in ("1", "2"):
        write_status_file(tmp_path, now=2000.0, slot=slot, pages=100, waiting=10, nodes=crowd)
    with client_of(tmp_path) as client:
        text = client.get("/crawl").text
    found = figures(text)
    assert (found["Pages"], found["URLs waiting"]) == ("500", "20")
    assert text.count("8 of 16") == 2
    assert "Redis is away" in text
    assert "1 shard not assigned to a node" in text


def test_a_damaged_status_is_an_error_that_says_so(tmp_path: Path, client_of: ClientOf) -> None:
    (tmp_path / "frontier").mkdir()
    (tmp_path / "frontier/status.json").write_bytes(b"{")
    with client_of(tmp_path) as client:
        answer = client.get("/crawl", headers={"Accept": "text/html"})
        assert answer.status_code == 400
        assert "the next run writes it anew" in answer.text
        assert client.get("/").status_code == 200


def test_the_curve_grows_from_look_to_look_without_a_script(tmp_path: Path, client_of: ClientOf) -> None:
    with client_of(tmp_path) as client:
        place = "/crawl"
        for look in range(4):
            write_status_file(tmp_path, now=2000.0 + 2 * look, pages=10 * look * look)
            text = client.get(place).text
            place = link(text)
    assert [seen.pages for seen in parse_past(place.partition("past=")[2])] == [0, 10, 40, 90]
    assert "the maximum is 25.0, now" in LexborHTMLParser(text).css("svg.spark")[0].attributes["aria-label"]
    assert "Pages a second" in text


def test_a_new_run_begins_a_new_curve(tmp_path: Path, client_of: ClientOf) -> None:
    with client_of(tmp_path) as client:
        write_status_file(tmp_path, now=2000.0, pages=10, bytes=500)
        place = link(client.get("/crawl").text)
        write_status_file(tmp_path, now=2002.0, pages=11, bytes=5)
        assert [seen.bytes for seen in parse_past(link(client.get(place).text).partition("past=")[2])] == [5]


@pytest.mark.parametrize(
    "past", ["x", "1:2", "1:2:3,-1:2:3", "nan:1:1", "1e9:1:1", "1:1:1," * 5000, "<script>", "١:١:١"]
)
def test_a_past_that_is_not_of_our_making_is_nothing(tmp_path: Path, client_of: ClientOf, past: str) -> None:
    write_status_file(tmp_path, now=2000.0, pages=10)
    with client_of(tmp_path) as client:
        answer = client.get("/crawl", params={"past": past})
    assert answer.status_code == 200
    assert "svg" not in answer.text.partition("<main")[2]


points = st.tuples(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**12))


@given(st.lists(points, max_size=KEPT))
@settings(deadline=None)
def test_a_past_survives_its_spelling(steps: list[tuple[int, int, int]]) -> None:
    past: list[ProgressPoint] = []
    for tenths, pages, size in steps:
        before = past[-1] if past else ProgressPoint(0.0, 0, 0)
        past.append(ProgressPoint(round(before.time + tenths / 10, 1), before.pages + pages, before.bytes + size))
    found = parse_past(format_past(past))
    assert [(one.pages, one.bytes) for one in found] == [(one.pages, one.bytes) for one in past]
    assert [one.time for one in found] == pytest.approx([one.time for one in past], abs=0.01)
    assert all(age >= 0 and rate >= 0 for age, rate in rates_of(found))


def test_a_crawl_is_paused_only_by_our_own_button(tmp_path: Path, client_of: ClientOf) -> None:
    write_status_file(tmp_path, now=time.time(), pages=1)
    with client_of(tmp_path) as client, exclusive(tmp_path / "frontier", "crawl", doing="crawling"):
        (form,) = LexborHTMLParser(client.get("/crawl").text).css("form[action='/crawl/pause']")
        fields = {str(one.attributes["name"]): str(one.attributes["value"]) for one in form.css("input")}
        assert client.post("/crawl/pause", data={"stamp": "0" * 64}).status_code == 403
        assert client.post("/crawl/resume", data=fields).status_code == 403, "the stamp of another action"
        load_or_create_layout(CrawlFolder(Collection(tmp_path, "town")), 2)
        assert client.post("/crawl/pause", data=fields, follow_redirects=False).status_code == 303
        backend = LocalFrontierBackend()
        bodies = [*backend.read_messages(tmp_path / "frontier" / "mail-00.sqlite")]
        bodies += backend.read_messages(tmp_path / "frontier" / "mail-01.sqlite")
        assert [decode_message(InboxMessage("", body)) for body in bodies] == [PauseCrawl(), PauseCrawl()]
    with client_of(tmp_path) as client:
        assert not LexborHTMLParser(client.get("/crawl").text).css("form[action^='/crawl/']")
        assert client.post("/crawl/pause", data=fields).status_code == 404


def test_a_crawl_is_steered_by_our_own_form_and_by_nobody_else(tmp_path: Path, client_of: ClientOf) -> None:
    write_status_file(tmp_path, now=time.time(), pages=1)
    load_or_create_layout(CrawlFolder(Collection(tmp_path, "town")), 1)
    with client_of(tmp_path) as client, exclusive(tmp_path / "frontier", "crawl", doing="crawling"):
        (form,) = LexborHTMLParser(client.get("/crawl").text).css("form[action='/crawl/steer']")
        stamp = str(form.css_first("input[name=stamp]").attributes["value"])
        wanted = {"what": "https://new.example/a\n\nnew.example/b", "action": "add", "first": "1"}
        assert client.post("/crawl/steer", data={**wanted, "stamp": "0" * 64}).status_code == 403
        assert client.post("/crawl/add", data={**wanted, "stamp": stamp}).status_code == 403
        assert client.post("/crawl/steer", data={**wanted, "stamp": stamp, "action": "stop"}).status_code == 400
        assert client.post("/crawl/steer", data={**wanted, "stamp": stamp, "what": "http://"}).status_code == 400
        assert client.post("/crawl/steer", data={**wanted, "stamp": stamp, "what": " "}).status_code == 400
        assert client.post("/crawl/steer", data={**wanted, "stamp": stamp}, follow_redirects=False).status_code == 303
        left_out = {"what": "bad.example", "action": "exclude", "stamp": stamp}
        assert client.post("/crawl/steer", data=left_out, follow_redirects=False).status_code == 303
        bodies = LocalFrontierBackend().read_messages(tmp_path / "frontier" / "mail-00.sqlite")
        links, excluded = [decode_message(InboxMessage("", body)) for body in bodies]
        assert links == [Link("https://new.example/a", priority=0), Link("https://new.example/b", priority=0)]
        assert excluded == ExcludeDomains(("bad.example",))
        page = LexborHTMLParser(client.get("/crawl", params={"did": "exclude"}).text)
        assert "skipped" in page.css_first("[role=status]").text()
        rows = [[cell.text() for cell in row.css("td")] for row in page.css("table.data tbody tr")]
        assert [row[0] for row in rows if len(row) == 3] == ["exclude", "add"]


def test_a_program_with_the_token_stops_a_crawl(tmp_path: Path) -> None:
    write_status_file(tmp_path, now=time.time(), pages=1)
    load_or_create_layout(CrawlFolder(Collection(tmp_path, "town")), 1)
    site = site_of(tmp_path, settings=Settings(serve=ServeSettings(token="t0ken")))
    client = TestClient(application(site), base_url=ADDRESS)
    with client, exclusive(tmp_path / "frontier", "crawl", doing="crawling"):
        form = {"content-type": "application/x-www-form-urlencoded"}
        assert client.post("/crawl/stop", headers=form).status_code == 401
        allowed = {**form, "authorization": "Bearer t0ken"}
        assert client.post("/crawl/stop", headers=allowed, follow_redirects=False).status_code == 303
    ((_, request),) = pending_requests(tmp_path / "frontier")
    assert request.action == "stop"
    assert "page of the crawl" in request.by
