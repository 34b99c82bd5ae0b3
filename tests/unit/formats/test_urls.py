"""URLs for fetching, judged by the URL standard's own test data where it is at hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.thoroughness import examples
from webmill.errors import BadInput
from webmill.formats.url.normalise import MAX_URL, host_of, join, normalise


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("HTTP://EXAMPLE.com:80", "http://example.com/"),
        ("https://example.com:443/a/?b=2&a=1#top", "https://example.com/a/?b=2&a=1"),
        ("http://example.com/a/./b/../c%2fd%2F", "http://example.com/a/c%2fd%2F"),
        ("http://bücher.example/ü?ü", "http://xn--bcher-kva.example/%C3%BC?%C3%BC"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://①②⑦.⓪.⓪.①/", "http://127.0.0.1/"),
        ("http://127。0。0。1/", "http://127.0.0.1/"),
        ("http://[::FFFF:7f00:1]/", "http://[::ffff:7f00:1]/"),
        ("http:\\\\example.com\\a", "http://example.com/a"),
        ("http://user@good.com:x@evil.com/", "http://user%40good.com:x@evil.com/"),
        (" http://example.com/a\nb|\x00c ", "http://example.com/ab|%00c"),
    ],
)
def test_urls_become_canonical_without_meaning_something_else(url: str, expected: str) -> None:
    assert normalise(url) == expected
    assert normalise(expected) == expected


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("mailto:a@example.com", "scheme"),
        ("javascript:alert(1)", "scheme"),
        ("file:///etc/passwd", "scheme"),
        ("example.com/a", "bad_url"),
        ("http://", "bad_url"),
        ("http://a b/", "bad_url"),
        ("http://example.com:65536/", "bad_url"),
        ("http://1.2.3.256/", "bad_url"),
        ("http://[::1%25lo]/", "bad_url"),
        ("http://a%00b/", "bad_url"),
        ("http://example.com/\ud800", "bad_url"),
        ("http://example.com/" + "a" * MAX_URL, "url_too_long"),
        ("http://example.com/" + "é" * (MAX_URL // 2), "url_too_long"),
        ("http://" + "ä" * 50_000 + "/", "url_too_long"),
    ],
)
def test_what_cannot_be_fetched_is_refused_with_its_reason(url: str, reason: str) -> None:
    with pytest.raises(BadInput) as refused:
        normalise(url)
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    ("href", "expected"),
    [
        ("b", "http://example.com/a/b"),
        ("../b/", "http://example.com/b/"),
        ("/b?c", "http://example.com/b?c"),
        ("//other.com", "http://other.com/"),
        ("?x", "http://example.com/a/page?x"),
        ("#top", "http://example.com/a/page?q"),
        ("", "http://example.com/a/page?q"),
        ("https:\\\\other.com", "https://other.com/"),
    ],
)
def test_links_are_resolved_against_their_page(href: str, expected: str) -> None:
    assert join("http://example.com/a/page?q", href) == expected


def test_a_link_to_another_scheme_is_refused() -> None:
    with pytest.raises(BadInput) as refused:
        join("http://example.com/", "tel:112")
    assert refused.value.reason == "scheme"


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://example.com/", "example.com"),
        ("https://user:p%40w@example.com:8443/@b:c", "example.com"),
        ("http://[::1]:8080/", "[::1]"),
        ("http://example.com/?a@b", "example.com"),
    ],
)
def test_the_host_of_a_normalised_url(url: str, host: str) -> None:
    assert host_of(normalise(url)) == host


@given(st.text() | st.text(alphabet="htps:/\\.@?&=#%25aA1[] \n\t\x00|\x85\u2028\ud800éß").map("http://".__add__))
@settings(deadline=None, max_examples=examples(1000))
def test_the_canonical_form_is_stable_and_one_printable_word(url: str) -> None:
    try:
        canonical = normalise(url)
    except BadInput:
        return
    assert normalise(canonical) == canonical
    assert all("!" <= char <= "~" for char in canonical)
    assert "#" not in canonical
    assert host_of(canonical)


def test_the_url_standards_test_data(shared_data: Path) -> None:
    cases = [
        case for case in json.loads((shared_data / "urls" / "urltestdata.json").read_text()) if isinstance(case, dict)
    ]
    assert len(cases) > 800
    assert [(case["input"], answer(case)) for case in cases] == [(case["input"], expected(case)) for case in cases]


def answer(case: dict[str, str]) -> str:
    base = case["base"]
    try:
        return normalise(case["input"]) if base is None else join(base, case["input"])
    except BadInput as refused:
        return refused.reason


def expected(case: dict[str, str]) -> str:
    if case.get("failure"):
        return "bad_url"
    return case["href"].partition("#")[0] if case["protocol"] in ("http:", "https:") else "scheme"


def test_the_url_standards_hosts(shared_data: Path) -> None:
    cases = [case for case in json.loads((shared_data / "urls" / "toascii.json").read_text()) if isinstance(case, dict)]
    assert len(cases) > 80
    for case in cases:
        wanted = "bad_url" if case["output"] is None else f"https://{case['output']}/x"
        assert answer({"input": f"https://{case['input']}/x", "base": None}) == wanted, case  # type: ignore[dict-item]
