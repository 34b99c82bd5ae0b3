"""Author, site and date of the last change, wherever a page states them; hostile pages state nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webmill.formats.html.author import MAX_AUTHORS, MAX_NAME, find_author
from webmill.formats.html.head import read_head
from webmill.formats.html.json_ld import MAX_SCRIPT, MAX_THINGS, read_json_ld, site_name_of
from webmill.formats.html.published_date import find_modified_date


def author(html: str) -> str | None:
    return find_author(html, read_head(html), read_json_ld(html))


def ld(value: object) -> str:
    return f'<script type="application/ld+json">{json.dumps(value)}</script>'


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        (ld({"@type": "NewsArticle", "author": {"@type": "Person", "name": "Ada  Lovelace"}}), "Ada Lovelace"),
        (
            ld({"@type": "Article", "author": [{"name": "Ada"}, "Grace", {"name": ["Alan"]}, {"name": "Ada"}]}),
            "Ada; Grace; Alan",
        ),
        (
            ld(
                {
                    "@graph": [
                        {"@type": "WebPage", "author": "The office"},
                        {"@type": "BlogPosting", "author": {"@id": "#a"}},
                        {"@type": "Person", "@id": "#a", "name": "Ada &amp; Co"},
                    ]
                }
            ),
            "Ada & Co",
        ),
        (ld([{"@type": "Review", "author": "A reader"}, {"@type": "Recipe", "author": "A cook"}]), "A cook"),
        (
            ld({"@type": "https://schema.org/Article", "author": "https://example.com/ada"})
            + "<meta name=author content=A>",
            "A",
        ),
        ('<meta name="author" content="By Ada Lovelace">', "Ada Lovelace"),
        (
            '<meta property="article:author" content="https://facebook.com/ada"><meta name="byl" content="By Ada">',
            "Ada",
        ),
        ('<meta name="citation_author" content="Lovelace, Ada">', "Lovelace, Ada"),
        ('<span itemprop="author" itemscope><b itemprop="name">Ada</b></span>', "Ada"),
        ('<meta itemprop="author" content="Ada">', "Ada"),
        ('<p>by <a rel="author" href="/ada">Ada</a>, yesterday', "Ada"),
        ('<a href="/x" rel=author><img src="x"> Ada</a>', "Ada"),
        ('<a rel="author" href="/x"></a><p>Not a name', None),
        ("<p>nobody</p>", None),
    ],
)
def test_a_page_states_its_authors(html: str, expected: str | None) -> None:
    assert author(html) == expected


def test_a_list_of_authors_has_a_limit() -> None:
    names = [f"name {number}" for number in range(1000)]
    assert author(ld({"@type": "Article", "author": names})) == "; ".join(names[:MAX_AUTHORS])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([{"@type": "Article", "publisher": {"name": "A house"}}, {"@type": "WebSite", "name": "A site"}], "A site"),
        ({"@type": "Article", "publisher": {"name": "A house"}}, "A house"),
        ({"@type": ["Article", 3], "publisher": {"name": 5}}, None),
    ],
)
def test_json_ld_names_the_site_or_its_publisher(value: object, expected: str | None) -> None:
    assert site_name_of(read_json_ld(ld(value))) == expected


@pytest.mark.parametrize(
    "html",
    [
        '<meta property="article:modified_time" content="2024-05-01">',
        ld({"@type": "Article", "datePublished": "2020-01-01", "dateModified": "2024-05-01T00:00:00Z"}),
        '<time itemprop="dateModified" datetime="2024-05-01">',
    ],
)
def test_a_page_states_when_it_was_changed(html: str) -> None:
    assert find_modified_date(html, read_head(html)) == datetime(2024, 5, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "html",
    [
        '<script type="application/ld+json">{"author": "Ada",}</script>',
        '<script type="application/ld+json">' + "[" * 200_000 + "</script>",
        '<script type="application/ld+json">' + '{"@graph":' * 20_000 + "1" + "}" * 20_000 + "</script>",
        '<script type="application/ld+json">{"author": "Ada"}',
        '<script type="application/ld+json">{"author": "' + "a" * MAX_SCRIPT + '"}</script>',
        '<script type="application/ld+json">"\ud800"</script>',
        "ld+json" * 100_000,
        "ld+json>" * 100_000,
        'itemprop="author" ' * 100_000,
        'rel="author"><a ' * 100_000,
        'rel="author"' + "> <a" * 100_000,
    ],
)
def test_broken_and_hostile_pages_state_nothing(html: str) -> None:
    assert author(html) is None


def test_more_things_than_the_limit_are_not_read() -> None:
    assert len(read_json_ld(ld([{"name": "x"}] * (3 * MAX_THINGS)) * 3)) == MAX_THINGS


KEYS = st.sampled_from(("@graph", "@type", "@id", "author", "publisher", "name", "mainEntity"))
LEAVES = st.none() | st.booleans() | st.floats() | st.text()


@given(st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner)))
def test_any_json_gives_names_within_the_limits_or_none(value: object) -> None:
    things = read_json_ld(ld(value))
    for name in (find_author("", read_head(""), things), site_name_of(things)):
        assert name is None or name.strip()
    assert len(find_author("", read_head(""), things) or "") <= MAX_AUTHORS * (MAX_NAME + 2)
