"""Hashes of URLs, many at a time: as rows that lie as they do in a file, and as numbers that are looked for.

The first 32 bits of a hash choose a word of a filter, the next ones four bits there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

HASH = 16  # bytes

Hashes: TypeAlias = NDArray[np.void]  # rows of HALVES, as they lie in a file
Numbers: TypeAlias = NDArray[np.uint64]
Places: TypeAlias = NDArray[np.intp]

HALVES = np.dtype([("high", ">u8"), ("low", ">u8")])
HEAD = np.uint64(32)  # bits of the first half that choose a word
# Two bits for each value of twelve: a mask of four bits is two of these.
PAIRS = np.array([1 << (value & 63) | 1 << (value >> 6) for value in range(4096)], np.uint64)


class Asked(NamedTuple):
    """Hashes that are looked for: their halves, and the bits they have in a filter."""

    high: Numbers
    low: Numbers
    mask: Numbers

    def at(self, places: Places) -> Asked:
        return Asked(self.high[places], self.low[places], self.mask[places])


def asked(hashes: Hashes) -> Asked:
    high, low = (hashes[half].astype(np.uint64) for half in ("high", "low"))
    return Asked(high, low, masks_of(high))


def masks_of(high: Numbers) -> Numbers:
    masks: Numbers = PAIRS[high & np.uint64(4095)] | PAIRS[high >> np.uint64(12) & np.uint64(4095)]
    return masks


def words_of(high: Numbers, count: int) -> Places:
    """Which of so many words each has in a filter."""
    return ((high >> HEAD) * np.uint64(count) >> HEAD).astype(np.intp)


def maybe_in(words: Numbers, hashes: Asked) -> Places:
    """By this filter: the places of those that may be there. Most questions end here."""
    return np.flatnonzero(words[words_of(hashes.high, len(words))] & hashes.mask == hashes.mask)


def rows_of(hashes: Iterable[bytes]) -> Hashes:
    """Of any pieces of bytes. Arrays of rows are joined so, too: numpy would give them the machine's byte order."""
    return np.frombuffer(b"".join(hashes), HALVES)


def heads_of(hashes: Hashes) -> Places:
    """The first 32 bits of each."""
    return (hashes["high"] >> HEAD).astype(np.intp)


def in_order(hashes: Hashes) -> Hashes:
    high = hashes["high"].astype(np.uint64)
    order = np.argsort(high, kind="stable")  # sorted parts, one behind the other, cost little
    if (np.diff(high[order]) == 0).any():  # hardly ever, unless somebody sees to it
        order = np.lexsort((hashes["low"], high))
    return hashes[order]
