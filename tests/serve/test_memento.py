"""Memento: TimeMaps and TimeGates, and URLs that stay as they were sent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.serve.cdx_samples import put_index
from tests.serve.conftest import ADDRESS
from tests.serve.sample_collection import NAME
from webmill.formats.cdx.cdxj import CdxjLine, format_line
from webmill.formats.url.surt import surt

PAGE = "https://town.example/"
LINE = re.compile(r'<([^>]*)>((?:; [a-z]+="[^"]*")+)(,?)')


def links_of(text: str) -> list[tuple[str, dict[str, str]]]:
    """RFC 6690, strictly: a comma behind each but the last."""
    found = [LINE.fullmatch(line) for line in text.splitlines()]
    assert all(found), text
    assert [match[3] for match in found if match] == [","] * (len(found) - 1) + [""]
    return [(match[1], dict(re.findall(r'; ([a-z]+)="([^"]*)"', match[2]))) for match in found if match]


def test_a_timemap_lists_every_memento(client: TestClient) -> None:
    answer = client.get(f"/timemap/link/{PAGE}")
    assert answer.headers["content-type"] == "application/link-format"
    links = links_of(answer.text)
    assert links[:3] == [
        (PAGE, {"rel": "original"}),
        (
            f"{ADDRESS}/timemap/link/{PAGE}",
            {"rel": "self", "type": "application/link-format", "from": "Thu, 10 Mar 2022 08:00:00 GMT"},
        ),
        (f"{ADDRESS}/timegate/{PAGE}", {"rel": "timegate"}),
    ]
    assert [(url, about["rel"]) for url, about in links[3:]] == [
        (f"{ADDRESS}/web/20220310080000/{PAGE}", "first memento"),
        (f"{ADDRESS}/web/20230401120000/{PAGE}", "memento"),
        (f"{ADDRESS}/web/20230401120500/{PAGE}", "memento"),
        (f"{ADDRESS}/web/20240401100000/{PAGE}", "last memento"),
    ]
    assert links[-1][1]["datetime"] == "Mon, 01 Apr 2024 10:00:00 GMT"


def test_a_single_memento_is_the_first_and_the_last(client: TestClient) -> None:
    *_, (url, about) = links_of(client.get("/timemap/link/town.example/gone").text)
    assert (url, about["rel"]) == (f"{ADDRESS}/web/20230401120002/https://town.example/gone", "first last memento")


def test_a_crawl_has_timemaps_of_its_own(client: TestClient) -> None:
    links = links_of(client.get(f"/{NAME}/timemap/link/{PAGE}").text)
    assert links[1][0] == f"{ADDRESS}/{NAME}/timemap/link/{PAGE}"
    assert links[2][0] == f"{ADDRESS}/{NAME}/timegate/{PAGE}"
    assert len(links) == 7
    assert client.get(f"/OTHER/timemap/link/{PAGE}").status_code == 404


def test_lines_of_the_index_are_a_timemap_too(client: TestClient) -> None:
    lines = client.get(f"/timemap/json/{PAGE}").text.splitlines()
    assert [json.loads(line)["timestamp"][:4] for line in lines] == ["2022", "2023", "2023", "2024"]
    assert client.get(f"/timemap/cdxj/{PAGE}").text.startswith("example,town)/ 20220310080000 {")
    assert client.get(f"/timemap/xml/{PAGE}").status_code == 400


@pytest.mark.parametrize(
    ("date", "timestamp"),
    [
        (None, "20240401100000"),
        ("Thu, 10 Mar 2022 08:00:00 GMT", "20220310080000"),
        ("Sat, 01 Jan 2000 00:00:00 GMT", "20220310080000"),
        ("Sat, 01 Apr 2023 12:02:00 GMT", "20230401120000"),
        ("Sat, 01 Apr 2023 12:03:00 GMT", "20230401120500"),
        ("Tue, 19 Jan 2038 03:14:07 GMT", "20240401100000"),
    ],
)
def test_a_timegate_leads_to_the_nearest_capture(client: TestClient, date: str | None, timestamp: str) -> None:
    headers = {"Accept-Datetime": date} if date else {}
    answer = client.get(f"/timegate/{PAGE}", headers=headers, follow_redirects=False)
    assert answer.status_code == 302
    assert answer.headers["location"] == f"{ADDRESS}/web/{timestamp}/{PAGE}"
    assert "accept-datetime" in answer.headers["vary"]
    links = links_of(answer.headers["link"].replace(", <", ",\n<"))
    assert [about["rel"] for _, about in links] == ["original", "timemap", "memento"]
    assert links[1][0] == f"{ADDRESS}/timemap/link/{PAGE}"


def test_what_is_asked_wrongly_or_is_not_there_is_told(client: TestClient) -> None:
    for path in ("/timegate/https://nowhere.example/", "/timemap/link/https://nowhere.example/"):
        answer = client.get(path)
        assert (answer.status_code, answer.json()) == (
            404,
            {"message": "No Captures found for: https://nowhere.example/"},
        )
    wrong = client.get(f"/timegate/{PAGE}", headers={"Accept-Datetime": "soon"})
    assert (wrong.status_code, wrong.json()["message"]) == (400, "Accept-Datetime is not an HTTP date: 'soon'")
    behind_all_time = client.get(f"/timegate/{PAGE}", headers={"Accept-Datetime": "Fri, 31 Dec 9999 23:59:59 -2359"})
    assert behind_all_time.status_code == 400
    assert client.get("/timegate/").status_code == 400


URLS = (
    "https://a.example/x%2Fy//z?u=http://b.example/?q=%20&v=1",
    "https://a.example/?a=1&a=2??",
    "https://a.example/%E2%82%AC;p=%3F",
)


@pytest.mark.parametrize("url", URLS)
def test_a_url_stays_as_it_was_sent(tmp_path: Path, client_of: Callable[[Path], TestClient], url: str) -> None:
    fields = {"url": url, "offset": "0", "length": "1", "filename": "a.warc.gz"}
    put_index(tmp_path, [format_line(CdxjLine(surt(url), "20240102030405", fields))])
    with client_of(tmp_path) as client:
        answer = client.get(f"/timegate/{url}", follow_redirects=False)
        assert answer.headers["location"] == f"{ADDRESS}/web/20240102030405/{url}"
        assert links_of(client.get(f"/timemap/link/{url}").text)[0][0] == url


def test_a_day_that_no_calendar_has_is_no_date_of_a_memento(
    tmp_path: Path, client_of: Callable[[Path], TestClient]
) -> None:
    fields = {"url": "https://a.example/", "offset": "0", "length": "1", "filename": "a.warc.gz"}
    put_index(tmp_path, [format_line(CdxjLine("example,a)/", "20240230000000", fields))])
    with client_of(tmp_path) as client:
        assert client.get("/timegate/https://a.example/").status_code == 404


@pytest.mark.parametrize("path", ["/web/20230401120500/", "/raw/20230401120500/"])
def test_what_a_timegate_and_a_timemap_lead_to_is_a_memento(client: TestClient, path: str) -> None:
    for method in ("GET", "HEAD"):
        answer = client.request(method, f"{path}{PAGE}")
        assert answer.headers["Memento-Datetime"] == "Sat, 01 Apr 2023 12:05:00 GMT"
        links = dict(links_of(answer.headers["link"].replace(", <", ",\n<")))
        assert {place: about["rel"] for place, about in links.items()} == {
            PAGE: "original",
            f"{ADDRESS}/timegate/{PAGE}": "timegate",
            f"{ADDRESS}/timemap/link/{PAGE}": "timemap",
        }


def test_a_memento_of_a_redirect_says_when_and_what_leads_to_a_memento_does_not(client: TestClient) -> None:
    moved = client.get("/web/20230401120001/https://town.example/old", follow_redirects=False)
    assert (moved.status_code, moved.headers["Memento-Datetime"]) == (302, "Sat, 01 Apr 2023 12:00:01 GMT")
    assert moved.headers["Location"] == "/web/20230401120001/https://town.example/news"
    near = client.get("/web/2023/https://town.example/old", follow_redirects=False)
    assert (near.status_code, near.headers["Location"]) == (302, "/web/20230401120001/https://town.example/old")
    assert "Memento-Datetime" not in near.headers


def test_what_an_archive_says_cannot_break_out_of_a_link(
    tmp_path: Path, client_of: Callable[[Path], TestClient]
) -> None:
    url = 'https://a.example/"><b>\n<https://evil.example/>; rel="original"'
    fields = {"url": url, "offset": "0", "length": "1", "filename": "a.warc.gz"}
    stamps = ("20240102030405", "20240230000000", "20240303030303")  # the second is no day
    put_index(tmp_path, [format_line(CdxjLine("example,a)/", stamp, dict(fields))) for stamp in stamps])
    with client_of(tmp_path) as client:
        links = links_of(client.get("/timemap/link/https://a.example/").text)
        assert [about["rel"] for _, about in links[3:]] == ["first memento", "last memento"]
        answer = client.get("/timegate/https://a.example/", follow_redirects=False)
        assert "\n" not in answer.headers["location"]
        assert answer.headers["location"].isascii()
