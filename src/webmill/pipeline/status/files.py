"""Files of a folder, as far as a glance goes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from webmill.infra.tree import Refuse, files_below, size_of
from webmill.pipeline.status.types import FilesSize

MAX_FILES = 25_000  # that are looked at in one folder: a second or so, of all of them


def measure_folder(folder: Path, *, most: int = MAX_FILES, refuse: Refuse = lambda _: None) -> FilesSize:
    """At least so much, where a part cannot be looked into."""
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
