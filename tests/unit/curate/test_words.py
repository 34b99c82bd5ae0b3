"""The word rule, judged by another implementation of UAX 29, and lines by Python's own."""

from __future__ import annotations

import re
import unicodedata

import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.thoroughness import examples
from tests.unit.curate.texts import made_texts, real_texts
from webmill.curate import characters
from webmill.curate.text_batch import Spans, TextBatch

ALPHABET = st.sampled_from(
    [*"ab1 .,:'\"-_\n\r\t\x0b\x85", "\u2028", "é", "\u0301", "字", "か", "カ", "ー", "ก", "า", "가", "\u200d", "א", "…"]
)


def words_of(text: str) -> list[str]:
    batch = TextBatch([text])
    return cut(text, batch.words)


def cut(joined: str, spans: Spans) -> list[str]:
    return [joined[start:end] for start, end in zip(spans.starts.tolist(), spans.ends.tolist(), strict=True)]


def uax29_words(text: str) -> list[str]:
    """Return the words as `regex` cuts them at the boundaries of UAX 29."""
    return [part for part in regex.split(r"(?w)\b", text, flags=regex.V1) if part.strip()]


def test_words_of_spaced_scripts_are_those_of_uax_29() -> None:
    sentence = "Don't stop: 3.14 of 1,000 users (or 7 %) said co_operate's fine; e\u0301tude café Straße и не так"
    assert words_of(sentence) == uax29_words(sentence)


def test_real_text_is_cut_as_uax_29_says_but_for_our_two_additions() -> None:
    checked = 0
    for text in (real_texts() or made_texts(200))[:200]:
        for line in text.splitlines():
            if plain(line):
                checked += 1
                assert words_of(line) == uax29_words(line), line
    assert checked > 100


def plain(line: str) -> bool:
    """Return whether our additions say nothing of a line: no script without spaces, no run of one symbol."""
    singles = characters.flags()[[ord(char) for char in line]] & characters.CLASS_BITS if line else []
    if any(one in (characters.SINGLE, characters.KATAKANA) for one in singles):
        return False
    if any(unicodedata.category(char) in ("Cf", "So", "Sk", "Cn", "Co", "Cc") for char in line) or "\u200d" in line:
        return False  # emoji and their joiners have rules of their own there
    if re.search(r"(?<!\w)['’]\w", line):
        return False  # `regex` joins a quotation mark and the vowel behind it, which no rule of UAX 29 does
    return not re.search(r"([^\w\s])\1", line)


def test_characters_of_scripts_without_spaces_are_words_with_their_marks() -> None:
    assert words_of("漢字かな") == ["漢", "字", "か", "な"]
    assert words_of("นี้") == ["นี้"]
    assert words_of("カタカナ 한국어 말") == ["カタカナ", "한국어", "말"]
    assert words_of("end... ---- !!") == ["end", "...", "----", "!!"]


@given(st.lists(st.text(ALPHABET, max_size=30), max_size=6))
@settings(deadline=None, max_examples=examples(300))
def test_words_and_lines_of_a_text_do_not_depend_on_its_neighbours(texts: list[str]) -> None:
    batch = TextBatch(texts)
    for number, text in enumerate(texts):
        words = batch.words.chosen(batch.words.documents == number)
        assert cut(batch.joined, words) == words_of(text)
        assert "".join(words_of(text)) == "".join(text.split())
        lines = batch.lines.chosen(batch.lines.documents == number)
        assert cut(batch.joined, lines) == text.splitlines()
        parts = batch.newline_lines.chosen(batch.newline_lines.documents == number)
        assert cut(batch.joined, parts) == text.split("\n")
        assert cut(batch.joined, batch.stripped(lines)) == [line.strip() for line in text.splitlines()]


@given(st.lists(st.text(ALPHABET, min_size=1, max_size=5), min_size=1, max_size=20))
@settings(deadline=None, max_examples=examples(200))
def test_hashes_are_equal_where_the_characters_are(texts: list[str]) -> None:
    batch = TextBatch(texts)
    hashes = batch.hashes(Spans(batch.starts, batch.ends, batch.starts))
    assert len(set(hashes.tolist())) == len(set(texts))


def test_no_text_and_no_texts_are_fine() -> None:
    assert words_of("") == []
    assert TextBatch([]).words.starts.tolist() == []
    assert TextBatch(["", ""]).word_counts.tolist() == [0, 0]


def test_a_lone_surrogate_is_kept_as_it_is() -> None:
    assert words_of("a \ud800 b") == ["a", "\ud800", "b"]
