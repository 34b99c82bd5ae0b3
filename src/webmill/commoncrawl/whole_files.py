"""A cache of whole files, for files of which many parts are needed, in a folder of bounded size.

Processes may share the folder: one of them downloads a file while the others wait. An interrupted download resumes
where it stopped, if the file is still the same.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from webmill.errors import Conflict, Unavailable
from webmill.infra import lock, waiting
from webmill.infra.atomic import make_folder, sync
from webmill.infra.retry import BackoffPolicy
from webmill.infra.storage.base import Readable, Stat

RETRIES = BackoffPolicy(attempts=5, first_wait=1.0)  # of attempts that received no bytes
PIECE = 64 << 10  # at most this much is fetched again after an interruption
_PART = ".part"


class WholeFiles:
    """A folder of downloaded files, at most `most` bytes; the least recently used file is evicted first."""

    def __init__(self, folder: Path, *, most: int, sleep: Callable[[float], None] = waiting.sleep) -> None:
        self._folder = folder
        self._sleep = sleep
        self.most = most

    def open(self, storage: Readable, stat: Stat, *, on_download: Callable[[int], None]) -> BinaryIO:
        """Open the whole file, downloading it if needed. It stays readable if it is evicted meanwhile."""
        make_folder(self._folder)
        place = self._folder / hashlib.sha256(f"{stat.key}\n{stat.size}\n{stat.etag}".encode()).hexdigest()[:32]
        try:
            if not place.exists():
                self._download(place, storage, stat, on_download=on_download)
            os.utime(place)
            return place.open("rb")
        except OSError as error:  # a full disk, or another process evicted the file: a retry may work
            raise Unavailable(f"{place}: {error.strerror or error}") from error

    def _download(self, place: Path, storage: Readable, stat: Stat, *, on_download: Callable[[int], None]) -> None:
        unfinished = place.with_suffix(_PART)
        with _open_exclusively(unfinished) as part:
            if place.exists():  # another process finished it while we waited
                unfinished.unlink()
                return
            self._make_room(stat.size, sparing=unfinished)
            self._complete(part, storage, stat, on_download=on_download)
            unfinished.replace(place)

    def _complete(self, part: BinaryIO, storage: Readable, stat: Stat, *, on_download: Callable[[int], None]) -> None:
        failures = 0
        while (at := part.seek(0, os.SEEK_END)) < stat.size:
            try:
                self._append(part, storage, stat, at, on_download=on_download)
            except Unavailable as error:
                failures = failures + 1 if part.tell() == at else 1
                if failures >= RETRIES.attempts:
                    raise
                self._sleep(RETRIES.wait(failures, retry_after=error.retry_after, random=1.0))
            except Conflict as error:  # the caller requests the size again
                raise Unavailable(f"{stat.key} was replaced while it was read") from error
        sync(part.fileno())

    def _append(
        self, part: BinaryIO, storage: Readable, stat: Stat, at: int, *, on_download: Callable[[int], None]
    ) -> None:
        length = stat.size - at if at else None  # no range: servers may treat range requests worse
        with storage.open(stat.key, start=at, length=length, etag=stat.etag or None) as source:
            while data := source.read(PIECE):
                if part.tell() + len(data) > stat.size:
                    raise Conflict(f"{stat.key} has become longer")
                part.write(data)
                part.flush()
                on_download(len(data))

    def _make_room(self, size: int, *, sparing: Path) -> None:
        others = sorted(_sizes(self._folder, sparing=sparing))
        used = sum(length for _, length, _ in others)
        for _, length, path in others:
            if used + size <= self.most:
                return
            if path.suffix != _PART or _is_abandoned(path):
                path.unlink(missing_ok=True)
                used -= length


def _sizes(folder: Path, *, sparing: Path) -> Iterator[tuple[float, int, Path]]:
    """Yield the last use, the size and the path of each file; other processes may remove files at any moment."""
    for path in folder.iterdir():
        try:
            stat = path.stat()
        except FileNotFoundError:
            continue
        if path != sparing:
            yield stat.st_mtime, stat.st_size, path


def _is_abandoned(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return lock.try_lock(file)
    except OSError:
        return False


@contextmanager
def _open_exclusively(path: Path) -> Iterator[BinaryIO]:
    """Open the unfinished file, locked. If it was finished and moved while we waited, open a new one."""
    while True:
        with path.open("ab") as part:
            lock.lock(part)
            try:
                same = os.fstat(part.fileno()).st_ino == path.stat().st_ino
            except FileNotFoundError:
                same = False
            if same:
                yield part
                return
