"""Sizes of folders, the disk, and rejects, each with a bound on what is looked at."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from webmill.infra.tree import Refuse, files_below, size_of
from webmill.pipeline.status.types import DiskStatus, FilesSize, RejectCount

MAX_FILES = 25_000  # that are looked at in one folder: a second or so, of all of them
SAMPLE_BYTES = 64 << 10  # of a file, to estimate how many lines it has


def measure_folder(folder: Path, *, most: int = MAX_FILES, refuse: Refuse = lambda _: None) -> FilesSize:
    """Return the size of a folder; not `is_whole` where a part of it cannot be read."""
    refused: list[OSError] = []
    found = add_sizes(map(size_of, files_below(folder, refuse=refused.append)), most=most)
    for error in refused:
        refuse(error)
    return replace(found, is_whole=False) if refused else found


def add_sizes(sizes: Iterable[int], *, most: int = MAX_FILES) -> FilesSize:
    count = total = 0
    for size in sizes:
        if count == most:
            return FilesSize(files=count, bytes=total, is_whole=False)
        count += 1
        total += size
    return FilesSize(files=count, bytes=total)


def read_disk_status(root: Path, *, refuse: Refuse) -> DiskStatus:
    """Measure each folder of the collection by itself, so that one with many small files hides no other."""
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
    """Count the rejects: one per JSON line, and one per file cut off from an archive."""
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
    """Return regular files only: opening a pipe would block."""
    return sorted(path for path in folder.glob(pattern) if path.is_file())


def count_lines(file: Path) -> tuple[int, bool]:
    """Return how many lines a file has, and whether that is an estimate by its beginning."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        text = stream.read(SAMPLE_BYTES)
    count = text.count(b"\n")
    if size <= len(text):
        return count, False
    mean = (text.rindex(b"\n") + 1) / count if count else len(text)
    return round(size / mean), True
