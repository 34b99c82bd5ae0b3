"""Snippets: plain text, marks where the words are, nothing that could turn a page around."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.search.query import Term, parse
from webmill.search.snippets import LENGTH, fold, highlight, highlight_pattern, make_snippet


def marked(text: str, query: str, *, also: tuple[str, ...] = ()) -> list[str]:
    found = make_snippet(text, highlight_pattern(parse(query).terms, also=also))
    return [found.text[start:end] for start, end in found.marks]


def test_words_are_marked_whatever_their_case_and_accents() -> None:
    assert marked("The Café, the CAFE and cafeteria", "cafe") == ["Café", "CAFE"]
    assert marked("reports reported", "report", also=("reports",)) == ["reports"]
    assert marked("cafeteria", "cafe*") == ["cafe"]


def test_runs_are_marked_inside_of_words_and_only_where_they_are() -> None:
    assert marked("2024년 서울특별시청은 발표했습니다", "서울") == ["서울"]
    assert marked("がか", "か") == ["か"]
    assert marked("iPhone15용 케이스", "iphone15") == ["iPhone15"]


def test_the_stretch_with_most_of_the_words_is_shown() -> None:
    text = "annual " + "filler " * 200 + "the annual report of the city " + "filler " * 200
    found = make_snippet(text, highlight_pattern(parse("annual report").terms))
    assert "the annual report" in found.text
    assert found.text.startswith("… ")
    assert found.text.endswith(" …")
    assert [found.text[start:end] for start, end in found.marks] == ["annual", "report"]


def test_without_a_word_the_beginning_is_shown() -> None:
    assert make_snippet("The beginning of it.", None).text == "The beginning of it."
    assert len(make_snippet("x" * 5000, None).text) <= LENGTH + 4


def test_controls_and_marks_of_direction_are_not_shown() -> None:
    assert highlight("a\x1b[31m\u202eb\u2066c\x00", None).text == "a [31m b c "
    assert make_snippet("a\u202e\u0007b", None).text == "a b"


@given(st.text(max_size=600), st.text(max_size=20))
@settings(deadline=None)
def test_marks_lie_in_the_text_and_do_not_overlap(text: str, query: str) -> None:
    pattern = highlight_pattern(parse(query).terms, also=(query,) if query else ())
    for found in (make_snippet(text, pattern), highlight(text, pattern)):
        last = 0
        for start, end in found.marks:
            assert last <= start <= end <= len(found.text)
            last = end


def test_folding_keeps_the_places_of_characters() -> None:
    text = "Straße ﬁne İstanbul 서울 が ÅÄÖ"
    assert len(fold(text)) == len(text)
    assert highlight_pattern([Term("x", "site")]) is None
