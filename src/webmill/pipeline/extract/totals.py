"""Totals of captures, documents and errors: of a task, of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from webmill.extract.outcomes import REJECTED
from webmill.pipeline.extract.receipts import Receipt


class TaskTotals(msgspec.Struct, kw_only=True):
    """What a task has made so far. `captures` = rows + left out, but for those of which only an error tells."""

    parts: int = 0
    captures: int = 0
    documents: int = 0  # rows
    outcomes: dict[str, int] = {}
    left_out: dict[str, int] = {}
    errors: int = 0
    reasons: dict[str, int] = {}
    written: int = 0  # bytes
    downloaded: int = 0  # bytes
    seconds: float = 0.0
    resume: dict[str, int] = {}
    sources: dict[str, int] = {}  # sizes
    finished: bool = False


class TaskFailure(msgspec.Struct, frozen=True):
    task: str
    reason: str


class ExtractReport(msgspec.Struct, kw_only=True):
    """What one command did; other workers may have done the rest. `failed` tasks are dead letters now, by whichever
    run; `left` are neither done nor failed.
    """

    tasks: int = 0
    captures: int = 0
    documents: int = 0
    outcomes: dict[str, int] = {}
    left_out: dict[str, int] = {}
    errors: int = 0
    reasons: dict[str, int] = {}
    failures: list[TaskFailure] = []
    given_back: int = 0
    stopped: bool = False
    failed: int = 0
    left: int = 0

    @property
    def rejected(self) -> int:
        """Return how much is wrong: tasks that failed or are left, damage; and captures that could not be read, where
        they are most. Some always are, among millions of other people's pages: each is a row that says why.
        """
        return self.failed + self.errors + (0 if self.stopped else self.left) + self.unread

    @property
    def unread(self) -> int:
        return count_if_mostly_rejected(self.outcomes, captures=self.captures)

    def add(self, totals: TaskTotals) -> None:
        self.tasks += 1
        self.captures += totals.captures
        self.documents += totals.documents
        self.errors += totals.errors
        add_counts(self.outcomes, totals.outcomes)
        add_counts(self.left_out, totals.left_out)
        add_counts(self.reasons, totals.reasons)


def rejected_outcomes(outcomes: Mapping[str, int]) -> dict[str, int]:
    """Return the outcomes of captures that could not be read."""
    return {name: count for name, count in outcomes.items() if name in REJECTED}


def count_if_mostly_rejected(outcomes: Mapping[str, int], *, captures: int) -> int:
    """Return how many captures could not be read, where that is more than half of them; else 0."""
    rejected = sum(rejected_outcomes(outcomes).values())
    return rejected if 2 * rejected > captures else 0


def add_counts(to: dict[str, int], counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        to[name] = to.get(name, 0) + count


def add_up_receipts(receipts: Iterable[Receipt]) -> TaskTotals:
    totals = TaskTotals()
    for receipt in receipts:
        totals.parts += 1
        totals.captures += receipt.captures
        totals.documents += receipt.output.rows if receipt.output else 0
        totals.errors += receipt.errors.rows if receipt.errors else 0
        totals.written += receipt.output.size if receipt.output else 0
        totals.downloaded += receipt.downloaded
        add_counts(totals.outcomes, receipt.outcomes)
        add_counts(totals.left_out, receipt.left_out)
        add_counts(totals.reasons, receipt.reasons)
        totals.seconds = round(totals.seconds + receipt.seconds, 3)
        totals.resume = receipt.resume
        totals.sources = {file_type: source.size for file_type, source in receipt.sources.items()}
        totals.finished = receipt.last
    return totals
