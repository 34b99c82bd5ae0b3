"""Published cases of other projects (tests/suites/README.md): URLs, tags and encodings of pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from webmill.crawl.page.tags import _BLANK, attributes_of, read_all_tags
from webmill.crawl.page.url_joining import Joiner
from webmill.errors import BadInput
from webmill.formats.encodings import lookup_encoding
from webmill.formats.html.charset import decode_page
from webmill.formats.html.entities import decode_text
from webmill.formats.html.page import read_html_text
from webmill.formats.site.feed import read_feed
from webmill.formats.url.normalise import join, normalise

SUITES = Path(__file__).parents[2] / "suites"
# A crawler skips these where they have no attributes that can hold a URL (`tags.py`).
SKIPPED = frozenset(_BLANK.split("|"))


def cases(name: str) -> list[Any]:
    found: list[Any] = json.loads((SUITES / name).read_text())
    return found


def fetched(href: str | None) -> str | None:
    """What we make of a URL by the standard: fragments are not sent, and other schemes are not fetched."""
    return href.partition("#")[0] if href and href.startswith(("http:", "https:")) else None


def outcome(joined: Any, *parts: str) -> str | None:
    try:
        url: str = joined(*parts)
    except BadInput:
        return None
    return url


def test_urls_are_those_of_the_web_platform_tests() -> None:
    for url, base, href in cases("wpt-urls.json"):
        found = outcome(normalise, url) if base is None else outcome(join, base, url)
        assert found == fetched(href), (url, base)


def test_links_of_a_crawl_are_those_of_the_web_platform_tests() -> None:
    for url, base, href in cases("wpt-urls.json"):
        if base and base.startswith("http"):
            assert outcome(Joiner(base), url) == fetched(href), (url, base)


def test_tags_and_attributes_are_those_of_html5lib() -> None:
    for page, tags, *_ in cases("html5lib-tokenizer.json"):
        found = [[name, attributes_of(raw)] for name, raw, _ in read_all_tags(_with_plain_line_ends(page))]
        wanted = iter(tags)
        skipped = [tag for one in found for tag in _until(wanted, one, page)]
        assert {name for name, _ in (*skipped, *wanted)} <= SKIPPED, page


def _until(wanted: Any, one: list[Any], page: str) -> list[list[Any]]:
    """Return the tags before this one, which must be there."""
    before = []
    for tag in wanted:
        if tag == one:
            return before
        before.append(tag)
    raise AssertionError(f"{one} is not in {page!r}")


def test_text_is_that_of_html5lib() -> None:
    texts = [(page, text[0]) for page, _, *text in cases("html5lib-tokenizer.json") if text]
    assert len(texts) > 500
    assert [decode_text(_with_plain_line_ends(page)) for page, _ in texts] == [text for _, text in texts]


def _with_plain_line_ends(page: str) -> str:
    """A browser reads a page like this before it takes it apart; for URLs it is the same, they have no line breaks."""
    return page.replace("\r\n", "\n").replace("\r", "\n")


@pytest.mark.parametrize(("feed", "part", "field", "value"), cases("feedparser.json"))
def test_feeds_say_what_they_say_to_feedparser(feed: str, part: str, field: str, value: str) -> None:
    read = read_feed(feed)
    found = getattr(read if part == "feed" else read.entries[0], field)
    # That suite has markup in its values, where we keep the text.
    assert " ".join(found.split()) in (value, " ".join(read_html_text(value).text.split()))


@pytest.mark.parametrize(("page", "encoding"), cases("html5lib-encodings.json"))
def test_encodings_of_pages_are_those_of_html5lib(page: str, encoding: str) -> None:
    if "document.write" in page:
        return  # no script runs here
    decoded = decode_page(page.encode("latin-1"))
    # Without a declaration that suite has windows-1252; we look whether it is UTF-8 first (standards.md).
    found = "windows-1252" if decoded.source == "fallback" else decoded.encoding
    assert found == lookup_encoding(encoding)
