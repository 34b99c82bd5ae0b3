"""The input files of tools that take files and folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

from webmill.errors import NotFound

STATE = "state.sqlite"  # and its journals; the name is that of index/state.py, which needs SQLite to be imported


def find_inputs(paths: Iterable[Path], *, exclude: Sequence[str] = ()) -> list[Path]:
    """Return the given files, and all files below the given folders, in byte order of their paths.

    Hidden files and folders are left out: they may be unfinished. So is the state that `webmill index` keeps beside its
    CDXJ files.
    """
    names = list(paths)
    files = [file for path in names for file in _files(path) if not _is_excluded(file, exclude)]
    if not files:
        where = ", ".join(map(str, names)) or "nothing"
        raise NotFound(f"no files in {where}" + (" after the exclusions" if exclude else ""))
    return files


def _files(path: Path) -> Iterator[Path]:
    if not path.exists():
        raise NotFound(f"no file or folder {path}")
    if not path.is_dir():
        yield path
        return
    yield from sorted((file for file in path.rglob("*") if file.is_file() and _is_input(file, path)), key=bytes)


def _is_input(file: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
    return not hidden and not file.name.startswith(STATE)


def _is_excluded(file: Path, patterns: Sequence[str]) -> bool:
    return any(fnmatch(file.name, pattern) for pattern in patterns)
