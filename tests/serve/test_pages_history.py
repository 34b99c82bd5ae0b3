"""/history: captures of an address as a calendar and a list, the addresses below it, the hosts there are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from selectolax.lexbor import LexborHTMLParser
from starlette.testclient import TestClient

from tests.serve.cdx_samples import put_index
from tests.serve.published_items import assert_harmless
from tests.serve.sample_collection import NAME, SCRIPT, Visit, archive, run
from webmill.formats.cdx.query import KeyRange
from webmill.index.lookup.indexes import CaptureIndex, ZipNumIndex
from webmill.infra.storage.local import LocalStorage
from webmill.serve.api import addresses, capture_history
from webmill.serve.pages.history_calendar import calendar_of, heat_of, period_name
from webmill.serve.site import Site

CLOCK = "https://town.example/clock"
ODD = (
    *("javascript:alert(1)", '"><script>alert(1)</script>', "\u202egro.elpmaxe", "{{7*7}}", "%00", "\x00", "é" * 300),
    *("*", "*.", "://", "http://[", "a b", "x" * 8192, "filedesc:x", "dns:example.org", "ftp://example.org/"),
    "http://example.org:99999/",
)
WRONG = ("period=x", "period=20241", "period=20249999", "match=some", "page=0", f"url={'x' * 8193}")


def page_of(client: TestClient, **asked: str) -> str:
    answer = client.get("/history", params=asked)
    assert answer.status_code == 200
    assert_harmless(answer.text)
    return answer.text


# --- one address ---


def test_a_year_is_a_calendar_with_links_to_its_days(client: TestClient) -> None:
    page = page_of(client, url=CLOCK)
    assert "72 captures" in assert_harmless(page).text
    assert len(re.findall(r"<div class=\"month\">", page)) == 12
    assert "No captures in" not in page
    assert 'aria-label="15 March 2024: 3 captures">15</a>' in page
    assert len(re.findall(r'<td class="heat-2"><a ', page)) == 24


def test_months_without_captures_are_one_line(client: TestClient) -> None:
    page = page_of(client, url="https://town.example/", period="2023")
    assert len(re.findall(r"<div class=\"month\">", page)) == 1
    assert "No captures in January to March, May to December." in page


def test_years_lie_side_by_side_and_the_last_of_many_is_shown(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = assert_harmless(page_of(client, url="https://town.example/"))
    assert "/web/20220310080000/https://town.example/" in few.links  # to be compared with those of other years
    monkeypatch.setattr("webmill.serve.pages.history.PAGE", 3)
    page = page_of(client, url="https://town.example/")
    seen = assert_harmless(page)
    assert "from 2022 to 2024" in seen.text
    assert "/history?url=https%3A%2F%2Ftown.example%2F&period=2022" in seen.links
    assert "/web/20240401100000/https://town.example/" in seen.links
    assert "/web/20220310080000/https://town.example/" not in seen.links


def test_the_list_tells_what_changed(client: TestClient) -> None:
    page = assert_harmless(page_of(client, url="https://town.example/", period="2023"))
    assert "2023-04-01 12:00:00 UTC 200 changed text/html" in page.text
    assert "unchanged same warc/revisit" in page.text
    assert "/raw/20230401120000/https://town.example/" in page.links
    assert "200 first" in assert_harmless(page_of(client, url="https://town.example/", period="2022")).text


@pytest.mark.parametrize(
    ("period", "count"), [("2024", 72), ("2024-03", 6), ("202403", 6), ("20240315", 3), ("2023", 0)]
)
def test_a_period_is_a_part_of_the_list(client: TestClient, period: str, count: int) -> None:
    links = assert_harmless(page_of(client, url=CLOCK, period=period)).links
    assert len([link for link in links if link.startswith("/raw/")]) == count


def test_an_address_may_be_typed_as_people_do(client: TestClient) -> None:
    assert "1 capture" in assert_harmless(page_of(client, url="http://서울.example/공지")).text
    assert "4 or more" not in page_of(client, url="town.example")


def test_an_address_without_captures_leads_to_its_host(client: TestClient) -> None:
    links = assert_harmless(page_of(client, url="https://town.example/nowhere")).links
    assert "/history?url=https%3A%2F%2Ftown.example%2Fnowhere&match=host" in links


def test_a_long_list_has_pages(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    page = assert_harmless(page_of(client, url=CLOCK, page="1"))
    assert not [link for link in page.links if "page=" in link]
    monkeypatch.setattr("webmill.serve.pages.history.PAGE", 30)
    raws: list[str] = []
    for number in ("1", "2", "3"):
        links = assert_harmless(page_of(client, url=CLOCK, page=number)).links
        raws += [link for link in links if link.startswith("/raw/")]
    assert len(set(raws)) == len(raws) == 72
    assert raws == sorted(raws)


def test_more_captures_than_are_looked_through_is_told(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_history, "MOST_LINES", 10)
    assert "10 or more captures" in assert_harmless(page_of(client, url=CLOCK)).text


def compared(client: TestClient, **asked: str) -> str:
    answer = client.get("/history/compare", params=asked)
    assert answer.status_code == 200
    assert_harmless(answer.text)
    return answer.text


def test_two_captures_are_chosen_and_compared(client: TestClient) -> None:
    url = "https://town.example/"
    listed = LexborHTMLParser(page_of(client, url=url, period="2023"))
    form = listed.css("form#compare")[0]
    assert [each.attributes["value"] for each in form.css("input[checked]")] == ["20230401120000", "20230401120500"]
    assert listed.css("button[form=compare]")[0].text() == "Compare these two"
    page = compared(client, url=url, old="20230401120000", new="20220310080000")  # in whichever order
    assert "<del>nine</del><ins>noon</ins>" in page
    side = LexborHTMLParser(compared(client, url=url, old="20220310080000", new="20230401120000", view="side"))
    assert [cell.css("del, ins")[0].text() for cell in side.css("td.old-line, td.new-line")] == ["nine", "noon"]


def test_a_revisit_is_compared_by_the_text_it_stands_for(client: TestClient) -> None:
    asked = {"url": "https://town.example/", "old": "20230401120000", "new": "20230401120500"}
    assert "The same text" in compared(client, **asked)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"url": "https://town.example/", "new": "20230401120001"}, "there is no capture of this address at 2023"),
        ({"url": "https://nowhere.example/", "new": "20230401120000"}, "there is no capture of this address at 2022"),
    ],
)
def test_captures_that_cannot_be_compared_say_why(client: TestClient, asked: dict[str, str], said: str) -> None:
    assert said in compared(client, old="20220310080000", **asked)


@pytest.mark.parametrize("old", ["", "x", "2022", "99999999999999", "20220310080000<"])
def test_a_time_that_is_none_is_refused(client: TestClient, old: str) -> None:
    asked = {"url": "https://town.example/", "old": old, "new": "20220310080000"}
    assert client.get("/history/compare", params=asked).status_code == 400


# --- many addresses ---


@pytest.mark.parametrize(
    ("url", "match", "count"),
    [
        ("town.example/*", "", 9),
        ("*.example", "", 13),
        ("https://town.example/", "prefix", 9),
        ("https://town.example/news", "host", 9),
        ("town.example", "domain", 9),
        ("https://town.example/cl", "prefix", 1),
        ("https://nowhere.example/*", "", 0),
    ],
)
def test_wildcards_lead_to_addresses_with_counts(client: TestClient, url: str, match: str, count: int) -> None:
    links = assert_harmless(page_of(client, url=url, match=match)).links
    found = [link for link in links if re.match(r"/history\?url=https%3A", link) and "match" not in link]
    assert len(found) == count


def test_pages_of_addresses_have_every_address_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "MOST_LINES", 20)  # fewer than the clock has captures
    whole = [each.url for each in addresses.list_addresses(site.index(), "town.example/*", count=100).addresses]
    found: list[addresses.ListedAddress] = []
    after = "-"
    while after:
        some = addresses.list_addresses(site.index(), "town.example/*", after=after.strip("-"), count=2)
        found, after = found + some.addresses, some.after
    assert len(found) == 9
    assert [each.url for each in found][: len(whole)] == whole
    assert [each.url for each in found if each.is_cut] == [CLOCK]


def test_a_list_of_addresses_tells_first_and_last(client: TestClient) -> None:
    page = assert_harmless(page_of(client, url="https://town.example/*"))
    assert "https://town.example/ 4 2022-03-10 08:00 UTC 2024-04-01 10:00 UTC" in page.text


def test_addresses_without_a_host_are_passed_over_at_once(tmp_path: Path) -> None:
    class Looked:
        """How often an index was asked."""

        def __init__(self, index: CaptureIndex) -> None:
            self._index, self.times = index, 0

        def lines(self, wanted: KeyRange) -> Iterator[bytes]:
            self.times += 1
            return self._index.lines(wanted)

        batches = None

    keys = [f"dns:{number}.example" for number in range(1000)] + ["com,a)/", "dns,b)/x", "nonsense", "org,c:8080)/"]
    lines = sorted(f'{key} 20240101000000 {{"url": "x"}}\n'.encode() for key in keys)
    index = Looked(ZipNumIndex(LocalStorage(put_index(tmp_path, lines))))
    found = addresses.list_hosts(index)  # type: ignore[arg-type]
    assert found.hosts == ["a.com", "b.dns", "c.org:8080"]
    assert index.times < 10


def test_hosts_are_listed_in_their_own_script_and_by_pages(client: TestClient, site: Site) -> None:
    page = assert_harmless(page_of(client))
    assert "서울.example" in page.text
    assert "/history?url=town.example&match=host" in page.links
    first = addresses.list_hosts(site.index(), count=2)
    second = addresses.list_hosts(site.index(), count=2, after=first.after)
    third = addresses.list_hosts(site.index(), count=2, after=second.after)
    assert first.hosts + second.hosts + third.hosts == addresses.list_hosts(site.index()).hosts
    assert third.after == ""


# --- strangers ---


@pytest.mark.parametrize("url", ODD, ids=range(len(ODD)))
def test_any_address_can_be_asked_for(client: TestClient, url: str) -> None:
    for match in ("", "prefix", "host", "domain"):
        assert_harmless(page_of(client, url=url, match=match))


@pytest.mark.parametrize(
    "asked", ["period=x", "period=20241", "period=20249999", "match=some", "page=0", f"url={'x' * 8193}"]
)
def test_what_cannot_be_understood_is_refused(client: TestClient, asked: str) -> None:
    answer = client.get(f"/history?url={CLOCK}&{asked}", headers={"Accept": "text/html"})
    assert answer.status_code == 400
    assert_harmless(answer.text)


def test_what_strangers_archived_stays_text(tmp_path: Path, client_of: Callable[[Path], TestClient]) -> None:
    url = f"https://harbour.example/{SCRIPT}"
    archive(tmp_path, [Visit(url, "20240101000000", b"x", mime='text/html"><script>alert(1)</script>')])
    run("index", tmp_path, "--name", NAME)
    with client_of(tmp_path) as client:
        assert "%3Cscript%3E" in page_of(client, url="https://harbour.example/*")
        assert "1 capture" in assert_harmless(page_of(client, url=url)).text


def test_where_nothing_is_indexed_the_page_names_the_command(
    tmp_path: Path, client_of: Callable[[Path], TestClient]
) -> None:
    with client_of(tmp_path) as client:
        assert "webmill index" in assert_harmless(page_of(client, url="https://town.example/")).text


# --- the calendar ---


def test_a_calendar_has_the_days_of_its_year() -> None:
    months = calendar_of("2024", {"20240229": 9, "20230228": 1, "20240231": 1}, lambda day: f"/{day}")
    days = [day for month in months for week in month.weeks for day in week if day.number]
    assert len(days) == 366
    assert [(day.name, day.count, day.heat, day.address) for day in days if day.count] == [
        ("29 February 2024", 9, 4, "/20240229")
    ]
    assert calendar_of("0000", {}, str) == calendar_of("20x4", {}, str) == []


def test_heats_and_periods_have_their_words() -> None:
    assert [heat_of(count) for count in (1, 2, 3, 4, 7, 8, 1000)] == [1, 2, 2, 3, 3, 4, 4]
    assert [period_name(period) for period in ("2024", "202402", "20240229")] == [
        "2024",
        "February 2024",
        "29 February 2024",
    ]
