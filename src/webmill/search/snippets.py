"""Where in a text the words are that were asked for, and the part of it that shows most of them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from webmill.search.base import Marked
from webmill.search.query import Term
from webmill.search.words import WORD_CHARACTER, is_paired, pieces, words_of

LENGTH = 240  # characters of a snippet
BEFORE = 60  # of them before the first mark
MOST_MARKS = 1000  # that are looked at
# Controls, and marks that turn the direction of what stands around them: a snippet is cut out of its own surroundings.
_UNSHOWN = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\ufeff]+")


class _Folded(dict[int, int]):
    """Characters to their base letters, one for one, so that positions stay."""

    def __missing__(self, code: int) -> int:
        if is_paired(chr(code)):  # these are not letters with accents
            self[code] = code
            return code
        text = unicodedata.normalize("NFKD", chr(code)).lower()[:1]
        base = self[code] = ord(text) if text and not unicodedata.combining(text) else code
        return base


_FOLDED = _Folded()


def fold(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_FOLDED)


def pattern_of(terms: Iterable[Term], *, also: Iterable[str] = ()) -> re.Pattern[str] | None:
    """`also`: other forms of the words, which the engine has found instead of them."""
    found: dict[str, None] = {}
    for term in terms:
        if term.field not in ("", "title"):
            continue
        for in_pairs, piece in pieces(term.text):
            for each in (piece,) if in_pairs else words_of(piece):
                text = re.escape(fold(each))
                found[text if in_pairs else _word(text, is_open=term.is_prefix)] = None
    for word in also:
        found[_word(re.escape(fold(word)))] = None
    return re.compile("|".join(sorted(found, key=len, reverse=True))) if found else None


def _word(text: str, *, is_open: bool = False) -> str:
    return f"(?<!{WORD_CHARACTER}){text}" + ("" if is_open else f"(?!{WORD_CHARACTER})")


def mark(text: str, pattern: re.Pattern[str] | None) -> Marked:
    shown = _UNSHOWN.sub(" ", text)
    return Marked(shown, _spans(shown, pattern) if pattern else ())


def snippet(text: str, pattern: re.Pattern[str] | None, *, length: int = LENGTH) -> Marked:
    """The stretch with most different words; the beginning when there are none."""
    text = " ".join(_UNSHOWN.sub(" ", text).split())
    spans = _spans(text, pattern) if pattern else []
    start = _best(text, spans, length) if spans else 0
    end = min(len(text), start + length)
    if start > 0 and (space := text.find(" ", start, start + 20)) >= 0 and not _cuts(spans, start, space + 1):
        start = space + 1
    if end < len(text) and (space := text.rfind(" ", end - 20, end)) > start:
        end = space
    head, tail = "… " * (start > 0), " …" * (end < len(text))
    shift = len(head) - start
    marks = [(first + shift, last + shift) for first, last in spans if start <= first and last <= end]
    return Marked(head + text[start:end] + tail, marks)


def _spans(text: str, pattern: re.Pattern[str]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for match in pattern.finditer(fold(text)):
        if spans and match.start() < spans[-1][1]:
            continue
        spans.append(match.span())
        if len(spans) == MOST_MARKS:
            break
    return spans


def _best(text: str, spans: Sequence[tuple[int, int]], length: int) -> int:
    best, best_score = 0, -1
    for number, (first, _) in enumerate(spans[:200]):
        start = max(0, first - BEFORE)
        inside = [text[a:b].lower() for a, b in spans[number : number + 50] if b <= start + length]
        score = 10 * len(set(inside)) + len(inside)
        if score > best_score:
            best, best_score = start, score
    return best


def _cuts(spans: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    return any(first < end and last > start for first, last in spans)
