"""MinHash signatures of texts: n-grams of words, a byte for each permutation, in bands.

A signature is kept: 14 bands of 8 rows are 14 numbers of 64 bits, 112 bytes a document, each byte a hash of one
minimum. A band is its own key for LSH, and the share of equal bytes of two signatures estimates their
Jaccard index (two minima that differ have the same byte once in 256 times, for which the estimate is corrected).
"""

from __future__ import annotations

from functools import cache

import numpy as np

from webmill.curate import characters
from webmill.curate.characters import Array
from webmill.curate.filters.repetition import keys_of
from webmill.curate.text_batch import Spans, TextBatch

BYTES = 8  # of a band: as many rows at most
_STEP = np.uint64(0x9FB21C651E98DF25)
_SPREAD = np.uint32(0x9E3779B1)
_SEED = 20080
_CHUNK = 1 << 14  # shingles at once: what a core's cache holds


def signatures(text: TextBatch, *, ngram: int, bands: int, rows: int) -> tuple[Array, Array]:
    """Return the bands of each text, (texts, bands) of 64 bits, and how many n-grams each has; without any, no band
    means anything."""
    shingles, documents = word_ngrams(text, ngram)
    counts = text.per_document(documents)
    minima = np.zeros((text.size, bands * rows), np.uint8)
    there = np.flatnonzero(counts)
    if len(there):
        minima[there] = _minima(shingles, counts[there], bands * rows)
    padded = np.zeros((text.size, bands, BYTES), np.uint8)
    padded[:, :, :rows] = minima.reshape(text.size, bands, rows)
    return padded.reshape(text.size, bands * BYTES).view("<u8"), counts


def word_ngrams(text: TextBatch, size: int) -> tuple[Array, Array]:
    """Return hashes of the n-grams of words in lower case, without symbols, and the text of each, in order.

    A text with fewer words is one n-gram of all of them.
    """
    words = _plain_words(text)
    counts = text.per_document(words.documents)
    firsts = np.concatenate(([0], np.cumsum(counts)))
    hashes = text.lower_hashes(words)
    grams = hashes.copy()
    limit = firsts[1:][words.documents]
    places = np.arange(len(hashes))
    for step in range(1, size):
        fits = places + step < limit
        factor = np.uint64(pow(int(_STEP), step, 1 << 64))
        grams[fits] += hashes[places[fits] + step] * factor
    wanted = (places + size <= limit) | (places == firsts[:-1][words.documents])
    return keys_of(grams[wanted], np.zeros(1, np.uint64)), words.documents[wanted]


def _plain_words(text: TextBatch) -> Spans:
    words = text.words
    return words.chosen((text.flags[words.starts] & characters.IS_SYMBOL) == 0)


@cache
def _permutations(count: int) -> tuple[Array, Array]:
    """Return factors and summands of `count` permutations of the numbers of 32 bits."""
    random = np.random.Generator(np.random.PCG64(_SEED))
    drawn = random.integers(0, 1 << 32, (2, count), np.uint64).astype(np.uint32)
    return drawn[0] | np.uint32(1), drawn[1]


def _minima(shingles: Array, counts: Array, permutations: int) -> Array:
    """Return a byte of the least value of each permutation, for each text that has shingles."""
    numbers = (shingles >> np.uint64(32)).astype(np.uint32)
    bounds = np.concatenate(([0], np.cumsum(counts)))
    minima = np.empty((permutations, len(counts)), np.uint32)
    first = 0
    while first < len(counts):
        last = max(first + 1, int(np.searchsorted(bounds, bounds[first] + _CHUNK, side="right")) - 1)
        piece = numbers[bounds[first] : bounds[last]]
        _least(piece, bounds[first:last] - bounds[first], minima[:, first:last])
        first = last
    return ((minima * _SPREAD) >> np.uint32(24)).astype(np.uint8).T


def _least(numbers: Array, starts: Array, into: Array) -> None:
    factors, summands = _permutations(len(into))
    permuted = np.empty_like(numbers)
    for row, (factor, summand) in enumerate(zip(factors, summands, strict=True)):
        np.multiply(numbers, factor, out=permuted)
        permuted += summand
        np.minimum.reduceat(permuted, starts, out=into[row])


def similarity(one: Array, other: Array, *, rows: int) -> Array:
    """Return the estimated Jaccard index of pairs of signatures: (pairs, bands) of 64 bits."""
    same = (one.view(np.uint8) == other.view(np.uint8)).reshape(len(one), -1, BYTES)[:, :, :rows]
    share = same.mean(axis=(1, 2))
    return np.asarray(np.clip((share - 1 / 256) / (1 - 1 / 256), 0.0, 1.0))
