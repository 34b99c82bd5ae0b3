"""Files that a recipe names: lists, test sets, models. Each is known by its bytes, and read again when these change."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Self

import msgspec

from webmill.errors import BadInput, Misconfigured
from webmill.infra.files import os_errors

MAX_FILE = 1 << 30  # bytes of a list, decompressed
READ_ONCE = 16  # files, or sets of files, whose content a process keeps
CHUNK = 1 << 20


class FileVersion(msgspec.Struct, frozen=True):
    """A file, or a folder of files, as it is now: what was read of it holds as long as this is equal. The change time
    cannot be set: no modification goes unseen."""

    path: str
    stats: tuple[tuple[str, int, int, int, int], ...]

    @classmethod
    def of(cls, path: str) -> Self:
        """Return the version of a file or folder. `NotFound`: it is not there."""
        found = []
        for file in files_of(Path(path)):
            with os_errors(str(file)):
                status = file.stat()
            found.append((str(file), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino))
        return cls(path, tuple(found))


def files_of(path: Path) -> list[Path]:
    """Return a file, or the files below a folder in the order of their names."""
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def digest_of_file(path: str) -> str:
    """Return the hash of a file, or of the names and bytes of all files of a folder. `NotFound`: it is not there."""
    return _digest(FileVersion.of(path))


@lru_cache(1 << 10)
def _digest(version: FileVersion) -> str:
    root = Path(version.path)
    digest = hashlib.sha256()
    for name, size, *_ in version.stats:
        if Path(name) != root:
            digest.update(f"{Path(name).relative_to(root).as_posix()}\0{size}\0".encode())
        with os_errors(name), Path(name).open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    return digest.hexdigest()


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a text file (UTF-8, also .gz) without white space around them, empty ones and comments (#)."""
    with os_errors(str(path)), gzip.open(path) if path.name.endswith(".gz") else path.open("rb") as file:
        try:
            data = file.read(MAX_FILE + 1)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise BadInput(f"not whole: {error}", reason="bad_list", source=str(path)) from error
    if len(data) > MAX_FILE:
        raise Misconfigured(f"{path} has more than {MAX_FILE:,} bytes: split it")
    for line in data.decode("utf-8", "replace").splitlines():
        line = line.strip()
        if line and not line.startswith("#"):
            yield line
