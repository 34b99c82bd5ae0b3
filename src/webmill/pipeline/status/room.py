"""Room on the disk, and what was refused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from webmill.infra.tree import Refuse, size_of
from webmill.pipeline.status.files import measure_folder
from webmill.pipeline.status.stored import count_lines
from webmill.pipeline.status.types import DiskStatus, FilesSize, RejectCount


def read_disk_status(root: Path, *, refuse: Refuse) -> DiskStatus:
    """Each folder of the collection is counted for itself, so that one of many small files hides no other."""
    parts = [
        measure_folder(Path(entry.path), refuse=refuse)
        if entry.is_dir(follow_symlinks=False)
        else FilesSize(files=1, bytes=size_of(entry))
        for entry in entries_of(root)
    ]
    used = FilesSize(
        files=sum(part.files for part in parts),
        bytes=sum(part.bytes for part in parts),
        is_whole=all(part.is_whole for part in parts),
    )
    return DiskStatus(used=used, free=shutil.disk_usage(root).free)


def entries_of(root: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(root) as entries:
        for entry in entries:
            if not entry.is_symlink():
                yield entry


def count_rejects(root: Path) -> Iterator[RejectCount]:
    """One JSON line each; and what was cut off from archives, a file each."""
    folder = root / "rejected"
    for file in find_files(folder, "*.jsonl"):
        count, is_estimate = count_lines(file)
        yield RejectCount(stage=file.stem, file=str(file), count=count, is_estimate=is_estimate)
    for file in find_files(root / ".webmill" / "batcher", "*/rejected.jsonl"):
        count, is_estimate = count_lines(file)
        yield RejectCount(stage="cc batch", file=str(file), count=count, is_estimate=is_estimate)
    cut = measure_folder(folder / "archive")
    if cut.files:
        yield RejectCount(stage="archive", file=str(folder / "archive"), count=cut.files, is_estimate=not cut.is_whole)


def find_files(folder: Path, pattern: str) -> list[Path]:
    """Nothing else is opened: a pipe of that name would be waited for."""
    return sorted(path for path in folder.glob(pattern) if path.is_file())
