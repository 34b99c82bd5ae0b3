"""Reading one board: its listing, then the bodies of what is new, politely.

    with BoardReader(Options(manners=Manners(user_agent=…), gates=Path("gates.sqlite"))) as reader:
        reading = reader.read(board, known=known)         # from any thread; many may read at once

A reading never raises for anything that the web does: it becomes `Reading.failed` and problems.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from webmill.flows.publish.reading_nouns import Known, Limits, Manners, Notice, Options, Reading
from webmill.formats.site_map import Board

__all__ = ["BoardReader", "Known", "Limits", "Manners", "Notice", "Options", "Reading"]

NOTHING: Mapping[str, Known] = {}


class BoardReader:
    """Threads share it. Processes open one each, on the same `gates` and `cache` files."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def read(self, board: Board, *, known: Mapping[str, Known] = NOTHING) -> Reading:
        raise NotImplementedError

    def close(self) -> None:
        """Readings under way end as failed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
