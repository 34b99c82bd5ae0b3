"""How much of a text is repeated in it: lines, paragraphs, n-grams of words (Gopher, arXiv 2112.11446, table A1)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from webmill.curate.characters import Array
from webmill.curate.text_batch import Spans, TextBatch, mixed

TOP_SIZES = (2, 3, 4)
REPEATED_SIZES = (5, 6, 7, 8, 9, 10)
_STEP = np.uint64(0xA24BAED4963EE407)
_DOCUMENT = np.uint64(0x8E9D5A1B2C4F6E37)


class NGrams(msgspec.Struct, frozen=True):
    """The n-grams of a batch that may be there more than once in their document: where each starts, its words' hash."""

    size: int
    firsts: Array  # numbers of words
    hashes: Array


def line_repetition(text: TextBatch) -> dict[str, Array]:
    """Return the shares of lines and paragraphs that repeat an earlier one, by count and by characters."""
    found = {}
    for name, spans in (("paragraph", paragraphs_of(text)), ("line", filled_lines_of(text))):
        counts = text.per_document(spans.documents)
        repeats, chars = count_repeats(text, spans)
        found[f"repeated_{name}s"] = ratio(repeats, counts)
        found[f"repeated_{name}_chars"] = ratio(chars, text.lengths)
    return found


def count_repeats(text: TextBatch, spans: Spans) -> tuple[Array, Array]:
    """Return for each text how many stretches repeat an earlier one, and their characters."""
    keys = keys_of(text.hashes(spans), spans.documents)
    order = np.argsort(keys, kind="stable")
    again = order[1:][keys[order][1:] == keys[order][:-1]]
    documents = spans.documents[again]
    return text.per_document(documents), text.per_document(documents, spans.lengths[again])


def keys_of(hashes: Array, documents: Array) -> Array:
    """Return hashes that are equal only within a document."""
    return mixed(hashes + documents.astype(np.uint64) * _DOCUMENT)


def filled_lines_of(text: TextBatch) -> Spans:
    """Return the parts between runs of newlines, also the empty ones before the first and after the last."""
    is_newline = text.codes == 10
    return _between_runs(text, is_newline, text.starts, text.ends, least=1)


def paragraphs_of(text: TextBatch) -> Spans:
    """Return the parts between empty lines, of the text without white space around it."""
    stripped = text.stripped(Spans(text.starts, text.ends, np.arange(text.size)))
    return _between_runs(text, text.codes == 10, stripped.starts, stripped.ends, least=2)


def _between_runs(text: TextBatch, is_newline: Array, firsts: Array, lasts: Array, *, least: int) -> Spans:
    """Return the parts of the stretches `firsts` to `lasts` between runs of at least `least` newlines in them."""
    inside = np.flatnonzero(is_newline)
    owners = text.documents_of(inside)
    kept = (inside >= firsts[owners]) & (inside < lasts[owners])
    inside, owners = inside[kept], owners[kept]
    new = np.ones(len(inside), bool)
    new[1:] = (np.diff(inside) != 1) | (np.diff(owners) != 0)
    heads = np.flatnonzero(new)
    lengths = np.diff(np.append(heads, len(inside)))
    heads, lengths = heads[lengths >= least], lengths[lengths >= least]
    run_starts, run_documents = inside[heads], owners[heads]
    starts = np.concatenate((firsts, run_starts + lengths))
    ends = np.concatenate((lasts, run_starts))
    documents = np.arange(text.size)
    order_starts = np.lexsort((starts, np.concatenate((documents, run_documents))))
    order_ends = np.lexsort((ends, np.concatenate((documents, run_documents))))
    return Spans(starts[order_starts], ends[order_ends], np.concatenate((documents, run_documents))[order_starts])


# --- n-grams ---


def word_repetition(text: TextBatch) -> dict[str, Array]:
    """Return the share of characters in the most frequent 2, 3 and 4-gram, and in repeated 5 to 10-grams."""
    found = {}
    for grams in repeated_grams(text, sizes=max(REPEATED_SIZES)):
        if grams.size in TOP_SIZES:
            found[f"top_{grams.size}_gram"] = ratio(top_gram_chars(text, grams), text.lengths)
        elif grams.size in REPEATED_SIZES:
            found[f"repeated_{grams.size}_grams"] = ratio(repeated_chars(text, grams), text.lengths)
    return found


def repeated_grams(text: TextBatch, *, sizes: int) -> Iterator[NGrams]:
    """Yield for 2, 3 … `sizes` the n-grams that are there more than once in their document.

    One of n + 1 words is repeated only if both of n words in it are: few are left to look at.
    """
    words = text.word_hashes
    owners = text.words.documents
    last_word = text.first_words[1:][owners]
    places, hashes = np.arange(len(words)), words
    for size in range(2, sizes + 1):
        factor = np.uint64(pow(int(_STEP), size - 1, 1 << 64))
        if size > 2:  # the n-gram at the next word was repeated, too
            following = np.zeros(len(places), bool)
            following[:-1] = np.diff(places) == 1
            places, hashes = places[following], hashes[following]
        fits = places + size <= last_word[places]
        places, hashes = places[fits], hashes[fits]
        hashes = hashes + words[places + (size - 1)] * factor
        repeated = _are_repeated(keys_of(hashes, owners[places]))
        places, hashes = places[repeated], hashes[repeated]
        yield NGrams(size, places, hashes)


def _are_repeated(keys: Array) -> Array:
    """Return which keys are there more than once."""
    if not len(keys):
        return np.zeros(0, bool)
    ordered = np.sort(keys)
    several = ordered[1:][ordered[1:] == ordered[:-1]]
    found = np.searchsorted(several, keys)
    padded = np.append(several, np.uint64(0))
    return np.asarray((found < len(several)) & (padded[found] == keys))


def gram_lengths(text: TextBatch, firsts: Array, size: int) -> Array:
    """Return how many characters the words of n-grams have, without what is between them."""
    sums = np.concatenate(([0], np.cumsum(text.words.lengths)))
    return np.asarray(sums[firsts + size] - sums[firsts])


def top_gram_chars(text: TextBatch, grams: NGrams) -> Array:
    """Return for each text the characters of its most frequent n-gram, with spaces between the words, times its count.

    Of several that are as frequent the first counts.
    """
    chars = _first_gram_chars(text, grams.size)
    if not len(grams.firsts):
        return chars
    owners = text.words.documents[grams.firsts]
    _, first, counts = np.unique(keys_of(grams.hashes, owners), return_index=True, return_counts=True)
    order = np.lexsort((first, -counts, owners[first]))
    documents = owners[first][order]
    best = order[np.concatenate(([True], documents[1:] != documents[:-1]))]
    length = gram_lengths(text, grams.firsts[first[best]], grams.size) + grams.size - 1
    chars[owners[first[best]]] = length * counts[best]
    return chars


def _first_gram_chars(text: TextBatch, size: int) -> Array:
    """Return the characters of the first n-gram of each text, 0 if it has too few words."""
    chars = np.zeros(text.size, np.int64)
    has_one = text.word_counts >= size
    firsts = text.first_words[:-1][has_one]
    chars[has_one] = gram_lengths(text, firsts, size) + size - 1
    return chars


def repeated_chars(text: TextBatch, grams: NGrams) -> Array:
    """Return for each text the characters in n-grams that repeat an earlier one, none counted twice.

    Words that were counted begin no n-gram, as in the published filters: an order that has to be followed one by one,
    but only through n-grams that are repeated.
    """
    chars = np.zeros(text.size, np.int64)
    if not len(grams.firsts):
        return chars
    owners = text.words.documents[grams.firsts]
    numbers = np.unique(keys_of(grams.hashes, owners), return_inverse=True)[1]
    taken = _take_repeats(grams.firsts.tolist(), numbers.tolist(), grams.size)
    which = np.array(taken, np.int64)
    return text.per_document(owners[which], gram_lengths(text, grams.firsts[which], grams.size)) if taken else chars


def _take_repeats(firsts: list[int], numbers: list[int], size: int) -> list[int]:
    """Return the entries that repeat an earlier one, when their words begin no other."""
    seen: set[int] = set()
    taken = []
    free = 0
    for entry, (first, number) in enumerate(zip(firsts, numbers, strict=True)):
        if first < free:
            continue
        if number in seen:
            taken.append(entry)
            free = first + size
        else:
            seen.add(number)
    return taken


def ratio(part: Array, whole: Array) -> Array:
    """Return part / whole; 0 where there is nothing."""
    return np.divide(part, whole, out=np.zeros(len(whole)), where=whole != 0)
