"""Groups of runs of one size, which are searched together: one filter over the filters of all of them.

Their filters have as many words and are sparse, each with room for what a whole level has: laid one over the other,
word by word, they are the filter that one run of all their hashes would have. So a frontier asks two or three filters,
whether it has one million URLs or ten, and not one for each of twenty runs. Runs that are not sparse (the largest, and
those of an earlier webmill) are asked alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from webmill.crawl.frontier.hashes import HashQuery, Indexes, Numbers, find_maybe
from webmill.crawl.frontier.sorted_hash_run import HashRun

MAX_FILTER_SIZE = 16 << 20  # bytes of such a filter: of a level with eight runs of a million hashes


class RunGroup:
    """`before` is what there was of this size: what was laid together need not be again."""

    def __init__(self, runs: Sequence[HashRun], *, before: RunGroup | None = None) -> None:
        self.runs = runs
        self.count = sum(run.count for run in runs)
        self._words = reduce(np.bitwise_or, self._parts(before))

    def _parts(self, before: RunGroup | None) -> list[Numbers]:
        if before is None or not set(before.runs) <= set(self.runs):
            return [run.words for run in self.runs]
        return [before._words, *(run.words for run in self.runs if run not in before.runs)]

    def maybe(self, hashes: HashQuery) -> Indexes:
        """Return the indexes of those that one of the runs may hold, by the filter."""
        return find_maybe(self._words, hashes)

    def find(self, hashes: HashQuery) -> Indexes:
        """Return the indexes of those that one of the runs holds, exactly."""
        maybe = self.maybe(hashes)
        found, some = [], hashes.at(maybe)
        for run in self.runs:
            here = find_maybe(run.words, some)
            found.append(maybe[here[run.holds(some.at(here))]])
        return np.concatenate(found)


def group_runs(runs: Sequence[HashRun], *, before: Sequence[RunGroup], hashes_per_word: float) -> list[RunGroup]:
    """Return groups of the runs, the largest first: most answers are there. `hashes_per_word`: of a sparse filter."""
    known = {group.runs[0].word_count: group for group in before if len(group.runs) > 1}
    sparse: dict[int, list[HashRun]] = {}
    found: list[RunGroup] = []
    for run in runs:
        if _is_sparse(run, hashes_per_word):
            sparse.setdefault(run.word_count, []).append(run)
        else:
            found.append(RunGroup([run]))
    found += (RunGroup(group, before=known.get(words)) for words, group in sparse.items())
    return sorted(found, key=lambda group: -group.count)


def _is_sparse(run: HashRun, hashes_per_word: float) -> bool:
    """Tell whether several such runs fit into one filter."""
    is_small = run.words.nbytes <= MAX_FILTER_SIZE and run.word_count & (run.word_count - 1) == 0
    return is_small and run.count <= 1.5 * hashes_per_word * run.word_count
