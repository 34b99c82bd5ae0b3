"""Which URLs belong to a crawl."""

from __future__ import annotations

from typing import get_args

import pytest

from webmill.crawl.scope import NO_TEXT, Kind, Scope, ScopeRules, extension_of
from webmill.errors import Misconfigured

SEED = "https://www.example.co.uk/docs/start.html"


def scope(*seeds: str, **rules: object) -> Scope:
    return Scope(ScopeRules(**rules), seeds=seeds or (SEED,), year=2024)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "near"),
    [
        ("https://www.example.co.uk/docs/start.html", ("host", "domain", "path", "any")),
        ("https://www.example.co.uk/docs/", ("host", "domain", "path", "any")),
        ("https://www.example.co.uk/docs/a/b?q=/x/", ("host", "domain", "path", "any")),
        ("http://example.co.uk/docs/a", ("host", "domain", "path", "any")),
        ("https://www.example.co.uk/docs", ("host", "domain", "path", "any")),
        ("https://www.example.co.uk/docsx", ("host", "domain", "any")),
        ("https://www.example.co.uk/?/docs/", ("host", "domain", "any")),
        ("https://www.example.co.uk:8080/", ("host", "domain", "any")),
        ("https://shop.example.co.uk/docs/", ("domain", "any")),
        ("https://other.co.uk/docs/", ("any",)),
        ("https://example.co.uk.evil.example/docs/", ("any",)),
        ("http://127.0.0.1/docs/", ("any",)),
    ],
)
def test_what_is_near_the_seeds(url: str, near: tuple[str, ...]) -> None:
    for kind in get_args(Kind):
        assert scope(kind=kind).decide(url, 1) == (None if kind in near else "out_of_scope"), kind


@pytest.mark.parametrize(
    ("seed", "inside", "outside"),
    [
        ("https://example.com/", "https://example.com/x", None),
        ("https://example.com/docs", "https://example.com/docs/a", "https://example.com/docs2"),
        ("https://example.com/docs", "https://example.com/docs?page=2", "https://example.com/"),
        ("https://example.com/docs/", "https://example.com/docs/", "https://example.com/doc"),
        ("https://example.com/a/b.html", "https://example.com/a/c.html", "https://example.com/b"),
        ("https://example.com/~jo/?x=/y/", "https://example.com/~jo/z", "https://example.com/y/"),
    ],
)
def test_the_folder_of_a_seed(seed: str, inside: str, outside: str | None) -> None:
    assert scope(seed, kind="path").decide(inside, 1) is None
    if outside:
        assert scope(seed, kind="path").decide(outside, 1) == "out_of_scope"


def test_hosts_without_a_domain_are_their_own() -> None:
    here = scope("http://127.0.0.1:8080/", "http://localhost/", kind="domain")
    assert here.decide("http://127.0.0.1/x", 1) is None
    assert here.decide("http://localhost:1/x", 1) is None
    assert here.decide("http://127.0.0.2/x", 1) == "out_of_scope"


def test_every_reason_has_its_code() -> None:
    here = scope(
        kind="host", include=("/docs/", "story"), exclude=("(?i)LOGIN", "[?&]print="), max_depth=2, max_length=80
    )
    base = "https://www.example.co.uk"
    assert here.decide(f"{base}/docs/{'x' * 80}", 1) == "url_too_long"
    assert here.decide(f"{base}/docs/a", 3) == "too_deep"
    assert here.decide("https://other.example/docs/a", 1) == "out_of_scope"
    assert here.decide(f"{base}/docs/login", 1) == "excluded"
    assert here.decide(f"{base}/docs/a?x&print=1", 1) == "excluded"
    assert here.decide(f"{base}/about", 1) == "not_included"
    assert here.decide(f"{base}/docs/a.JPG?x.html", 1) == "extension"
    assert here.decide(f"{base}/docs/a/b/a/b/a/b", 1) == "trap_repeat"
    assert here.decide(f"{base}/story", 2) is None


def test_a_seed_is_asked_for_whatever_its_name_looks_like() -> None:
    here = scope("https://example.com/", kind="host", include=("/docs/",), exclude=("secret",), max_depth=0)
    assert here.decide("https://example.com/a/a/a/a/a.pdf", 0) is None
    assert here.decide("https://example.com/secret", 0) == "excluded"
    assert here.decide("https://example.com/docs/", 1) == "too_deep"


def test_guards_and_extensions_can_be_changed() -> None:
    open_ = scope(kind="any", traps=None, extensions=frozenset({"xml"}))
    assert open_.decide("https://a.example/a/b/a/b/a/b", 1) is None
    assert open_.decide("https://a.example/a.pdf", 1) is None
    assert open_.decide("https://a.example/a.xml", 1) == "extension"


@pytest.mark.parametrize(
    ("url", "extension"),
    [
        ("https://example.com", ""),
        ("https://example.zip/", ""),
        ("https://example.com/a.b/c", ""),
        ("https://example.com/a.PDF", "pdf"),
        ("https://example.com/a.tar.gz?x=/b.html", "gz"),
        ("https://example.com/?f=/a.pdf", ""),
        ("https://example.com/wiki/File:Mill.jpg", ""),
        ("https://example.com/a.", ""),
    ],
)
def test_the_extension_is_that_of_the_last_segment(url: str, extension: str) -> None:
    assert extension_of(url) == extension


def test_text_is_never_left_out_by_its_name() -> None:
    text = {
        "",
        "html",
        "htm",
        "php",
        "aspx",
        "jsp",
        "txt",
        "md",
        "xml",
        "json",
        "csv",
        "sql",
        "rss",
        "atom",
        "com",
        "org",
    }
    assert not text & NO_TEXT
    assert {"jpg", "pdf", "zip", "mp4", "exe", "woff2", "docx", "iso"} <= NO_TEXT


def test_a_sitemap_may_lie_anywhere_on_its_host_and_be_packed() -> None:
    here = scope(kind="path", include=("/docs/",), exclude=("old",), max_depth=0)
    assert here.decide_sitemap("https://www.example.co.uk/sitemap.xml.gz") is None
    assert here.decide_sitemap("https://www.example.co.uk/old/sitemap.xml") == "excluded"
    assert here.decide_sitemap("https://other.example/sitemap.xml") == "out_of_scope"
    assert here.decide_sitemap(f"https://www.example.co.uk/{'x' * 3000}") == "url_too_long"
    assert scope(kind="any").decide_sitemap("https://other.example/sitemap.xml") is None


def test_many_seeds_are_kept_apart() -> None:
    seeds = [f"https://host{number}.example/dir{number}/" for number in range(20_000)]
    here = scope(*seeds, kind="path")
    assert here.decide("https://host19999.example/dir19999/x", 1) is None
    assert here.decide("https://host19999.example/dir1/x", 1) == "out_of_scope"


@pytest.mark.parametrize("pattern", ["(", "(?=x)", r"(a)\1", "x{5000}"])
def test_a_pattern_that_re2_cannot_read_is_named(pattern: str) -> None:
    with pytest.raises(Misconfigured, match="RE2"):
        scope(exclude=("fine", pattern))


def test_patterns_do_not_leak_into_each_other() -> None:
    here = scope(kind="any", exclude=("(?i)abc", "^https://x|def$"))
    assert here.decide("https://a.example/ABC", 1) == "excluded"
    assert here.decide("https://a.example/DEF", 1) is None
    assert here.decide("https://a.example/def", 1) == "excluded"
    assert here.decide("https://a.example/def/", 1) is None
