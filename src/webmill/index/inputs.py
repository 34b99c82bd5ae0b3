"""Which files a tool that takes files and folders works on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

from webmill.errors import NotFound


def find_inputs(paths: Iterable[Path], *, exclude: Sequence[str] = ()) -> list[Path]:
    """Files as they are, folders by all the files below them, in byte order of their paths. Hidden files are no inputs:
    they are other writers' unfinished ones."""
    files = [file for path in paths for file in _files(path) if not _is_excluded(file, exclude)]
    if not files:
        raise NotFound("no files to merge" + (" after the exclusions" if exclude else ""))
    return files


def _files(path: Path) -> Iterator[Path]:
    if not path.exists():
        raise NotFound(f"no file or folder {path}")
    if not path.is_dir():
        yield path
        return
    below = (file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
    yield from sorted(below, key=bytes)


def _is_excluded(file: Path, patterns: Sequence[str]) -> bool:
    return any(fnmatch(file.name, pattern) for pattern in patterns)
