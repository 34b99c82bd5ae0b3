"""Highlights: where in a text the words of a query are, and the part that shows most of them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge

import msgspec

from webmill.search.base import HighlightedText
from webmill.search.query import Term
from webmill.search.segmentation import WORD_CHARACTER, split_runs, split_words, uses_bigrams

LENGTH = 240  # characters of a snippet
BEFORE = 60  # characters before the first highlight
_WORD = re.compile(WORD_CHARACTER)
MOST_MARKS = 1000  # highlights of a text
# Controls, and marks that turn the direction of what stands around them: a snippet is cut out of its own surroundings.
_UNSHOWN = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\ufeff]+")


class _BaseLetters(dict[int, int]):
    """Maps characters to their base letters, one to one, so that positions stay."""

    def __missing__(self, code: int) -> int:
        if uses_bigrams(chr(code)):  # these are not letters with accents
            self[code] = code
            return code
        text = unicodedata.normalize("NFKD", chr(code)).lower()[:1]
        base = self[code] = ord(text) if text and not unicodedata.combining(text) else code
        return base


_BASE_LETTERS = _BaseLetters()


def fold(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_BASE_LETTERS)


class HighlightPattern(msgspec.Struct, frozen=True):
    """What to highlight. Literals only: one pattern with look-around takes longer to compile than to search."""

    words: re.Pattern[str] | None
    prefixes: re.Pattern[str] | None
    runs: re.Pattern[str] | None

    def spans(self, folded: str) -> Iterator[tuple[int, int]]:
        """Yield the spans in order, the longest first; they may overlap."""
        found = (
            (
                span
                for span in _spans_of(self.words, folded)
                if not (_is_word(folded, span[0] - 1) or _is_word(folded, span[1]))
            ),
            (span for span in _spans_of(self.prefixes, folded) if not _is_word(folded, span[0] - 1)),
            _spans_of(self.runs, folded),
        )
        return merge(*found, key=lambda span: (span[0], -span[1]))


def highlight_pattern(terms: Iterable[Term], *, also: Iterable[str] = ()) -> HighlightPattern | None:
    """Return what to highlight for these terms. `also`: other forms that the engine matched."""
    words, prefixes, runs = {fold(word) for word in also}, set[str](), set[str]()
    for term in terms:
        if term.field not in ("", "title"):
            continue
        for is_run, piece in split_runs(term.text):
            if is_run:
                runs.add(fold(piece))
            else:
                (prefixes if term.is_prefix else words).update(map(fold, split_words(piece)))
    if not (words or prefixes or runs):
        return None
    return HighlightPattern(_any(words), _any(prefixes), _any(runs))


def _any(texts: set[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(map(re.escape, sorted(texts, key=len, reverse=True)))) if texts else None


def _spans_of(pattern: re.Pattern[str] | None, text: str) -> Iterator[tuple[int, int]]:
    return (match.span() for match in pattern.finditer(text)) if pattern else iter(())


def _is_word(text: str, at: int) -> bool:
    return at >= 0 and _WORD.match(text, at) is not None


def highlight(text: str, pattern: HighlightPattern | None) -> HighlightedText:
    shown = _UNSHOWN.sub(" ", text)
    return HighlightedText(shown, _spans(shown, pattern) if pattern else ())


def make_snippet(text: str, pattern: HighlightPattern | None, *, length: int = LENGTH) -> HighlightedText:
    """Return the part with most different words; the beginning if there are none."""
    text = " ".join(_UNSHOWN.sub(" ", text).split())
    spans = _spans(text, pattern) if pattern else []
    start = _best_start(text, spans, length) if spans else 0
    end = min(len(text), start + length)
    if start > 0 and (space := text.find(" ", start, start + 20)) >= 0 and not _overlaps(spans, start, space + 1):
        start = space + 1
    if end < len(text) and (space := text.rfind(" ", end - 20, end)) > start:
        end = space
    head, tail = "… " * (start > 0), " …" * (end < len(text))
    shift = len(head) - start
    marks = [(first + shift, last + shift) for first, last in spans if start <= first and last <= end]
    return HighlightedText(head + text[start:end] + tail, marks)


def _spans(text: str, pattern: HighlightPattern) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for span in pattern.spans(fold(text)):
        if spans and span[0] < spans[-1][1]:
            continue
        spans.append(span)
        if len(spans) == MOST_MARKS:
            break
    return spans


def _best_start(text: str, spans: Sequence[tuple[int, int]], length: int) -> int:
    best, best_score = 0, -1
    for number, (first, _) in enumerate(spans[:200]):
        start = max(0, first - BEFORE)
        inside = [text[a:b].lower() for a, b in spans[number : number + 50] if b <= start + length]
        score = 10 * len(set(inside)) + len(inside)
        if score > best_score:
            best, best_score = start, score
    return best


def _overlaps(spans: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    return any(first < end and last > start for first, last in spans)
