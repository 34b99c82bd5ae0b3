"""What a filter did with its lines, filled while the batches flow and right once they are exhausted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    kept: int = 0
    removed: int = 0

    @property
    def total(self) -> int:
        return self.kept + self.removed

    @property
    def removed_share(self) -> float:
        return self.removed / self.total if self.total else 0.0
