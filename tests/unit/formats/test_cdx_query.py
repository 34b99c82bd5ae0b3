from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.thoroughness import examples
from webmill.errors import BadInput
from webmill.formats.cdx.cdxj import CdxjLine, format_line
from webmill.formats.cdx.query import KeyRange, MatchType, compile_filter, compile_filters, key_range, split_url_pattern
from webmill.formats.url.surt import surt

HOSTS = st.lists(
    st.sampled_from(["com", "org", "example", "example-a", "exampl", "a", "b", "sub"]), min_size=1, max_size=4
)
URLS = st.builds(
    lambda labels, path: f"http://{'.'.join(labels)}/{path}", HOSTS, st.text(alphabet="ab/?&=!~*-,)(", max_size=5)
)


def line_of(url: str) -> bytes:
    return format_line(CdxjLine(surt(url), "20240101000000", {"url": url}))


@pytest.mark.parametrize(
    ("url", "match_type", "start", "end"),
    [
        ("http://example.com/a", "exact", "com,example)/a", "com,example)/a!"),
        ("example.com/a", "prefix", "com,example)/a", "com,example)/b"),
        ("example.com/a/", "prefix", "com,example)/a/", "com,example)/a0"),
        ("example.com/a?", "prefix", "com,example)/a?", "com,example)/a@"),
        ("http://www.example.com/a?b", "host", "com,example)/", "com,example*"),
        ("http://www.example.com/a?b", "domain", "com,example)/", "com,example-"),
        ("com", "domain", "com,", "com-"),
    ],
)
def test_ranges_are_pywbs(url: str, match_type: MatchType, start: str, end: str) -> None:
    assert key_range(url, match_type) == KeyRange(start.encode(), end.encode())


@given(st.lists(URLS, max_size=30), URLS)
@settings(deadline=None, max_examples=examples(400))
def test_a_range_holds_what_a_scan_of_all_urls_finds(urls: list[str], asked: str) -> None:
    key, host = surt(asked), surt(asked).partition(")/")[0]
    prefix = key + next((mark for mark in "/?" if asked.endswith(mark) and not key.endswith(mark)), "")
    below = () if "," not in host else (host + ")/",)
    meanings: dict[MatchType, set[str]] = {
        "exact": {url for url in urls if surt(url) == key},
        "prefix": {url for url in urls if surt(url).startswith(prefix)},
        "host": {url for url in urls if surt(url).startswith(host + ")/")},
        "domain": {url for url in urls if surt(url).startswith((*below, host + ","))},
    }
    for match_type, wanted in meanings.items():
        asked_range = key_range(asked, match_type)
        assert {url for url in urls if line_of(url) in asked_range} == wanted, match_type


def test_an_unknown_match_type_is_refused() -> None:
    with pytest.raises(BadInput) as refused:
        key_range("example.com", "fuzzy")  # type: ignore[arg-type]
    assert refused.value.reason == "bad_match_type"


def test_stars_ask_for_a_domain_or_a_prefix() -> None:
    assert split_url_pattern("*.example.com") == ("example.com", "domain")
    assert split_url_pattern("example.com/a*") == ("example.com/a", "prefix")
    assert split_url_pattern("example.com/a") == ("example.com/a", None)


PAGE = CdxjLine("com,example)/", "20240101000000", {"url": "http://example.com/", "mime": "text/html", "status": "200"})
REVISIT = CdxjLine("com,example)/b", "20240102000000", {"url": "http://example.com/b", "mime": "warc/revisit"})


@pytest.mark.parametrize(
    ("text", "page", "revisit"),
    [
        ("=status:200", True, False),
        ("!=status:200", False, True),
        ("statuscode:20", True, False),
        ("=mimetype:text/html", True, False),
        ("=m:text/html", True, False),
        ("k:)/b", False, True),
        ("=s:200", False, False),
        ("mime:html", True, False),
        ("~mime:.*/html$", True, False),
        ("~mime:html", False, False),
        ("!~mime:warc/.*", True, False),
        ("~url:http://example\\.com/.", False, True),
        ("original:example", True, True),
        ("=status:", False, True),
        ("urlkey:)/b", False, True),
        ("~timestamp:20240102", False, True),
        ("com,example)/b 2024", False, True),
        ("text/html", True, False),
        ("=nosuch:x", False, False),
        ("!=nosuch:x", True, True),
    ],
)
def test_filters_mean_what_they_mean_in_pywb(text: str, page: bool, revisit: bool) -> None:
    keep = compile_filter(text)
    assert (keep(PAGE), keep(REVISIT)) == (page, revisit)


def test_all_filters_must_hold() -> None:
    keep = compile_filters(["=status:200", "mime:html"])
    assert (keep(PAGE), keep(REVISIT)) == (True, False)
    assert compile_filters([])(REVISIT)


@pytest.mark.parametrize("pattern", ["~url:(", "~url:(?=a)", r"~url:(a)\1", "~url:\ud800"])
def test_a_pattern_that_re2_cannot_take_is_refused(pattern: str) -> None:
    with pytest.raises(BadInput) as refused:
        compile_filter(pattern)
    assert refused.value.reason == "bad_filter"


@pytest.mark.timeout(200)
def test_a_pattern_that_explodes_elsewhere_is_answered() -> None:
    keep = compile_filter("~urlkey:^(.*,)*(spam|x).*")
    assert not keep(CdxjLine("a," * 5000, "20240101000000", {}))


def test_a_key_that_is_not_utf_8_can_be_filtered() -> None:
    assert compile_filter("~urlkey:caf")(CdxjLine("caf\udce9", "20240101000000", {}))
