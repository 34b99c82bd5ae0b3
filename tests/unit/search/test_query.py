"""The query language: what people type is understood, and nothing that anybody types is an error."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.search.query import MAX_QUERY, MAX_TERMS, AnyOf, Not, Part, SearchQuery, Term, format_query, parse


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("annual report", [Term("annual"), Term("report")]),
        ('"annual report"', [Term("annual report", is_phrase=True)]),
        ("“annual report”", [Term("annual report", is_phrase=True)]),
        ('"never closed', [Term("never closed", is_phrase=True)]),
        ("report -draft", [Term("report"), Not(Term("draft"))]),
        ('report -"first draft"', [Term("report"), Not(Term("first draft", is_phrase=True))]),
        ("a b OR c d", [Term("a"), AnyOf((Term("b"), Term("c"))), Term("d")]),
        ("a OR b OR c", [AnyOf((Term("a"), Term("b"), Term("c")))]),
        ("a OR -b", [Term("a"), Not(Term("b"))]),
        ("OR a OR", [Term("a")]),
        ("a or b", [Term("a"), Term("or"), Term("b")]),
        ("title:budget", [Term("budget", "title")]),
        ('TITLE:"the budget"', [Term("the budget", "title", is_phrase=True)]),
        ("site:example.org lang:kor", [Term("example.org", "site"), Term("kor", "lang")]),
        ("-site:example.org", [Not(Term("example.org", "site"))]),
        ("other:thing", [Term("other:thing")]),
        ("report*", [Term("report", is_prefix=True)]),
        ("(a) (b)", [Term("a"), Term("b")]),
        ("서울시 예산", [Term("서울시"), Term("예산")]),
        ("", []),
        ('* - ( ) OR : "', []),
        ("title: report", [Term("title:"), Term("report")]),
    ],
)
def test_a_query_is_read_as_people_mean_it(text: str, parts: list[Part]) -> None:
    assert list(parse(text).parts) == parts


def test_a_query_that_is_too_long_is_cut_and_says_so() -> None:
    assert parse("x" * (MAX_QUERY + 1)).was_cut
    many = parse(" ".join(f"w{number}" for number in range(MAX_TERMS + 1)))
    assert many.was_cut
    assert len(many.parts) == MAX_TERMS
    assert not parse("w " * 10).was_cut


@given(st.text(max_size=300))
@settings(deadline=None)
def test_any_text_is_a_query_and_its_own_text_reads_the_same(text: str) -> None:
    query = parse(text)
    assert parse(format_query(query)).parts == query.parts or "*" in text or '"' in text or ":" in text
    assert all(isinstance(term, Term) for term in query.terms)


def test_what_is_to_be_marked_leaves_out_what_is_not_wanted() -> None:
    assert parse("a OR b -c d").terms == [Term("a"), Term("b"), Term("d")]
    assert SearchQuery().terms == []


def test_bytes_that_are_no_utf8_are_no_reason_to_lose_the_words_beside_them() -> None:
    broken = b"\xec\x84\x9c\xec\x9a\xb8 \xff report".decode(errors="surrogateescape")
    assert parse(broken).parts == [Term("서울"), Term("report")]
