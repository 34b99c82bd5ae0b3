"""What is said on stderr may be lost, as on a full disk; the work may not."""

from __future__ import annotations

import io
import sys
from typing import Any


class Forgiving(io.FileIO):
    def write(self, data: Any, /) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError:
            return len(data)


def forgive() -> None:
    """Notes, progress and errors of this process from now on. Who has put another stream there knows what to do."""
    if sys.stderr is sys.__stderr__ and sys.stderr is not None:
        raw = Forgiving(sys.stderr.fileno(), "w", closefd=False)
        encoding, errors = sys.stderr.encoding, sys.stderr.errors
        sys.stderr = io.TextIOWrapper(io.BufferedWriter(raw), encoding=encoding, errors=errors, line_buffering=True)
