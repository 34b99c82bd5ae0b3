"""What all pages share: the frame, the static files, errors, and words."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from selectolax.lexbor import LexborHTMLParser
from starlette.testclient import TestClient

from webmill.serve.pages.filters import (
    format_count,
    format_duration,
    format_minute,
    format_size,
    mark_code,
    pluralize,
    safe_link,
    strip_invisible,
)
from webmill.serve.pages.static_files import TYPES, asset

PAGES = ("/", "/crawl", "/tasks", "/settings")
HTML = {"Accept": "text/html,*/*"}


@pytest.mark.parametrize("path", PAGES)
def test_every_page_has_one_heading_a_language_landmarks_and_its_place_in_the_navigation(
    client: TestClient, path: str
) -> None:
    page = LexborHTMLParser(client.get(path).text)
    assert len(page.css("h1")) == len(page.css("main")) == len(page.css("head > title")) == 1
    assert page.css_first("html").attributes["lang"] == "en"
    assert [link.attributes["href"] for link in page.css("nav [aria-current]")] == [path]
    assert page.css_first("a.skip").attributes["href"] == "#main"


@pytest.mark.parametrize("path", PAGES)
def test_no_page_has_a_script_a_style_or_a_handler_of_its_own_in_it(client: TestClient, path: str) -> None:
    page = LexborHTMLParser(client.get(path).text)
    assert not page.css("style, [style]")
    assert all(script.attributes.get("src") and not script.text() for script in page.css("script"))
    assert not any(name.startswith("on") for tag in page.css("*") for name in tag.attributes)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_kept_nowhere_framed_by_nobody_and_runs_only_our_script(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert headers["cache-control"] == "no-store"
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["referrer-policy"] == "same-origin"  # with less, a browser sends our forms with `Origin: null`


@pytest.mark.parametrize("path", PAGES)
def test_tables_have_captions_and_headings_and_fields_have_labels(client: TestClient, path: str) -> None:
    page = LexborHTMLParser(client.get(path).text)
    for table in page.css("table"):
        assert table.css_first("caption")
        assert table.css("thead th[scope=col]")
    for field in page.css("input:not([type=hidden])"):
        assert page.css_first(f"label[for={field.attributes['id']}]")


# --- static files ---


@pytest.mark.parametrize("name", TYPES)
def test_a_static_file_is_kept_forever_under_an_address_that_changes_with_it(client: TestClient, name: str) -> None:
    answer = client.get(asset(name))
    assert answer.status_code == 200
    assert answer.headers["content-type"] == TYPES[name]
    assert "immutable" in answer.headers["cache-control"]
    assert re.search("-[0-9a-f]{16}\\.", asset(name))
    again = client.get(asset(name), headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get(asset(name), headers={"If-None-Match": "*"}).status_code == 304
    assert client.get(asset(name), headers={"If-None-Match": '"x"'}).status_code == 200


def test_no_other_file_is_static(client: TestClient) -> None:
    for name in ("webmill.css", "../render.py", "%2e%2e/render.py", "..%2frender.py", "", "x" * 5000):
        assert client.get(f"/static/{name}").status_code == 404


def test_pages_name_the_static_files_that_there_are(client: TestClient) -> None:
    page = LexborHTMLParser(client.get("/settings").text)
    linked = {tag.attributes.get("href") or tag.attributes.get("src") for tag in page.css("head link, head script")}
    assert linked == {asset(name) for name in ("webmill.css", "webmill.js", "icon.svg")} | {"/feeds/changes.atom"}


def test_our_script_is_small() -> None:
    folder = Path(__file__).parents[2] / "src/webmill/serve/pages/static"
    assert (folder / "webmill.js").stat().st_size < 8_000


# --- errors ---


def test_a_browser_gets_an_error_as_a_page_and_a_program_as_json(client: TestClient) -> None:
    page = client.get("/nowhere", headers=HTML)
    assert page.status_code == 404
    assert LexborHTMLParser(page.text).css_first("h1").text().startswith("Not Found")
    assert "Try the search" in page.text
    assert client.get("/nowhere", headers={"Accept": "application/json"}).json()


def test_what_a_stranger_wrote_into_an_address_stays_text_in_an_error(client: TestClient) -> None:
    page = client.get("/tasks/drop", params={"queue": "<script>x</script>", "id": "<img src=x>"}, headers=HTML)
    assert page.status_code == 404
    assert "<script>x" not in page.text
    assert "<img" not in page.text


# --- nothing there yet ---


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("/", "webmill index"),
        ("/", "webmill publish documents"),
        ("/crawl", "webmill crawl"),
        ("/tasks", "webmill publish"),
    ],
)
def test_an_empty_collection_is_told_what_to_run(
    tmp_path: Path, client_of: Callable[[Path], TestClient], path: str, command: str
) -> None:
    with client_of(tmp_path) as client:
        page = client.get(path)
    commands = [tag.text() for tag in LexborHTMLParser(page.text).css(".command")]
    assert page.status_code == 200
    assert any(command in each and tmp_path.name in each for each in commands)
    assert [*tmp_path.iterdir()] == []  # looking makes nothing


# --- words ---


def test_numbers_are_spelled_for_people() -> None:
    assert [format_count(1234567), format_size(0), format_size(999), format_size(1500), format_size(2.5e12)] == [
        "1,234,567",
        "0 B",
        "999 B",
        "1.5 KB",
        "2.5 TB",
    ]
    assert [format_duration(0), format_duration(61), format_duration(7200), format_duration(86400 * 3)] == [
        "0 seconds",
        "1 minute",
        "2 hours",
        "3 days",
    ]
    assert [pluralize(1, "file"), pluralize(2, "batch")] == ["1 file", "2 batches"]


def test_a_moment_is_one_form_whatever_it_came_from_and_no_date_stays_as_it_is() -> None:
    assert {format_minute("20240401100000"), format_minute(1711965600), format_minute("2024-04-01T10:00:00Z")} == {
        "2024-04-01 10:00 UTC"
    }
    assert format_minute("20249999999999") == "20249999999999"
    assert format_minute(1e300) == "1e+300"


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "javascript://x/%0aalert(1)",
        "data:text/html,x",
        "//x",
        "http:",
        "https://[",
        "vbscript:x",
        "",
    ],
)
def test_only_addresses_of_the_web_are_linked(url: str) -> None:
    assert safe_link(url) == ""
    assert safe_link("https://서울.example/") == "https://서울.example/"


def test_letters_that_turn_or_hide_text_are_left_out_and_scripts_that_join_are_not() -> None:
    assert strip_invisible("a\u202eb\u2066c\x00d\x1b[0m\u200be") == "abcd[0me"
    assert strip_invisible("می\u200cخواهم 👩\u200d👩 ") == "می\u200cخواهم 👩\u200d👩 "


def test_code_in_our_words_is_marked_and_nothing_else_is() -> None:
    assert mark_code("use `<b>` & go") == "use <code>&lt;b&gt;</code> &amp; go"
