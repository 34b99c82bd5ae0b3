"""What a mix did to the documents: counts per step, and how they are distributed before and after."""

from __future__ import annotations

from collections import Counter
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
    documents: int
    kept: int
    steps: list[StepCounts]
    before: DistributionSummary
    after: DistributionSummary


class Distributions:
    """Counts documents by what is known of them."""

    def __init__(self) -> None:
        self._documents = self._chars = 0
        self._lengths: Counter[int] = Counter()
        self._languages: Counter[str] = Counter()
        self._hosts: Counter[str] = Counter()
        self._months: Counter[str] = Counter()

    def add(self, base: Any, which: Array) -> None:
        """Count the documents of a part that are chosen."""
        chars = base.column("chars").to_numpy()[which]
        self._documents += len(chars)
        self._chars += int(chars.sum())
        self._lengths.update(np.ceil(np.log2(np.maximum(chars, 1))).astype(int).tolist())
        chosen = np.flatnonzero(which)
        self._languages.update(_values(base.column("language").take(chosen)))
        self._hosts.update(_values(base.column("host").take(chosen)))
        if len(self._hosts) > MOST_HOSTS:
            self._hosts = Counter(dict(self._hosts.most_common(MOST_HOSTS // 2)))
        self._months.update(_months(base.column("date").to_numpy()[which]))

    def summary(self) -> DistributionSummary:
        return DistributionSummary(
            documents=self._documents,
            chars=self._chars,
            lengths={str(1 << power): self._lengths[power] for power in sorted(self._lengths)},
            languages=_most(self._languages),
            hosts=_most(self._hosts),
            months=dict(sorted(self._months.items())),
        )


def _values(column: Any) -> dict[str, int]:
    counted = column.value_counts()
    return {one["values"] or "?": one["counts"] for one in counted.to_pylist()}


def _months(dates: Array) -> dict[str, int]:
    known = dates[dates != np.iinfo(np.int64).max]
    months, counts = np.unique(known.astype("datetime64[us]").astype("datetime64[M]"), return_counts=True)
    return dict(zip(map(str, months), counts.tolist(), strict=True))


def _most(counter: Counter[str]) -> dict[str, int]:
    """Return the most frequent values, equal ones by name."""
    return dict(sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:MOST_SHOWN])
