"""What kind of content a capture has."""

from __future__ import annotations

import pytest

from webmill.extract.kinds import content_kind, is_robots_url, kind_of_media_type


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        ("text/html", "html"),
        ("application/xhtml+xml", "html"),
        ("text/plain", "text"),
        ("text/x-markdown", "text"),
        ("application/atom+xml", "feed"),
        ("application/rdf+xml", "xml"),
        ("application/ld+json", "json"),
        ("image/svg+xml", "image"),
        ("application/x-font-ttf", "font"),
        ("text/ecmascript", "script"),
        ("application/vnd.ms-excel", "other"),
        ("", "other"),
        ("text/\ud800", "other"),
    ],
)
def test_kinds(type_: str, kind: str) -> None:
    assert kind_of_media_type(type_) == kind


def test_what_the_crawler_found_counts_more_than_what_the_server_said() -> None:
    assert content_kind(identified="image/png", declared="text/plain") == "image"
    assert content_kind(identified="text/html", declared="image/png") == "html"
    assert content_kind(identified=None, declared="application/x-html") == "html"
    assert content_kind(identified=None, declared=None) == "other"


def test_robots_are_told_by_their_address() -> None:
    assert is_robots_url("HTTP://a.example/robots.txt")
    assert not is_robots_url("http://a.example/dir/robots.txt")
