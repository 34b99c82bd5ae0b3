"""What a mix did to the documents: counts per step, and how they are distributed before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from webmill.curate.characters import Array

MOST_SHOWN = 30  # values of a distribution
MOST_HOSTS = 1 << 20  # hosts that are counted at once; above, the rare ones are forgotten
MICROSECONDS = 1_000_000


class ReasonCount(msgspec.Struct):
    """Documents that were removed for one reason, and the first of them with the number that was beyond the limit."""

    count: int = 0
    examples: list[str] = []


class StepCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many documents came to a step, and how many it removed."""

    step: str
    documents: int
    removed: int
    reasons: dict[str, ReasonCount] = {}

    @property
    def kept(self) -> int:
        return self.documents - self.removed


class DistributionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Documents by length (the upper bound in characters), language, host, month; the most frequent values."""

    documents: int = 0
    chars: int = 0
    lengths: dict[str, int] = {}
    languages: dict[str, int] = {}
    hosts: dict[str, int] = {}
    months: dict[str, int] = {}


class CurateReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided: documents in, kept, and per step."""

    recipe: str
    unreadable: int = 0  # rows of documents
    documents: int
    kept: int
    steps: list[StepCounts]
    before: DistributionSummary
    after: DistributionSummary


class CodedValues(msgspec.Struct, frozen=True):
    """The values of a column, each once, and for each document the number of its value; less than 0: none."""

    names: list[Any]
    codes: Array

    def counts(self, which: Array | None) -> Counter[Any]:
        """Return how many of the chosen documents, or of all, have each value."""
        codes = self.codes if which is None else self.codes[which]
        counted = np.bincount(codes[codes >= 0], minlength=len(self.names))
        found: Counter[Any] = Counter()
        for code in np.flatnonzero(counted).tolist():
            found[self.names[code]] += int(counted[code])
        return found


class PartValues(msgspec.Struct, frozen=True):
    """What reports count of the documents of a part."""

    chars: Array
    lengths: CodedValues
    languages: CodedValues
    hosts: CodedValues
    months: CodedValues


def part_values(base: Any) -> PartValues:
    """Return what reports count, of the attributes that every recipe needs."""
    chars = base.column("chars").to_numpy()
    dates = base.column("date").to_numpy()
    months = dates.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)
    return PartValues(
        chars=chars,
        lengths=_coded(np.ceil(np.log2(np.maximum(chars, 1))).astype(np.int64)),
        languages=_coded_texts(base.column("language")),
        hosts=_coded_texts(base.column("host")),
        months=_coded(months, lambda month: str(np.datetime64(month, "M")), known=dates != np.iinfo(np.int64).max),
    )


def _coded(values: Array, name: Callable[[int], Any] = int, *, known: Array | None = None) -> CodedValues:
    used, codes = np.unique(values, return_inverse=True)
    return CodedValues([name(value) for value in used.tolist()], codes if known is None else np.where(known, codes, -1))


def _coded_texts(column: Any) -> CodedValues:
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return CodedValues([name or "?" for name in encoded.dictionary.to_pylist()], encoded.indices.to_numpy())


class Distributions:
    """Counts documents by what is known of them."""

    def __init__(self) -> None:
        self._documents = self._chars = 0
        self._lengths: Counter[int] = Counter()
        self._languages: Counter[str] = Counter()
        self._hosts: Counter[str] = Counter()
        self._months: Counter[str] = Counter()

    def add(self, part: PartValues, which: Array | None = None) -> None:
        """Count the documents of a part that are chosen, or all."""
        chars = part.chars if which is None else part.chars[which]
        self._documents += len(chars)
        self._chars += int(chars.sum())
        self._lengths.update(part.lengths.counts(which))
        self._languages.update(part.languages.counts(which))
        self._hosts.update(part.hosts.counts(which))
        if len(self._hosts) > MOST_HOSTS:
            self._hosts = Counter(dict(self._hosts.most_common(MOST_HOSTS // 2)))
        self._months.update(part.months.counts(which))

    def summary(self) -> DistributionSummary:
        return DistributionSummary(
            documents=self._documents,
            chars=self._chars,
            lengths={str(1 << power): self._lengths[power] for power in sorted(self._lengths)},
            languages=_most(self._languages),
            hosts=_most(self._hosts),
            months=dict(sorted(self._months.items())),
        )


def _most(counter: Counter[str]) -> dict[str, int]:
    """Return the most frequent values, equal ones by name."""
    return dict(sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:MOST_SHOWN])
