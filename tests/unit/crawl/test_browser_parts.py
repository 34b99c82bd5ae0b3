"""The parts of `crawl/browser` that need no browser, and what scripts name without one."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from webmill.crawl.browser.behaviours import load_behaviours
from webmill.crawl.browser.fulfilment import fulfilment, parse_range, relation, sent_fields
from webmill.crawl.browser.messages import PausedHttpRequest
from webmill.crawl.browser.need import needs_browser
from webmill.crawl.browser.process import find_browser
from webmill.crawl.cookies.store import load_cookie_file, load_storage_state
from webmill.crawl.fetch import FetchedResponse
from webmill.crawl.page.resources import read_module_resources
from webmill.errors import Misconfigured
from webmill.formats.http import parse_response_head
from webmill.model import Exchange

PROSE = b"<p>" + b"words of a page " * 80 + b"</p>"


@pytest.mark.parametrize(
    ("page", "needed"),
    [
        (b'<div id="root"></div><script src="/app.js"></script>', True),
        (b"<app-root></app-root><script type=module src=main.js></script>", True),
        (b'<div id=app> </div><a href=1>a</a><a href=2>b</a><a href=3>c</a><script src="/app.js"></script>', True),
        (b"<noscript>You need to enable JavaScript</noscript><p>A few words</p><script src=a></script>", True),
        (b"<p>Loading</p><script src=a></script>", True),
        (b'<div id="root">' + PROSE + b"</div><script src=a></script>", False),
        (PROSE + b"<div id=app></div><script src=a></script>", False),
        (b"<p>short</p>", False),
        (b"<header>" + b"a menu " * 50 + b"</header><main class=x>\n</main><script src=a></script>", True),
        (b"<noscript>JavaScript is disabled</noscript><p>" + b"word " * 60 + b"</p><script src=a></script>", False),
        (b'<div id="root"></div><script type="application/ld+json">{}</script>', False),
        (b"<p>" + b"x" * 300 + b"</p><script src=a></script>", False),
        (b"<p>words</p><a href=1>a</a><a href=2>b</a><a href=3>c</a><script>1</script>", False),
        (b"", False),
        (b"<script", False),
    ],
)
def test_a_page_needs_a_browser_when_it_is_empty_without_its_scripts(page: bytes, needed: bool) -> None:
    assert needs_browser(page) is needed


@pytest.mark.parametrize("page", [b"<" * 300_000, b"<script>" * 40_000, b"<div id=root " * 40_000, b"<!--" * 100_000])
def test_hostile_pages_are_decided_on_in_linear_time(page: bytes) -> None:
    assert needs_browser(b"<script>1</script>" + page) in (True, False)


@pytest.mark.parametrize(
    ("field", "part"),
    [
        ("bytes=0-", (0, 10)),
        ("bytes=2-5", (2, 6)),
        ("bytes=-3", (7, 10)),
        ("bytes=5-99", (5, 10)),
        ("bytes=10-", None),
        ("bytes=5-2", None),
        ("bytes=0-1,3-4", None),
        ("items=0-", None),
        ("", None),
    ],
)
def test_a_range_is_a_part_of_the_whole(field: str, part: tuple[int, int] | None) -> None:
    assert parse_range(field, 10) == part


def test_an_answer_is_given_decoded_and_without_what_was_about_its_bytes() -> None:
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\n"
    )
    given = fulfilment("7", answer(head, b"0123456789"), range_field="bytes=2-3")
    assert given["responseCode"] == 206
    assert given["body"] == "MjM="
    fields = [(one["name"], one["value"]) for one in given["responseHeaders"]]  # type: ignore[attr-defined]
    assert fields == [
        ("Set-Cookie", "a=1"),
        ("Set-Cookie", "b=2"),
        ("Content-Range", "bytes 2-3/10"),
        ("Accept-Ranges", "bytes"),
    ]


def answer(head: bytes, payload: bytes) -> FetchedResponse:
    return FetchedResponse(
        Exchange(
            url="http://a.example/", date=datetime.now(UTC), seconds=0.0, ip="127.0.0.1", request=b"", response=head
        ),
        parse_response_head(head),
        payload,
        (),
    )


def test_a_request_tells_what_a_browser_would_tell() -> None:
    request = PausedHttpRequest(
        url="http://cdn.example.org/a.js", headers={"Range": "bytes=0-", "Origin": "http://a.example.org", "X-Own": "1"}
    )
    fields = dict(sent_fields(request, "Script", page="http://a.example.org/"))
    assert "Range" not in fields
    assert fields["X-Own"] == "1"
    assert (fields["Sec-Fetch-Dest"], fields["Sec-Fetch-Mode"], fields["Sec-Fetch-Site"]) == (
        "script",
        "cors",
        "same-site",
    )
    assert relation("http://other.test/", "http://a.example.org/") == "cross-site"


def test_a_module_names_what_it_imports_later_and_built_files() -> None:
    script = b"""const deps=["assets/About-x1y2z3w4.js","assets/About-x1y2z3w4.css"];const logo="/assets/logo.svg";
    const later=()=>import("./Other-a1b2c3d4.js"); const none=["text/html", "a/b.js", "application/json"];
    new URL("../static/font.woff2", import.meta.url)"""
    found = {
        one.url: one.may_hold_more for one in read_module_resources(script, url="https://a.example/app/assets/main.js")
    }
    assert found == {
        "https://a.example/app/assets/Other-a1b2c3d4.js": True,
        "https://a.example/app/assets/About-x1y2z3w4.js": True,
        "https://a.example/app/assets/About-x1y2z3w4.css": True,
        "https://a.example/assets/logo.svg": False,
        "https://a.example/app/static/font.woff2": False,
    }


def test_a_storage_state_is_a_file_of_cookies_too(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_text(
        '{"cookies": [{"name": "id", "value": "1", "domain": ".example.org", "path": "/", '
        '"expires": -1, "secure": true}],'
        '"origins": [{"origin": "https://example.org", "localStorage": [{"name": "t", "value": "s"}]}]}'
    )
    [cookie] = load_cookie_file(file)
    assert (cookie.domain, cookie.is_host_only, cookie.is_secure, cookie.is_private) == (
        "example.org",
        False,
        True,
        True,
    )
    assert load_storage_state(file).origins[0].local_storage[0].value == "s"
    file.write_text('{"cookies": 1, "secret": "x"}')
    with pytest.raises(Misconfigured, match="no storage state") as raised:
        load_cookie_file(file)
    assert "secret" not in str(raised.value)


def test_rules_of_a_site_come_before_the_general_ones(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('match = ["*.example.org"]\nfirst = [{ selector = "#no" }]\nscrolls = 3\n')
    behaviours = load_behaviours(tmp_path)
    assert behaviours.of("https://www.example.org/x").first[0] == {"selector": "#no"}
    assert behaviours.of("https://www.example.org/x").scrolls == 3
    assert len(behaviours.of("https://other.test/").first) == 2
    (tmp_path / "b.toml").write_text('match = ["b.test"]\nmore = [{ text = "(" }]\n')
    with pytest.raises(Misconfigured, match=r"b\.toml"):
        load_behaviours(tmp_path)


def test_a_browser_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="--browser-path"):
        find_browser(str(tmp_path / "none"))
