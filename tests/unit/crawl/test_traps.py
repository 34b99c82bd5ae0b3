"""Trap guards: what they refuse, what they let pass, and that they forget in time."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from webmill.crawl.page.links import read_links
from webmill.crawl.traps import TrapRules, Traps
from webmill.formats.warc.http_records import read_response
from webmill.formats.warc.reader import read_records
from webmill.model import Record
from webmill.testing import TestWeb

HOST = "https://example.com"
OFF = TrapRules(repeats=0, segments=0, parameters=0, variants=0, calendar=False)
TRAPPED = [
    ("/a/b/a/b/a/b", "trap_repeat"),
    ("/x/a/b/c/a/b/c/a/b/c/y.html", "trap_repeat"),
    ("/a/a/a/a/a", "trap_repeat"),
    ("/a/%61/a/%61/a", "trap_repeat"),
    ("/a//////b", "trap_repeat"),
    ("".join(f"/{number}" for number in range(31)), "trap_path"),
    ("/?" + "&".join(f"p{number}=1" for number in range(31)), "trap_query"),
    ("/?f=1&a=2&f=1&f=1", "trap_query"),
    ("/events/2031/07/", "trap_calendar"),
    ("/events/2031/7", "trap_calendar"),
    ("/2031-07-01/x", "trap_calendar"),
    ("/1850/07/", "trap_calendar"),
    ("/calendar/2013/7", "trap_calendar"),
    ("/cal?from=2031-07", "trap_calendar"),
    ("/cal?a=1&on=2031-07-01T00:00", "trap_calendar"),
    ("/cal?date=20310701", "trap_calendar"),
    ("/cal?m=1&Year=2031", "trap_calendar"),
]


@pytest.mark.parametrize(("path", "code"), TRAPPED)
def test_a_trap_is_named(path: str, code: str) -> None:
    assert Traps(TrapRules(), year=2024).find(HOST + path) == code
    assert Traps(OFF, year=2024).find(HOST + path) is None


@pytest.mark.parametrize(
    "path",
    [
        *("/", "", "?", "/a/b/a/b", "/a/a/a/a", "/2024/01/01/01/a", "/list/0/0/0/0", "/en/en/x/en/en"),
        *(
            "/2024/07/12/story",
            "/2027/01/",
            "/1899/05/old-paper",
            "/1724-2/",
            "/site/5335/1772/3",
            "/item/2999",
            "/2013/09/26/my-kalender",
            "/2031",
        ),
        *("/?id=23420918", "/?page=2031", "/?start=1050", "/?price=2031-99", "/?list_uids=26210912", "/?year=20310"),
        *("/?a=1&b=2&c=3", "/?f=1&f=2&f=3&f=4", "/?a&a&a&a", "/?q=x?y"),
    ],
)
def test_an_ordinary_url_is_no_trap(path: str) -> None:
    assert Traps(TrapRules(), year=2024).find(HOST + path) is None


def test_permutations_of_a_query_are_let_through_three_times() -> None:
    traps = Traps(TrapRules(), year=2024)
    urls = [f"{HOST}/list?{'&'.join(pairs)}" for pairs in permutations(["a=1", "b=2", "c=3"])]
    assert [traps.find(url) for url in urls] == [None] * 3 + ["trap_variants"] * 3
    assert [traps.find(url) for url in urls] == [None] * 3 + ["trap_variants"] * 3  # links come on every page again
    assert traps.find(f"{HOST}/list?a=1&b=2&c=4") is None
    assert traps.find(f"{HOST}/other?c=3&b=2&a=1") is None


@pytest.mark.parametrize(
    "form",
    [
        "/p;jsessionid={}",
        "/p;JSESSIONID={}?x=1",
        "/p?PHPSESSID={}",
        "/p?a=1&sid={}&b=2",
        "/(S({}))/p",
        "/p?session_id={}",
    ],
)
def test_session_ids_make_no_new_pages(form: str) -> None:
    traps = Traps(TrapRules(), year=2024)
    urls = [HOST + form.format(f"{number:024x}") for number in range(1, 6)]
    assert [traps.find(url) for url in urls] == [None] * 3 + ["trap_variants"] * 2


def test_a_number_called_sid_is_a_page() -> None:
    traps = Traps(TrapRules(), year=2024)
    assert {traps.find(f"{HOST}/?sid={number}&lang=de") for number in range(50)} == {None}


def test_variants_of_pages_long_ago_are_forgotten() -> None:
    traps = Traps(TrapRules(variants=1, remembered=10), year=2024)
    assert traps.find(f"{HOST}/?a=1&b=2") is None
    assert traps.find(f"{HOST}/?b=2&a=1") == "trap_variants"
    for number in range(10):
        traps.find(f"{HOST}/?a=1&b={number}x")
    assert traps.find(f"{HOST}/?b=2&a=1") is None


@pytest.mark.parametrize("guard", ["repeats", "segments", "parameters", "variants", "calendar"])
def test_each_guard_can_be_switched_off_alone(guard: str) -> None:
    traps = Traps(replace(TrapRules(), **{guard: 0}), year=2024)
    name = {"repeats": "repeat", "segments": "path", "parameters": "query"}.get(guard, guard)
    codes = {traps.find(HOST + path) for path, _ in TRAPPED}
    assert f"trap_{name}" not in codes
    assert len(codes - {None}) >= 3


@pytest.mark.parametrize(
    ("start", "least", "most"),
    [("/calendar/2024/1", 100, 200), ("/grow/", 4, 6), ("/session", 4, 30)],
)
def test_the_maze_of_the_test_web_has_an_end(start: str, least: int, most: int) -> None:
    traps = Traps(TrapRules(), year=2024)
    with TestWeb(hosts=1) as web:
        known = {f"http://maze.grain.example{start}"}
        waiting = list(known)
        while waiting and len(known) <= most:
            url = waiting.pop(0)
            page = read_links(web.body(url), url=url, content_type="text/html")
            new = [link for link in page.links if start.split("/")[1] in link and not traps.find(link)]
            waiting += [link for link in new if link not in known]
            known |= set(new)
    assert least <= len(known) <= most


def test_of_the_orders_of_the_test_webs_shop_three_are_followed() -> None:
    traps = Traps(TrapRules(), year=2024)
    with TestWeb(hosts=1) as web:
        url = "http://maze.grain.example/shop"
        links = read_links(web.body(url), url=url, content_type="text/html").links
    assert len([link for link in links if "size=1&" in link or link.endswith("size=1")]) == 24
    assert len([link for link in links if not traps.find(link)]) == 3 + 1  # and one of the next size


@given(st.text(alphabet="/ab?&=;(2031-07)%", max_size=200))
@settings(deadline=None, max_examples=300)
def test_any_url_gets_an_answer(tail: str) -> None:
    traps = Traps(TrapRules(), year=2024)
    first = traps.find(f"{HOST}/{tail}")
    assert first is None or first.startswith("trap_")
    assert traps.find(f"{HOST}/{tail}") == first


def test_no_link_of_the_real_pages_is_taken_for_a_trap(shared_data: Path) -> None:
    traps, links = Traps(TrapRules(), year=2024), 0
    (warc,) = (shared_data / "triple").glob("*.warc.gz")
    with warc.open("rb") as file:
        for record in read_records(file):
            if not isinstance(record, Record) or record.type != "response" or links > 30_000:
                continue
            response = read_response(record.content)
            page = read_links(response.body, url=record.target_uri or "", content_type=response.content_type)
            assert [link for link in page.links if traps.find(link)] == []
            links += len(page.links)
    assert links > 30_000
