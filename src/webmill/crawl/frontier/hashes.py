"""Hashes of URLs, many at a time: as rows that lie as they do in a file, and as numbers that are looked for.

The first 32 bits of a hash choose a word of a filter, the next ones four bits there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

HASH_SIZE = 16  # bytes

Hashes: TypeAlias = NDArray[np.void]  # rows of HALVES, as they lie in a file
Numbers: TypeAlias = NDArray[np.uint64]
Indexes: TypeAlias = NDArray[np.intp]

HALVES = np.dtype([("high", ">u8"), ("low", ">u8")])
HEAD = np.uint64(32)  # bits of the first half that choose a word
# Two bits for each value of twelve: a mask of four bits is two of these.
PAIRS = np.array([1 << (value & 63) | 1 << (value >> 6) for value in range(4096)], np.uint64)


class HashQuery(NamedTuple):
    """Hashes that are looked for: their halves, and the bits they have in a filter."""

    high: Numbers
    low: Numbers
    mask: Numbers

    def at(self, places: Indexes) -> HashQuery:
        return HashQuery(self.high[places], self.low[places], self.mask[places])


def make_query(hashes: Hashes) -> HashQuery:
    high, low = (hashes[half].astype(np.uint64) for half in ("high", "low"))
    return HashQuery(high, low, filter_masks(high))


def filter_masks(high: Numbers) -> Numbers:
    masks: Numbers = PAIRS[high & np.uint64(4095)] | PAIRS[high >> np.uint64(12) & np.uint64(4095)]
    return masks


def word_indexes(high: Numbers, count: int) -> Indexes:
    """Return which of the words of a filter each hash has."""
    return ((high >> HEAD) * np.uint64(count) >> HEAD).astype(np.intp)


def find_maybe(words: Numbers, hashes: HashQuery) -> Indexes:
    """Return the indexes of those that may be in this filter. Most questions end here."""
    return np.flatnonzero(words[word_indexes(hashes.high, len(words))] & hashes.mask == hashes.mask)


def join_hashes(hashes: Iterable[bytes]) -> Hashes:
    """Return hashes as rows of one array. Arrays are joined as bytes, too: numpy would change their byte order."""
    return np.frombuffer(b"".join(hashes), HALVES)


def hash_heads(hashes: Hashes) -> Indexes:
    """Return the first 32 bits of each."""
    return (hashes["high"] >> HEAD).astype(np.intp)


def sort_hashes(hashes: Hashes) -> Hashes:
    high = hashes["high"].astype(np.uint64)
    order = np.argsort(high, kind="stable")  # sorted parts, one behind the other, cost little
    if (np.diff(high[order]) == 0).any():  # hardly ever, unless somebody sees to it
        order = np.lexsort((hashes["low"], high))
    return hashes[order]
