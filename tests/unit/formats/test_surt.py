"""The rules of docs/reference/surt.md, one by one. Equality with the archives' own code: test_surt_oracle.py."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.thoroughness import examples
from webmill.formats.url.surt import surt

RULES = {
    "as Common Crawl has them": [
        ("https://commoncrawl.org/faq/", "org,commoncrawl)/faq"),
        (
            "http://www.indeed.com/jobs?q=Desktop+Support+Specialist&l=Ohio&start=30",
            "com,indeed)/jobs?l=ohio&q=desktop+support+specialist&start=30",
        ),
    ],
    "the host is reversed and www goes": [
        ("http://www.example.com/", "com,example)/"),
        ("http://www12.example.com/", "com,example)/"),
        ("http://www.www.example.com/", "com,example,www)/"),
        ("http://wwwx.example.com/", "com,example,wwwx)/"),
    ],
    "scheme and userinfo go, a port stays unless it is the scheme's": [
        ("https://example.com:443/", "com,example)/"),
        ("https://u:p@example.com:80/", "com,example:80)/"),
        ("example.com/a", "com,example)/a"),
        ("http:/example.com/a", "com,example)/a"),
        ("http://http://example.com/a", "com,example)/a"),
        ("http://example.com:0080/", "com,example)/"),
    ],
    "case, fragment, trailing slash and empty query go": [
        ("HTTP://Example.COM/A/?#b", "com,example)/a"),
        ("http://example.com", "com,example)/"),
    ],
    "segments are resolved, doubled slashes are one": [
        ("http://example.com/a/./b//../c//d", "com,example)/a/b/c/d"),
        ("http://example.com/../a", "com,example)/../a"),
    ],
    "parameters are sorted by name, then value": [
        ("http://example.com/?b=1&a-b=2&a=2&b=0", "com,example)/?a=2&a-b=2&b=0&b=1"),
    ],
    "session ids go": [
        (f"http://example.com/?jsessionid={'a1' * 16}&b=1", "com,example)/?b=1"),
        ("http://example.com/?b=1&CFID=12&CFTOKEN=34", "com,example)/?&b=1"),
        (f"http://example.com/(S({'a' * 24}))/b.aspx", "com,example)/b.aspx"),
    ],
    "escapes are undone as often as they nest, and made only where needed": [
        ("http://example.com/%2541%20%E9 ü", "com,example)/a%20%e9%20%c3%bc"),
        ("http://example.com/100%", "com,example)/100%25"),
    ],
    "hosts are IDNA 2003, addresses dotted decimal": [
        ("http://Bücher.example/", "example,xn--bcher-kva)/"),
        ("http://straße.example/", "example,strasse)/"),
        ("http://0177.1/", "1,0,0,127)/"),
        ("http://2130706433/", "1,0,0,127)/"),
        ("http://[2001:DB8::1]:8080/", "2001:db8::1:8080)/"),
    ],
    "what has no host keeps its scheme": [
        ("urn:uuid:AB CD", "urn:uuid:ab%20cd"),
        ("dns:Example.com", "dns:example.com"),
        ("filedesc:IA-001102.arc", "filedesc:IA-001102.arc"),
    ],
    "a URL with a port that is none is its own key": [
        ("http://example.com:port/A b", "http://example.com:port/A%20b"),
        ("http://example.com:65536/", "http://example.com:65536/"),
    ],
    "an empty URL has a key too": [("", "-"), (" \t", "-")],
}


@pytest.mark.parametrize(("url", "key"), [pair for pairs in RULES.values() for pair in pairs])
def test_the_rules_hold(url: str, key: str) -> None:
    assert surt(url) == key


@given(st.text() | st.text(alphabet="htps:/.@?&=#%25aA1[] \n\t\x00\x85\u2028\ud800\udc85é").map("http://".__add__))
@example("http://a.com/x 20240101000000 {}")
@example("http://a.com/\ncom,bank)/ 20240101000000 {}")
@example("http://a.com/\ud800")
@example("http://" + "9" * 5000 + "/")
@example("http://a:" + "9" * 5000 + "/")
@example("http://1." + "9" * 5000 + "/")
@example("http://" + "ä" * 5000 + "/")
@settings(deadline=None, max_examples=examples(1000))
def test_a_key_never_breaks_its_line(url: str) -> None:
    key = surt(url)
    assert key
    assert all("!" <= char <= "~" for char in key)


@pytest.mark.parametrize(
    "url",
    [
        "http://a.com/" + "%25" * 300_000,
        "http://a.com/" + "%3" * 300_000 + "2",
        "http://a.com/?" + "cfid=" * 200_000,
        "http://a.com" + f"/({'a' * 24})" * 30_000 + "/.aspx",
        "http://" + "a." * 300_000 + "/",
        "http://" + "ä." * 300_000 + "/",
        "http://a.com/" + "../" * 300_000,
        "http" + "://http" * 150_000,
    ],
    ids=lambda url: url[:24],
)
@pytest.mark.timeout(200)
def test_a_hostile_url_of_a_megabyte_is_answered(url: str) -> None:
    """Each of these takes hours where a rule is quadratic; the limit is for those, not a measurement."""
    assert surt(url)


def test_a_raw_byte_is_read_as_latin_1_like_warcio_does() -> None:
    assert surt(b"http://a.com/\x85".decode("utf-8", "surrogateescape")) == surt("http://a.com/\x85")
