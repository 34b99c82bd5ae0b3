"""Connected documents: equal keys, and whom they connect, in memory that does not grow with the number of keys.

Keys are looked at in passes: one band, and of it one range of values, at a time. Only the parents of the union-find
grow with the corpus: 8 bytes a document, in a file from `MAPPED` documents on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from webmill.curate.characters import Array

KEYS_AT_ONCE = 1 << 23  # of a pass: about 400 MB with what sorting needs
MAPPED = 1 << 25  # documents from which on parents are in a file
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # odd: bands of fewer than 8 rows have no high bits of their own


class UnionFind:
    """Sets of documents, which edges join. The root of a set is its first document."""

    def __init__(self, size: int, *, folder: Path | None = None, mapped: int = MAPPED) -> None:
        self.parents: Array
        if folder and size >= mapped:
            self.parents = np.memmap(folder / "parents.i64", np.int64, "w+", shape=(size,))
            for first in range(0, size, KEYS_AT_ONCE):
                self.parents[first : first + KEYS_AT_ONCE] = np.arange(first, min(first + KEYS_AT_ONCE, size))
        else:
            self.parents = np.arange(size)

    def join(self, ones: Array, others: Array) -> None:
        """Join the sets of `ones` with those of `others`, pair by pair."""
        while len(ones):
            first, second = self.roots(ones), self.roots(others)
            apart = first != second
            ones, others = first[apart], second[apart]
            # A root that several others ask for takes the least: whichever came last would be one of them a round.
            np.minimum.at(self.parents, np.maximum(ones, others), np.minimum(ones, others))
            self._shorten(np.unique(np.concatenate((ones, others))))

    def roots(self, members: Array) -> Array:
        """Return the first document of the set that each belongs to."""
        found = self.parents[members]
        while True:
            above = self.parents[found]
            if np.array_equal(above, found):
                self.parents[members] = found
                return found
            found = above

    def _shorten(self, members: Array) -> None:
        """Let the members point at their roots; the way there doubles with each round."""
        while True:
            above = self.parents[self.parents[members]]
            if np.array_equal(above, self.parents[members]):
                return
            self.parents[members] = above


def equal_pairs(keys: Array, members: Array) -> tuple[Array, Array, Array]:
    """Return pairs of neighbours with the same key, and for each the first member that has it. `members` ascend."""
    keys, members = _repeated_keys(keys, members)
    order = np.argsort(keys, kind="stable")
    ordered, members = keys[order], members[order]
    same = ordered[1:] == ordered[:-1]
    heads = np.concatenate(([True], ~same)) if len(ordered) else np.zeros(0, bool)
    leaders = members[np.maximum.accumulate(np.where(heads, np.arange(len(ordered)), 0))] if len(ordered) else members
    return members[:-1][same], members[1:][same], leaders[1:][same]


def _repeated_keys(keys: Array, members: Array) -> tuple[Array, Array]:
    """Return the keys that several members have, and these, in their order. A sort that need not be stable costs a
    fifth of one that is, and few keys are repeated."""
    order = np.argsort(keys)
    ordered = keys[order]
    same = ordered[1:] == ordered[:-1]
    repeated = np.zeros(len(keys), bool)
    repeated[1:] = same
    repeated[:-1] |= same
    places = np.sort(order[repeated])
    return keys[places], members[places]


def key_passes(
    read: Callable[[int], Array], offsets: Sequence[int], alive: Array, *, at_once: int = KEYS_AT_ONCE
) -> Iterator[tuple[Array, Array]]:
    """Yield keys and the documents that have them, by ranges of keys: those that are equal come together.

    `read(number)` returns the keys of a part, whose documents are `offsets[number]` and following.
    """
    count = int(np.count_nonzero(alive))
    bits = max(0, (count - 1) // at_once).bit_length()
    for chosen in range(1 << bits):
        keys, members = [], []
        for number, (first, end) in enumerate(pairwise(offsets)):
            mask = alive[first:end]
            if not mask.any():
                continue
            values = read(number)
            if bits:
                mask = mask & ((values * _SPREAD >> np.uint64(64 - bits)) == np.uint64(chosen))
            keys.append(values[mask])
            members.append(np.flatnonzero(mask) + first)
        if keys:
            yield np.concatenate(keys), np.concatenate(members)


def connected(sets: UnionFind, alive: Array, *, at_once: int = KEYS_AT_ONCE) -> tuple[Array, Array]:
    """Return the documents that are not alone in their set, in order, and the root of each."""
    roots_of: list[Array] = []
    members_of: list[Array] = []
    crowded = np.zeros(len(alive), bool)
    for first in range(0, len(alive), at_once):
        members = np.flatnonzero(alive[first : first + at_once]) + first
        roots = sets.roots(members)
        apart = roots != members
        crowded[roots[apart]] = True
        members_of.append(members[apart])
        roots_of.append(roots[apart])
    leaders = np.flatnonzero(crowded)
    members = np.concatenate([*members_of, leaders])
    roots = np.concatenate([*roots_of, leaders])
    order = np.argsort(members, kind="stable")
    return members[order], roots[order]


def choose_keepers(members: Array, roots: Array, ranks: Sequence[Array]) -> tuple[Array, Array]:
    """Return the documents that are not kept, and for each the one of its set that is: the first by `ranks`, of which
    the first weighs most."""
    order = np.lexsort((members, *reversed(ranks), roots))
    members, roots = members[order], roots[order]
    heads = np.concatenate(([True], roots[1:] != roots[:-1])) if len(roots) else np.zeros(0, bool)
    leaders = np.maximum.accumulate(np.where(heads, np.arange(len(roots)), 0))
    return members[~heads], members[leaders[~heads]]
