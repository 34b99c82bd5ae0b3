"""Words, pairs of characters, other forms of a word, and words that were meant."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.search.segmentation import RUN_PLACEHOLDER, bigrams, mask_runs, split_runs, split_words, to_nfc
from webmill.search.spelling import best_correction, edit_distance, max_edits
from webmill.search.word_forms import find_word_forms

HANGUL = st.text(alphabet="가나다라마", min_size=1, max_size=30)


def test_runs_without_spaces_are_cut_into_pairs_and_the_last_character() -> None:
    assert bigrams("서울은 東京") == "서울 울은 은 東京 京"
    assert bigrams("Tokyo 都 2024") == "都"
    assert bigrams("plain") == ""


def test_a_word_of_two_scripts_is_asked_for_in_both_ways() -> None:
    assert split_runs("iPhone15용") == [(False, "iPhone15"), (True, "용")]
    assert split_runs("well-known") == [(False, "well-known")]


@given(HANGUL, st.data())
@settings(deadline=None)
def test_every_part_of_a_run_is_found_by_its_pairs_one_after_the_other(run: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(run) - 1))
    part = run[start : data.draw(st.integers(start + 1, len(run)))]
    cut, wanted = bigrams(run).split(), bigrams(part).split()[:-1] or [part]
    places = range(len(cut) - len(wanted) + 1)
    if len(part) == 1:
        assert any(each.startswith(part) for each in cut)
    else:
        assert any(cut[at : at + len(wanted)] == wanted for at in places)


def test_words_are_what_is_left_without_runs() -> None:
    assert mask_runs("iPhone15용 케이스 case").split() == ["iPhone15", RUN_PLACEHOLDER, RUN_PLACEHOLDER, "case"]
    assert split_words("Über-Straße_x 서울 A1") == ["über", "straße", "x", "a1"]
    assert split_words("हिन्दी, שָׁלוֹם!") == ["हिन्दी", "שָׁלוֹם"]
    assert to_nfc("e\u0301") == "\u00e9"


@pytest.mark.parametrize(
    ("word", "language", "forms"),
    [
        ("report", "eng", {"reports", "reported", "reporting", "reporter"}),
        ("happy", "eng", {"happiness"}),
        ("reports", "eng", {"report", "reported", "reporting", "reporter"}),
        ("hauser", "deu", {"hausern", "haus"}),
        ("report", "kor", set()),
        ("as", "eng", set()),
    ],
)
def test_forms_of_a_word_are_those_of_the_index_with_its_stem(word: str, language: str, forms: set[str]) -> None:
    index = ["report", "reports", "reported", "reporting", "reporter", "repository", "happy", "happiness", "happen"]
    index += ["haus", "hauser", "hausern", "hausieren", "as", "ass"]
    found = find_word_forms(
        word, lambda start: [each for each in index if each.startswith(start)], languages=[language]
    )
    assert found == forms


@pytest.mark.parametrize(
    ("one", "two", "wrong"),
    [
        ("report", "report", 0),
        ("reprot", "report", 1),
        ("reort", "report", 1),
        ("repport", "report", 1),
        ("a", "bcd", 3),
    ],
)
def test_letters_that_are_wrong_are_counted(one: str, two: str, wrong: int) -> None:
    assert edit_distance(one, two, most=9) == wrong
    assert edit_distance(one, two, most=0) == min(wrong, 1)


def test_the_word_that_was_meant_is_the_nearest_and_of_those_the_most_used() -> None:
    uses = {"report": 5, "resort": 50, "reporter": 500}
    assert best_correction("reprot", uses, uses=uses.__getitem__) == "report"
    assert best_correction("reqort", uses, uses=uses.__getitem__) == "resort"
    assert best_correction("resport", uses, uses=uses.__getitem__) == "resort"
    assert best_correction("xyz", uses, uses=uses.__getitem__) == ""
    assert [max_edits("abc"), max_edits("abcd"), max_edits("abcdefgh")] == [0, 1, 2]
