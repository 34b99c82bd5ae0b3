"""A copy of an SQLite file with its log, for a judge: whoever reads the file itself may write its log into it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def copy_of(path: Path) -> Iterator[Path]:
    """Without the extension that keeps checksums, which a judge does without, such a write would leave wrong ones."""
    with tempfile.TemporaryDirectory(prefix="webmill-judge-") as folder:
        for ending in ("", "-wal", "-journal"):
            if (beside := path.with_name(path.name + ending)).exists():
                shutil.copyfile(beside, Path(folder, beside.name))
        yield Path(folder, path.name)
