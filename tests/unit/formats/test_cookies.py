"""Cookies by the published cases of http-state, and by what the newer draft says (prefixes, sizes, public suffixes)."""

from __future__ import annotations

import json
from email.utils import formatdate
from pathlib import Path
from urllib.parse import urljoin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webmill.crawl.cookies.jar import CookieJar
from webmill.errors import BadInput
from webmill.formats.http.cookies import (
    LONGEST_LIFE,
    MAX_COOKIE,
    parse_cookie_date,
    read_cookie_file,
    read_set_cookie,
)
from webmill.formats.url.normalise import normalise
from webmill.model import Headers

NOW = 1_300_000_000.0
HTTPS, HTTP = "https://www.example.org/a/b", "http://www.example.org/a/b"
CASES = json.loads((Path(__file__).parents[2] / "suites" / "http-state.json").read_text())
NAMELESS = "the draft of 2024 keeps a cookie without a name, and sends its value"
_NAMELESS_CASES = """
    0004 0021 0023 0024 0025 0026 0027 0028 chromium0009 chromium0010 chromium0012 mozilla0012 mozilla0014 mozilla0015
    mozilla0016 mozilla0017 name0017 name0023 name0025 name0028 name0031 name0032 name0033
"""
CONTROL = "the draft of 2024 ignores a cookie with a control character, and does not cut it"
# Answered otherwise: the cases are those of RFC 6265, older than the draft that browsers follow.
OTHERWISE = {
    **dict.fromkeys(_NAMELESS_CASES.split(), NAMELESS),
    "disabled_chromium0022": CONTROL,
    "disabled_chromium0023": CONTROL,
    "disabled_path0029": "no browser decodes %6F in a path",
    "optional_domain0042": "an empty Domain that comes last makes a cookie of the host",
}


def answered(case: dict[str, object]) -> str:
    jar, name = CookieJar(), case["case"]
    fields: list[str] = case["fields"]  # type: ignore[assignment]
    for field in fields:
        headers = Headers([("Set-Cookie", field.encode().decode("latin-1"))])
        jar.learn(f"http://home.example.org:8888/cookie-parser?{name}", headers, now=NOW)
    url = urljoin(f"http://home.example.org:8888/cookie-parser-result?{name}", str(case["to"]))
    return jar.header(normalise(url), now=NOW + 1).sent.encode("latin-1").decode()


def test_cookies_are_those_of_the_published_cases() -> None:
    cookies = [case for case in CASES if case["case"] != "date"]
    assert len(cookies) == 222
    differing = {case["case"] for case in cookies if answered(case) != case["sent"]}
    assert differing == OTHERWISE.keys()


def test_dates_are_those_of_the_published_cases() -> None:
    for case in CASES:
        if case["case"] == "date":
            found = parse_cookie_date(case["date"])
            assert (None if found is None else formatdate(found, usegmt=True)) == case["is"], case


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Mon, 30 Feb 2009 10:00:00 GMT",
        "Mon, 10 Jan 1500 10:00:00 GMT",
        "10 Jan 2009",
        "25:00:00 1 Jan 2009",
        "9" * 99,
    ],
)
def test_what_is_no_date_is_none(text: str) -> None:
    assert parse_cookie_date(text) is None


@pytest.mark.parametrize(
    ("field", "url", "kept"),
    [
        ("__Host-a=1; Secure; Path=/", HTTPS, True),
        ("__Host-a=1; Secure; Path=/; Domain=example.org", HTTPS, False),
        ("__Host-a=1; Secure", HTTPS, False),
        ("__host-a=1; Path=/", HTTPS, False),
        ("__Secure-a=1; Secure", HTTPS, True),
        ("__SeCuRe-a=1", HTTPS, False),
        ("__Secure-a=1; Secure", HTTP, False),
        ("=__Host-a=1; Secure; Path=/", HTTPS, False),
        ("a=1; Secure", HTTP, False),
        ("a=1; Domain=example.org", HTTP, True),
        ("a=1; Domain=.www.example.org", HTTP, True),
        ("a=1; Domain=other.org", HTTP, False),
        ("a=1; Domain=b.www.example.org", HTTP, False),
        ("a=1; Domain=org", HTTP, False),
        ("a=1; Domain=github.io", "https://me.github.io/", False),
        ("a=1; Domain=co.uk", "https://shop.co.uk/", False),
        ("a=1; Domain=localhost", "http://localhost/", True),
        ("a=1; Domain=127.0.0.1", "http://127.0.0.1/", True),
        ("a=1; Domain=0.0.1", "http://127.0.0.1/", False),
        ("a=\x01", HTTP, False),
        ("a=1; Path=/\x7f", HTTP, False),
        ("a=" + "x" * (MAX_COOKIE - 1), HTTP, True),
        ("a=" + "x" * MAX_COOKIE, HTTP, False),
        ("=", HTTP, False),
    ],
)
def test_a_cookie_is_kept_or_ignored_as_browsers_do(field: str, url: str, kept: bool) -> None:
    assert (read_set_cookie(field, url=url, now=NOW) is not None) == kept


def test_an_attribute_that_is_too_long_is_as_if_it_were_not_there() -> None:
    cookie = read_set_cookie("a=1; Path=/" + "x" * 1024, url=HTTP, now=NOW)
    assert cookie
    assert cookie.path == "/a"


def test_no_cookie_lives_longer_than_400_days() -> None:
    for field in ("a=1; Max-Age=99999999999999999999", "a=1; Expires=Fri, 31 Dec 9999 23:59:59 GMT"):
        cookie = read_set_cookie(field, url=HTTP, now=NOW)
        assert cookie
        assert cookie.expires == NOW + LONGEST_LIFE


FILE = """# Netscape HTTP Cookie File

.example.org\tTRUE\t/\tTRUE\t1999999999\tsid\tsecret
#HttpOnly_www.example.org\tFALSE\t/in\tFALSE\t0\ttoken\ta=b
.co.uk\tTRUE\t/\tFALSE\t0\twide\t1
"""


def test_a_file_of_a_browser_is_read() -> None:
    wide, host, suffix = read_cookie_file(FILE, source="cookies.txt")
    assert (wide.text, wide.domain, wide.is_host_only, wide.is_secure, wide.expires) == (
        "sid=secret", "example.org", False, True, 1999999999.0,
    )  # fmt: skip
    assert (host.text, host.is_host_only, host.path, host.expires) == ("token=a=b", True, "/in", None)
    assert suffix.is_host_only, "a public suffix has no cookies for all of its sites"
    assert wide.is_private
    assert wide.is_sent_to("https://a.example.org/", now=NOW)
    assert not wide.is_sent_to("http://a.example.org/", now=NOW)


@pytest.mark.parametrize(
    "line", ["a b c", ".example.org\tTRUE\t/\tTRUE\tsoon\tsid\tsecret", "x\t" * 30, "a\tb\tc\td\te\tf"]
)
def test_a_line_that_is_no_cookie_is_named_and_not_shown(line: str) -> None:
    with pytest.raises(BadInput, match="line 2") as error:
        list(read_cookie_file(f"# comment\n{line}\n", source="cookies.txt"))
    assert line not in str(error.value)


@given(st.text(st.characters(max_codepoint=255), max_size=300))
def test_anything_is_a_cookie_or_none(field: str) -> None:
    cookie = read_set_cookie(field, url=HTTPS, now=NOW)
    if cookie and not cookie.is_expired(NOW):
        again = read_set_cookie(f"{cookie.name}={cookie.value}", url=HTTPS, now=NOW)
        assert again is None or (again.name, again.value) == (cookie.name, cookie.value)
