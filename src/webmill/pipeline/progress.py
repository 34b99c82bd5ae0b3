"""How a stage reports progress: it opens a bar for each long step and advances it. And counts in words, for people."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import msgspec

_SINGULAR = {"are": "is", "were": "was", "have": "has"}


class ProgressBar(Protocol):
    def advance(self, count: int = 1) -> None: ...


class ProgressReporter(Protocol):
    def __call__(self, title: str, *, total: int | None = None, unit: str) -> AbstractContextManager[ProgressBar]:
        """Open a bar for one step."""


class StepProgress(msgspec.Struct, frozen=True):
    """How far a long step is. `total` is None where it is unknown."""

    title: str
    done: int
    total: int | None
    unit: str


ProgressCallback = Callable[[StepProgress], None]


class _CallbackBar:
    def __init__(self, callback: ProgressCallback, title: str, total: int | None, unit: str) -> None:
        self._callback, self._title, self._total, self._unit = callback, title, total, unit
        self._done = 0

    def advance(self, count: int = 1) -> None:
        self._done += count
        self._callback(StepProgress(self._title, self._done, self._total, self._unit))


def progress_to(callback: ProgressCallback | None) -> ProgressReporter:
    """Return a reporter that calls `callback` whenever a step advances; None: progress is not reported."""

    def report(title: str, *, total: int | None = None, unit: str) -> AbstractContextManager[ProgressBar]:
        return nullcontext(_CallbackBar(callback or (lambda _: None), title, total, unit))

    return report


def format_count(count: int, noun: str, verb: str = "") -> str:
    """Return `1 file`, `2 files`, `3 batches`; with a verb (given in the plural) `1 URL waits`, `2 URLs wait`."""
    plural = "" if count == 1 else "es" if noun.endswith("ch") else "s"
    text = f"{count:,} {noun}{plural}"
    if not verb:
        return text
    return f"{text} {_SINGULAR.get(verb, f'{verb}s') if count == 1 else verb}"
