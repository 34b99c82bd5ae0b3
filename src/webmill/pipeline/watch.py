"""How a flow lets somebody watch: it opens a counter for each long step and advances it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import msgspec


class Counter(Protocol):
    def advance(self, count: int = 1) -> None: ...


class Watch(Protocol):
    def __call__(self, title: str, *, total: int | None = None, unit: str) -> AbstractContextManager[Counter]: ...


class StepProgress(msgspec.Struct, frozen=True):
    """How far a long step is. `total` is None where nobody knows."""

    title: str
    done: int
    total: int | None
    unit: str


class Told:
    """A counter that tells a function of every step."""

    def __init__(self, tell: Callable[[StepProgress], None], title: str, total: int | None, unit: str) -> None:
        self._tell, self._title, self._total, self._unit = tell, title, total, unit
        self._done = 0

    def advance(self, count: int = 1) -> None:
        self._done += count
        self._tell(StepProgress(self._title, self._done, self._total, self._unit))


def telling(tell: Callable[[StepProgress], None] | None) -> Watch:
    """Return a watch that calls `tell` with the progress of each step; None: nobody looks on."""

    def watch(title: str, *, total: int | None = None, unit: str) -> AbstractContextManager[Counter]:
        return nullcontext(Told(tell or (lambda _: None), title, total, unit))

    return watch
