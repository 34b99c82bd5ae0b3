"""The passages that are nearest to a vector: every row is compared, so none is missed.

The integers of a block of rows become floating-point numbers in a buffer that stays in the cache of the processor, and
are multiplied there: about as fast as memory is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import numpy

from webmill.search.meaning.model import Vectors
from webmill.search.meaning.passages import Passage
from webmill.search.meaning.vector_file import Rows
from webmill.search.meaning.vector_store import VectorReader

BLOCK = 2048  # rows
FIRST, WIDER, WIDEST = 400, 8, 25_600  # passages that are put in order: at first, and how many times more, at most


class NearContent(msgspec.Struct, frozen=True):
    """A content, with its passage that is nearest, and how near that is: 1 is the same direction."""

    content: str
    passage: Passage
    score: float


class PassageScores:
    """How near each passage of a store is to a vector."""

    def __init__(self, reader: VectorReader, vector: Vectors) -> None:
        self._files = reader.files
        self._ends = numpy.cumsum([len(rows) for rows in self._files], dtype=numpy.int64)
        self._scores = numpy.concatenate([_scores_of(rows, vector) for rows in self._files] or [numpy.empty(0, "f4")])

    def nearest(self) -> Iterator[NearContent]:
        """Yield contents, each with its nearest passage, the nearest first: those of the nearest `WIDEST` passages."""
        seen, before = set[str](), 0
        while before < min(WIDEST, len(self._scores)):
            most = min(max(FIRST, before * WIDER), WIDEST, len(self._scores))
            whole = numpy.argpartition(-self._scores, most - 1)[:most]
            chosen = whole[numpy.argsort(-self._scores[whole], kind="stable")]
            yield from _each_once(self._rows(chosen[before:]), seen)
            before = most

    def of(self, contents: Iterable[str]) -> list[NearContent]:
        """Return these contents, the nearest first."""
        wanted = numpy.array([bytes.fromhex(each) for each in {*contents}], "V16").view("S16")
        masks = [numpy.isin(rows["key"].view("S16"), wanted) for rows in self._files]
        chosen = numpy.flatnonzero(numpy.concatenate(masks)) if masks else numpy.empty(0, numpy.int64)
        return [*_each_once(self._rows(chosen[numpy.argsort(-self._scores[chosen], kind="stable")]), set())]

    def _rows(self, numbers: Iterable[int]) -> Iterator[NearContent]:
        for number in numbers:
            file = int(numpy.searchsorted(self._ends, number, side="right"))
            row = self._files[file][int(number) - (int(self._ends[file - 1]) if file else 0)]
            passage = Passage(int(row["start"]), int(row["length"]))
            yield NearContent(row["key"].tobytes().hex(), passage, float(self._scores[number]))


def _each_once(found: Iterable[NearContent], seen: set[str]) -> Iterator[NearContent]:
    for each in found:
        if each.content not in seen:
            seen.add(each.content)
            yield each


def _scores_of(rows: Rows, vector: Vectors) -> Vectors:
    scores = numpy.empty(len(rows), numpy.float32)
    buffer = numpy.empty((BLOCK, len(vector)), numpy.float32)
    for at in range(0, len(rows), BLOCK):
        some = rows["vector"][at : at + BLOCK]
        numpy.copyto(buffer[: len(some)], some)
        numpy.dot(buffer[: len(some)], vector, out=scores[at : at + len(some)])
    scores *= rows["scale"]
    return scores
