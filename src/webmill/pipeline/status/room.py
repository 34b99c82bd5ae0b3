"""Room on the disk, and what was refused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from webmill.infra.tree import Refuse, size_of
from webmill.pipeline.status.files import amount_of
from webmill.pipeline.status.nouns import Amount, Disk, Rejects
from webmill.pipeline.status.stored import lines_of


def disk_of(root: Path, *, refuse: Refuse) -> Disk:
    """Each folder of the collection is counted for itself, so that one of many small files hides no other."""
    parts = [
        amount_of(Path(entry.path), refuse=refuse)
        if entry.is_dir(follow_symlinks=False)
        else Amount(files=1, bytes=size_of(entry))
        for entry in plain(root)
    ]
    used = Amount(
        files=sum(part.files for part in parts),
        bytes=sum(part.bytes for part in parts),
        is_whole=all(part.is_whole for part in parts),
    )
    return Disk(used=used, free=shutil.disk_usage(root).free)


def plain(root: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(root) as entries:
        for entry in entries:
            if not entry.is_symlink():
                yield entry


def rejects_in(root: Path) -> Iterator[Rejects]:
    """One JSON line each; and what was cut off from archives, a file each."""
    folder = root / "rejected"
    for file in files_named(folder, "*.jsonl"):
        count, is_estimate = lines_of(file)
        yield Rejects(stage=file.stem, file=str(file), count=count, is_estimate=is_estimate)
    for file in files_named(root / ".webmill" / "batcher", "*/rejected.jsonl"):
        count, is_estimate = lines_of(file)
        yield Rejects(stage="cc batch", file=str(file), count=count, is_estimate=is_estimate)
    cut = amount_of(folder / "archive")
    if cut.files:
        yield Rejects(stage="archive", file=str(folder / "archive"), count=cut.files, is_estimate=not cut.is_whole)


def files_named(folder: Path, pattern: str) -> list[Path]:
    """Nothing else is opened: a pipe of that name would be waited for."""
    return sorted(path for path in folder.glob(pattern) if path.is_file())
