"""Other forms of a word in an index: words with the same stem in one of its languages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

import tantivy

from webmill.search.languages import STEMMERS

MIN_PREFIX = 3  # letters that a word and its forms share


@lru_cache
def _stemmer(name: str) -> tantivy.TextAnalyzer:
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw()).filter(tantivy.Filter.stemmer(name)).build()


def stem(word: str, language: str) -> str:
    return str(_stemmer(language).analyze(word)[0])


def find_word_forms(word: str, dictionary: Callable[[str], Iterable[str]], *, languages: Iterable[str]) -> set[str]:
    """Return other forms of a word. `dictionary` returns the words of the index that begin with some letters."""
    stems = {name: stem(word, name) for name in {STEMMERS[code] for code in languages if code in STEMMERS}}
    starts = {_common_prefix(word, each) for each in stems.values()}
    starts = {start for start in starts if len(start) >= MIN_PREFIX}
    found = {other for start in starts for other in dictionary(start)}
    found.discard(word)
    return {other for other in found if any(stem(other, name) == each for name, each in stems.items())}


def _common_prefix(word: str, stem: str) -> str:
    """Return what all forms begin with: the stem without its last letter, which may change (happy, happiness)."""
    length = next((at for at, (a, b) in enumerate(zip(word, stem, strict=False)) if a != b), min(len(word), len(stem)))
    return word[: min(length, max(MIN_PREFIX, len(stem) - 1))]
