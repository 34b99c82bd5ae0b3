"""What Gopher's, C4's and FineWeb's quality filters measure, for all texts of a batch at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from webmill.curate import characters
from webmill.curate.characters import Array
from webmill.curate.filters.repetition import count_repeats, ratio
from webmill.curate.text_batch import Spans, TextBatch

ELLIPSIS = 0x2026
STOP, BULLETS = ord("."), (0x2022, ord("-"))
CITATION = re.compile(r"\[\d*\]|\[edit\]|\[citation needed\]")
C4_ENDS = tuple(map(ord, ".?!\"'"))
POLICY = ("terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies")


def gopher_quality(text: TextBatch, *, stop_words: Sequence[str]) -> dict[str, Array]:
    """Return the numbers of Gopher's quality filter. `words` are those that are more than symbols."""
    words, lines = text.words, text.lines
    is_word = (text.flags[words.starts] & characters.IS_SYMBOL) == 0
    counts = text.per_document(words.documents[is_word])
    has_letter = (text.word_flags & characters.IS_ALPHA) != 0
    line_counts = text.per_document(lines.documents)
    bullets, ellipses = _marked_lines(text, lines)
    every = text.word_counts
    return {
        "words": counts,
        "mean_word_length": ratio(text.per_document(words.documents[is_word], words.lengths[is_word]), counts),
        "hashes": ratio(_occurrences(text, "#"), every),
        "ellipses": ratio(_occurrences(text, "...") + _occurrences(text, "…"), every),
        "bullet_lines": ratio(bullets, line_counts),
        "ellipsis_lines": ratio(ellipses, line_counts),
        "alphabetic_words": ratio(text.per_document(words.documents[has_letter]), every),
        "stop_words": count_stop_words(text, stop_words),
    }


def _occurrences(text: TextBatch, part: str) -> Array:
    return np.fromiter((one.count(part) for one in text.texts), np.int64, text.size)


def _marked_lines(text: TextBatch, lines: Spans) -> tuple[Array, Array]:
    """Return for each text how many lines begin with a bullet, and how many end with an ellipsis."""
    seen = text.stripped(lines)
    seen = seen.chosen(seen.lengths > 0)
    bullets = np.isin(text.codes[seen.starts], BULLETS)
    ellipses = (text.codes[seen.ends - 1] == ELLIPSIS) | _end_with_dots(text.codes, seen)
    return text.per_document(seen.documents[bullets]), text.per_document(seen.documents[ellipses])


def _end_with_dots(codes: Array, spans: Spans) -> Array:
    dots = spans.lengths >= 3
    for back in (1, 2, 3):
        dots &= codes[np.maximum(spans.ends - back, 0)] == STOP
    return dots


def count_stop_words(text: TextBatch, stop_words: Sequence[str]) -> Array:
    """Return how many of the words, as they are written, each text has."""
    found = np.zeros(text.size, np.int64)
    hashes = text.word_hashes
    for wanted in hashes_of_words(stop_words):
        found += text.per_document(text.words.documents[hashes == wanted]) > 0
    return found


def hashes_of_words(words: Iterable[str]) -> list[np.uint64]:
    """Return the hashes of whole words, as a text has them."""
    whole = TextBatch(sorted(set(words)))
    return list(whole.hashes(Spans(whole.starts, whole.ends, np.arange(whole.size))))


# --- FineWeb ---


def fineweb_quality(text: TextBatch, *, short_line: int) -> dict[str, Array]:
    """Return the numbers of FineWeb's filter, over the lines that are not empty."""
    lines = text.newline_lines
    stripped = text.stripped(lines)
    lines = lines.chosen(stripped.lengths > 0)
    counts = text.per_document(lines.documents)
    terminal = (text.flags[lines.ends - 1] & characters.IS_TERMINAL) != 0
    newlines = text.per_document(text.newline_lines.documents) - 1
    return {
        "lines": counts,
        "terminal_lines": ratio(text.per_document(lines.documents[terminal]), counts),
        "short_lines": ratio(text.per_document(lines.documents[lines.lengths <= short_line]), counts),
        "repeated_chars": ratio(count_repeats(text, lines)[1], text.lengths - newlines),
        "newlines_per_word": ratio(newlines, text.word_counts),
    }


# --- C4 ---


class LineRules(msgspec.Struct, frozen=True, kw_only=True):
    """Which lines of a text are left out."""

    terminal_punctuation: bool = True
    min_words: int = 3
    max_word_length: int = 1000
    javascript: bool = True
    policy: bool = True
    citations: bool = True
    phrases: tuple[str, ...] = ()


class LineChoice(msgspec.Struct, frozen=True):
    """The lines of a batch, which are kept, and which characters of them are left out (`citations`)."""

    lines: Spans  # without white space around them
    passing: Array  # nothing is wrong with its form
    kept: Array  # and nothing with its words
    citations: Array  # places, two for each: where it starts and ends


def choose_lines(text: TextBatch, rules: LineRules) -> LineChoice:
    """Return which lines of the texts are kept."""
    lines = text.stripped(text.lines)
    citations = _citations(text) if rules.citations else np.zeros((0, 2), np.int64)
    passing = _well_formed(text, lines, citations, rules)
    unwanted = [*(("javascript",) if rules.javascript else ()), *(POLICY if rules.policy else ()), *rules.phrases]
    kept = passing.copy()
    for phrase in unwanted:
        kept[_lines_at(lines, places_of(text.lowered, phrase.lower()))] = False
    return LineChoice(lines, passing, kept, citations)


def _well_formed(text: TextBatch, lines: Spans, citations: Array, rules: LineRules) -> Array:
    """Return which lines have enough words, none too long, and end as a sentence does."""
    starts, ends = _space_separated(text)
    owners = np.searchsorted(lines.starts, starts, side="right") - 1
    good = np.bincount(owners, minlength=len(lines.starts)) >= rules.min_words
    good[owners[ends - starts > rules.max_word_length]] = False
    if rules.terminal_punctuation:
        good &= _end_as_sentences(text, lines, citations)
    return good


def _space_separated(text: TextBatch) -> tuple[Array, Array]:
    """Return where the stretches without white space start and end."""
    space = (text.flags & characters.IS_SPACE) != 0
    edges = np.flatnonzero(np.diff(space, prepend=True, append=True))
    return edges[::2], edges[1::2]


def _citations(text: TextBatch) -> Array:
    if "[" not in text.joined:
        return np.zeros((0, 2), np.int64)
    return np.array([match.span() for match in CITATION.finditer(text.joined)], np.int64).reshape(-1, 2)


def _end_as_sentences(text: TextBatch, lines: Spans, citations: Array) -> Array:
    """Return which lines end with `.`, `?`, `!` or a quote, and with no `...`, when citations are left out."""
    ends = lines.ends.copy()
    behind = np.searchsorted(ends, citations[:, 1]) if len(citations) else np.zeros(0, np.int64)
    touched = np.unique(behind[(behind < len(ends))])
    good = (lines.lengths > 0) & np.isin(text.codes[np.maximum(ends - 1, 0)], C4_ENDS)
    good &= ~_end_with_dots(text.codes, lines)
    for line in touched.tolist():  # few lines have citations
        seen = CITATION.sub("", text.text_of(lines.starts[line], lines.ends[line]))
        good[line] = bool(seen) and ord(seen[-1]) in C4_ENDS and not seen.endswith("...")
    return good


def places_of(joined: str, phrase: str) -> Array:
    """Return where a phrase begins."""
    places = []
    at = joined.find(phrase)
    while at >= 0:
        places.append(at)
        at = joined.find(phrase, at + len(phrase))
    return np.array(places, np.int64)


def _lines_at(lines: Spans, places: Array) -> Array:
    """Return the numbers of the lines that places are in."""
    numbers = np.searchsorted(lines.starts, places, side="right") - 1
    inside = (numbers >= 0) & (places < lines.ends[np.maximum(numbers, 0)]) if len(places) else np.zeros(0, bool)
    return numbers[inside]


def c4_quality(text: TextBatch, choice: LineChoice) -> dict[str, Array]:
    """Return the numbers of C4's filter, for the lines that it keeps."""
    lines, documents = choice.lines, choice.lines.documents

    def having(phrase: str) -> Array:
        found = _lines_at(lines, places_of(text.lowered, phrase))
        return text.per_document(documents[found[choice.passing[found]]])

    return {
        "lorem_ipsum": having("lorem ipsum"),
        "curly_brackets": having("{"),
        "sentences": _kept_sentences(text, choice),
        "kept_lines": ratio(text.per_document(documents[choice.kept]), text.per_document(documents)),
    }


def _kept_sentences(text: TextBatch, choice: LineChoice) -> Array:
    """Return how many sentences the kept lines of each text have, without their citations."""
    if len(choice.citations):
        text = TextBatch(kept_texts(text, choice))
        kept = text.newline_lines
    else:
        kept = choice.lines.chosen(choice.kept)
    return text.per_document(kept.documents, count_sentences(text, kept))


def count_sentences(text: TextBatch, lines: Spans) -> Array:
    """Return the sentences of each line: as many as end in it, and one more if text follows the last.

    A sentence ends with terminal punctuation (Unicode's Sentence_Terminal) and closing marks before white space or the
    end of the line; after those of CJK no white space is needed.
    """
    flags = text.flags
    marks = np.flatnonzero(flags & characters.IS_TERMINAL)
    closing = (flags & (characters.IS_CLOSING | characters.IS_TERMINAL)) != 0
    after = _next_without(closing, marks)
    ends_here = (flags[np.minimum(after, len(flags) - 1)] & characters.IS_SPACE) != 0
    wide = ((flags[marks] & characters.IS_WIDE) != 0) & ~closing[np.minimum(marks + 1, len(flags) - 1)]
    sentence_ends = np.unique(np.where(wide, marks + 1, after)[ends_here | wide])
    first = np.searchsorted(sentence_ends, lines.starts, side="right")
    last = np.searchsorted(sentence_ends, lines.ends, side="right")
    padded = np.append(0, sentence_ends)
    rest = (lines.lengths > 0) & (np.where(last > first, padded[last], lines.starts) < lines.ends)
    return last - first + rest


def _next_without(mask: Array, places: Array) -> Array:
    """Return for each place the first one behind it where the mask is not set."""
    free = np.flatnonzero(~mask)
    return np.append(free, len(mask))[np.searchsorted(free, places, side="right")]


def kept_texts(text: TextBatch, choice: LineChoice) -> list[str]:
    """Return the texts of the kept lines alone; a text of which nothing goes is unchanged but for its line ends."""
    lines = choice.lines.chosen(choice.kept)
    bounds = np.searchsorted(lines.documents, np.arange(text.size + 1))
    starts, ends = lines.starts.tolist(), lines.ends.tolist()
    has_citations = len(choice.citations) > 0
    texts = []
    for number in range(text.size):
        places = range(bounds[number], bounds[number + 1])
        parts = [text.joined[starts[place] : ends[place]] for place in places]
        if has_citations:
            parts = [CITATION.sub("", part) if "[" in part else part for part in parts]
        texts.append("\n".join(parts).strip())
    return texts
