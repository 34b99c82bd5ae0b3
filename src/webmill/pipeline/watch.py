"""How a flow lets somebody watch: it opens a counter for each long step and advances it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class Counter(Protocol):
    def advance(self, count: int = 1) -> None: ...


class Watch(Protocol):
    def __call__(self, title: str, *, total: int | None = None, unit: str) -> AbstractContextManager[Counter]: ...
