"""Runs of one size, asked together: one filter over the filters of all of them.

Their filters have as many words and are sparse, each with room for what a whole level has: laid one over the other,
word by word, they are the filter that one run of all their hashes would have. So a frontier asks two or three filters,
whether it has one million URLs or ten, and not one for each of twenty runs. Runs that are not sparse (the largest, and
those of an earlier webmill) are asked alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from webmill.crawl.frontier.run import Run, shift_of

LARGEST = 16 << 20  # bytes of such a filter: of a level with eight runs of a million hashes


class Bundle:
    """`before` is what there was of this size: what was laid together need not be again."""

    def __init__(self, runs: Sequence[Run], *, before: Bundle | None = None) -> None:
        self.runs = runs
        self.count = sum(run.count for run in runs)
        self._alone = runs[0] if len(runs) == 1 else None
        self._shift = shift_of(runs[0].word_count) or 0
        self._words = runs[0].words if self._alone else _laid_together(self._parts(before))

    def _parts(self, before: Bundle | None) -> list[memoryview]:
        if before is None or not set(before.runs) <= set(self.runs):
            return [run.words for run in self.runs]
        return [before._words, *(run.words for run in self.runs if run not in before.runs)]

    def maybe(self, heads: Sequence[int], masks: Sequence[int]) -> list[int]:
        """By the filter: the places of those that one of the runs may hold."""
        if self._alone:
            return self._alone.maybe(heads, masks)
        words, shift = self._words, self._shift
        both = enumerate(zip(heads, masks, strict=True))
        return [at for at, (head, mask) in both if words[head >> shift] & mask == mask]

    def holds(self, hash_: bytes, head: int, mask: int) -> bool:
        """Exactly, for what it may hold."""
        if self._alone:
            return self._alone.holds(hash_, head)
        place = head >> self._shift
        return any(run.words[place] & mask == mask and run.holds(hash_, head) for run in self.runs)


def bundled(runs: Sequence[Run], *, before: Sequence[Bundle], hashes_per_word: float) -> list[Bundle]:
    """The largest first: most answers are there. `hashes_per_word`: of a sparse filter, about."""
    known = {bundle.runs[0].word_count: bundle for bundle in before if len(bundle.runs) > 1}
    sparse: dict[int, list[Run]] = {}
    found: list[Bundle] = []
    for run in runs:
        if _is_sparse(run, hashes_per_word):
            sparse.setdefault(run.word_count, []).append(run)
        else:
            found.append(Bundle([run]))
    found += (Bundle(group, before=known.get(words)) for words, group in sparse.items())
    return sorted(found, key=lambda bundle: -bundle.count)


def _is_sparse(run: Run, hashes_per_word: float) -> bool:
    """Some of these fit into one filter."""
    is_small = run.words.nbytes <= LARGEST and shift_of(run.word_count) is not None
    return is_small and run.count <= 1.5 * hashes_per_word * run.word_count


def _laid_together(filters: Sequence[memoryview]) -> memoryview:
    total = 0
    for words in filters:
        total |= int.from_bytes(words.cast("B"), "little")
    return memoryview(total.to_bytes(filters[0].nbytes, "little")).cast("Q")
