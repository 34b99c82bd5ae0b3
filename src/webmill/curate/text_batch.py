"""Texts of a batch as arrays: characters, words, lines. What filters and signatures are computed from, without a loop
over words.

The word rule, for all languages: a word is a segment of UAX 29 that is no white space, with two additions. A character
of a script that is written without spaces (CJK, Thai …) is a word of its own, with its marks, so that n words in a row
are n characters; and a run of one symbol (`...`, `-----`) is one word.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property

import msgspec
import numpy as np

from webmill.curate import characters
from webmill.curate.characters import CLASS_BITS, Array

_PRIME = np.uint64(0x9E3779B97F4A7C15)
_BASE = np.uint64(0xD6E8FEB86659FD93)  # odd: it has an inverse modulo 2**64
_FOLDED = np.uint64(32)
_EMPTY = np.zeros(0, np.int64)


class Spans(msgspec.Struct, frozen=True):
    """Stretches of the characters of a batch, and the document of each. They are in order."""

    starts: Array
    ends: Array
    documents: Array

    @property
    def lengths(self) -> Array:
        return self.ends - self.starts

    def chosen(self, which: Array) -> Spans:
        return Spans(self.starts[which], self.ends[which], self.documents[which])


class TextBatch:
    """Texts and what is known of their characters. Between two texts is a newline that belongs to none."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        self.lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        self.ends = np.cumsum(self.lengths + 1) - 1
        self.starts = self.ends - self.lengths

    @property
    def size(self) -> int:
        return len(self.texts)

    @cached_property
    def joined(self) -> str:
        return "\n".join((*self.texts, ""))

    @cached_property
    def codes(self) -> Array:
        """The code points of all texts. A lone surrogate, which is no character, is kept as its number."""
        return np.frombuffer(self.joined.encode("utf-32-le", "surrogatepass"), np.uint32)

    @cached_property
    def flags(self) -> Array:
        return characters.flags()[self.codes]

    @cached_property
    def lowered(self) -> str:
        """The texts in lower case, each character at its place."""
        if self.joined.isascii():
            return self.joined.lower()
        return characters.lower_table()[self.codes].tobytes().decode("utf-32-le", "surrogatepass")

    @cached_property
    def lower_codes(self) -> Array:
        return np.frombuffer(self.lowered.encode("utf-32-le", "surrogatepass"), np.uint32)

    @cached_property
    def visible(self) -> Array:
        """The places of the characters that are no white space."""
        return np.flatnonzero((self.flags & characters.IS_SPACE) == 0)

    def documents_of(self, places: Array) -> Array:
        """Return the number of the text that each place is in."""
        return np.searchsorted(self.ends, places, side="left")

    # --- words ---

    @cached_property
    def words(self) -> Spans:
        starts, ends = _segments(self.codes, self.flags & CLASS_BITS)
        return Spans(starts, ends, self.documents_of(starts))

    @cached_property
    def first_words(self) -> Array:
        """For each text the number of its first word; one entry more for the end."""
        return np.searchsorted(self.words.documents, np.arange(self.size + 1), side="left")

    @cached_property
    def word_counts(self) -> Array:
        return np.diff(self.first_words)

    @cached_property
    def word_hashes(self) -> Array:
        return self.hashes(self.words)

    @cached_property
    def word_flags(self) -> Array:
        """The flags of the characters of each word, together."""
        starts = self.words.starts
        return np.bitwise_or.reduceat(self.flags, starts) if len(starts) else np.zeros(0, np.uint16)

    def hashes(self, spans: Spans) -> Array:
        """Return a hash of the characters of each stretch, by prefix sums: equal characters, equal hashes."""
        return _hash_spans(self._sums, spans)

    def lower_hashes(self, spans: Spans) -> Array:
        """Return the same of the characters in lower case."""
        return _hash_spans(self._lower_sums, spans)

    @cached_property
    def _sums(self) -> Array:
        return _prefix_sums(self.codes)

    @cached_property
    def _lower_sums(self) -> Array:
        return self._sums if self.lowered == self.joined else _prefix_sums(self.lower_codes)

    # --- lines ---

    @cached_property
    def lines(self) -> Spans:
        """The lines of each text, as str.splitlines has them."""
        breaks = np.flatnonzero(self.flags & characters.IS_BREAK)
        codes = self.codes
        double = (codes[breaks] == 10) & (breaks > 0) & (codes[breaks - 1] == 13)
        firsts = breaks[~double]  # a line ends before them
        following = firsts + 1 + ((codes[firsts] == 13) & (codes[np.minimum(firsts + 1, len(codes) - 1)] == 10))
        starts = np.concatenate(([0], following[:-1])) if len(firsts) else _EMPTY
        return self._without_ends(Spans(starts, firsts, self.documents_of(starts)))

    @cached_property
    def newline_lines(self) -> Spans:
        """The parts of each text between newlines: at least one."""
        breaks = np.flatnonzero(self.codes == 10)
        starts = np.concatenate(([0], breaks[:-1] + 1)) if len(breaks) else _EMPTY
        return Spans(starts, breaks, self.documents_of(starts))

    def _without_ends(self, spans: Spans) -> Spans:
        """Leave out what is behind the last break of a text: nothing."""
        return spans.chosen(~((spans.starts == spans.ends) & (spans.starts == self.ends[spans.documents])))

    def stripped(self, spans: Spans) -> Spans:
        """Return the stretches without white space at both ends; one of nothing else is empty."""
        first = np.searchsorted(self.visible, spans.starts)
        last = np.searchsorted(self.visible, spans.ends)
        there = last > first
        padded = np.append(self.visible, 0)
        starts = np.where(there, padded[np.minimum(first, len(self.visible))], spans.starts)
        ends = np.where(there, padded[np.maximum(last - 1, 0)] + 1, spans.starts)
        return Spans(starts, ends, spans.documents)

    def text_of(self, start: int, end: int) -> str:
        return self.joined[start:end]

    def per_document(self, documents: Array, weights: Array | None = None) -> Array:
        """Return how many entries each text has, or the sum of their weights."""
        counted = np.bincount(documents, weights, self.size)
        return counted if weights is None else np.rint(counted).astype(np.int64)


@cache
def _powers(size: int) -> Array:
    powers = np.full(size, _BASE, np.uint64)
    powers[0] = 1
    return np.multiply.accumulate(powers)


@cache
def _inverse_powers(size: int) -> Array:
    powers = np.full(size, np.uint64(pow(int(_BASE), -1, 1 << 64)), np.uint64)
    powers[0] = 1
    return np.multiply.accumulate(powers)


def _room(size: int) -> int:
    """Return the size of the tables: few sizes, so that they are made seldom."""
    return 1 << max(16, (size - 1).bit_length())


def _prefix_sums(codes: Array) -> Array:
    sums = np.zeros(len(codes) + 1, np.uint64)
    spread = (codes.astype(np.uint64) + np.uint64(1)) * _PRIME
    spread ^= spread >> np.uint64(29)
    np.cumsum(spread * _powers(_room(len(codes)))[: len(codes)], out=sums[1:])
    return sums


def _hash_spans(sums: Array, spans: Spans) -> Array:
    inverse = _inverse_powers(_room(len(sums) - 1))
    return mixed((sums[spans.ends] - sums[spans.starts]) * inverse[np.minimum(spans.starts, len(inverse) - 1)])


def mixed(hashes: Array) -> Array:
    """Return the hashes with every bit depending on every other."""
    hashes = hashes ^ (hashes >> _FOLDED)
    hashes *= _PRIME
    hashes ^= hashes >> np.uint64(29)
    return hashes


# --- segments of UAX 29 ---


@cache
def _joins() -> Array:
    """Return for each pair of classes whether there is no boundary between them, wherever they are."""
    table = np.zeros(256, bool)
    c = characters
    alphanumeric = (c.LETTER, c.DIGIT)
    pairs = [(one, other) for one in alphanumeric for other in alphanumeric]  # WB5, WB8, WB9, WB10
    pairs += [(c.SPACE, c.SPACE), (c.KATAKANA, c.KATAKANA), (c.CONNECTOR, c.CONNECTOR)]  # WB13, WB13a
    for one in (*alphanumeric, c.KATAKANA):
        pairs += [(one, c.CONNECTOR), (c.CONNECTOR, one)]  # WB13a, WB13b
    for one, other in pairs:
        table[one * 16 + other] = True
    return table


def _segments(codes: Array, classes: Array) -> tuple[Array, Array]:
    """Return where words start and end."""
    extends = classes == characters.EXTEND
    if not extends.any():
        return _plain_segments(codes, classes)
    # WB4: marks belong to the character before them, unless that is white space.
    after_space = np.concatenate(([True], classes[:-1] == characters.SPACE))
    alone = extends & after_space
    kept = np.flatnonzero(~extends | alone)
    shown = np.where(alone, characters.OTHER, classes)
    starts, ends = _plain_segments(codes[kept], shown[kept])
    places = np.append(kept, len(codes))
    return places[starts], places[ends]


def _plain_segments(codes: Array, classes: Array) -> tuple[Array, Array]:
    if not len(codes):
        return _EMPTY, _EMPTY
    boundary = np.ones(len(codes), bool)
    pairs = (classes[:-1].astype(np.uint8) << 4) | classes[1:].astype(np.uint8)
    boundary[1:] = ~_joins()[pairs]
    _join_repeated(boundary, codes, classes)
    _join_middles(boundary, classes)
    places = np.flatnonzero(boundary)
    ends = np.append(places[1:], len(codes))
    words = classes[places] != characters.SPACE
    return places[words], ends[words]


def _join_repeated(boundary: Array, codes: Array, classes: Array) -> None:
    """A run of one symbol is one word."""
    is_symbol = (classes == characters.OTHER) | (classes >= characters.MID_LETTER)
    symbols = np.flatnonzero(is_symbol)
    symbols = symbols[symbols > 0]
    boundary[symbols[codes[symbols] == codes[symbols - 1]]] = False


def _join_middles(boundary: Array, classes: Array) -> None:
    """WB6, WB7, WB11, WB12: a full stop, colon or apostrophe between letters, a comma between digits."""
    middles = np.flatnonzero(classes >= characters.MID_LETTER)
    middles = middles[(middles > 0) & (middles < len(classes) - 1)]
    before, here, after = classes[middles - 1], classes[middles], classes[middles + 1]
    letters = (before == characters.LETTER) & (after == characters.LETTER) & (here != characters.MID_NUMBER)
    digits = (before == characters.DIGIT) & (after == characters.DIGIT) & (here != characters.MID_LETTER)
    inside = middles[letters | digits]
    boundary[inside] = False
    boundary[inside + 1] = False
