"""URLs for the wire: the short way gives what the URL standard's parser gives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.thoroughness import examples
from webmill.crawl.fetch.fetcher import parse_target
from webmill.errors import BadInput
from webmill.formats.url.normalise import normalise

PIECES = ["http:", "https:", "//", "/", "/..", "/.", "/%2e%2E", "a", "Example.COM", "0x7f.1", ":80", ":443", ":8080"]
PIECES += ["@", "?q=1", "?", "#top", "\\", " ", "\t", "[::1]", "ü", "%41", "%", "'", '"', "|", "<", "..", "xn--a", "é"]


def outcome(read, url):
    try:
        return read(url)
    except BadInput as error:
        return error.reason


@settings(deadline=None, max_examples=examples(1000))
@given(st.sampled_from(["", "http://", "https://"]), st.lists(st.sampled_from(PIECES), max_size=8))
def test_a_url_is_asked_for_in_its_normal_form(start, pieces):
    url = start + "".join(pieces)
    wanted, got = outcome(normalise, url), outcome(lambda url: parse_target(url).url, url)
    assert got == wanted or got in ("bad_name", "bad_url")  # a target is more particular about hosts


@pytest.mark.parametrize("url", ["page.html", "//example.com/", "/a", "ftp://example.com/", "http:", "javascript:x"])
def test_what_is_no_absolute_http_url_is_no_target(url):
    with pytest.raises(BadInput):
        parse_target(url)
