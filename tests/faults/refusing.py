"""Programs on a disk that is full now and then, or fails to sync.

    disk = Refusing("sync", each=3, under=folder)
    subprocess.run(command, env=disk.environment)
    record("tasks (SQLite)", disk.fault, injected=disk.refusals(), …)

Linux with a C compiler only: see `needs_killer`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

from tests.faults import built


class Refusing:
    """One of `each` writes, or syncs, of files below `under` fails. The folder above it gets a log."""

    def __init__(self, kind: Literal["full", "sync"], *, each: int, under: Path) -> None:
        self.fault = {"full": "full disk", "sync": "failing sync"}[kind]
        self._log = under.with_name(f"refused-{kind}.log")
        self._log.unlink(missing_ok=True)
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("COVERAGE_")},
            "LD_PRELOAD": str(built("refuse.c")),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "REFUSE": kind,
            "REFUSE_EACH": str(each),
            "REFUSE_UNDER": str(under),
            "REFUSE_LOG": str(self._log),
        }

    def refusals(self) -> int:
        return self._log.read_bytes().count(b"\n")
