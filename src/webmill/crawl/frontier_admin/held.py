"""Letters that stay in their box while a copy of the crawl is made: see `copying` for why."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from webmill.crawl.scheduler.inbox import Box, Letter

FOLDER, HOLD = "backup", "hold"
FRESH = 180.0  # seconds for which letters are held after the last sign of life


class HeldBox:
    """A shard's box, which gives no letters while a copy of the crawl is made that this shard has its part of."""

    def __init__(self, box: Box, file: Path) -> None:
        self._box = box
        backup = file.parent / FOLDER
        self._copy, self._hold = backup / f"shard-{file.stem.removeprefix('mail-')}", backup / HOLD

    def post(self, letters: Sequence[bytes]) -> None:
        self._box.post(letters)

    def take(self, count: int) -> list[Letter]:
        return [] if self._is_held() else self._box.take(count)

    def drop(self, letters: Sequence[Letter]) -> None:
        self._box.drop(letters)

    def is_empty(self) -> bool:
        return self._box.is_empty()

    def close(self) -> None:
        self._box.close()

    def _is_held(self) -> bool:
        try:
            return self._copy.exists() and time.time() - self._hold.stat().st_mtime < FRESH
        except OSError:
            return False


class HeldBoxes:
    """What opens boxes, and holds them. It travels to the processes of a crawl."""

    def __init__(self, open_box: Callable[[Path], Box]) -> None:
        self._open = open_box

    def __call__(self, file: Path) -> Box:
        return HeldBox(self._open(file), file)
