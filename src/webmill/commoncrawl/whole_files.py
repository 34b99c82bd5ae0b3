"""Files of which much is wanted: downloaded once, kept in a folder of bounded size, cut here.

Processes may share the folder: a file is downloaded by one of them while the others wait for it. A download that was
interrupted goes on where it stopped, if the file is still the same.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from webmill.errors import Conflict, Unavailable
from webmill.infra import lock
from webmill.infra.atomic import make_folder, sync
from webmill.infra.retry import BackoffPolicy
from webmill.infra.storage.base import Readable, Stat

PATIENCE = BackoffPolicy(attempts=5, first_wait=1.0)  # between two tries without a byte gained
PIECE = 64 << 10  # what a broken download has to fetch again at most
_PART = ".part"


class WholeFiles:
    """`most` is the size of the folder in bytes; the file that was not used for the longest time goes first."""

    def __init__(self, folder: Path, *, most: int, sleep: Callable[[float], None] = time.sleep) -> None:
        self._folder = folder
        self._sleep = sleep
        self.most = most

    def open(self, storage: Readable, stat: Stat, *, fetched: Callable[[int], None]) -> BinaryIO:
        """The file, whole. It stays readable when it is put out of the folder meanwhile."""
        make_folder(self._folder)
        place = self._folder / hashlib.sha256(f"{stat.key}\n{stat.size}\n{stat.etag}".encode()).hexdigest()[:32]
        try:
            if not place.exists():
                self._fill(place, storage, stat, fetched=fetched)
            os.utime(place)
            return place.open("rb")
        except OSError as error:  # a full disk; or another process made room by what we need: it may work later
            raise Unavailable(f"{place}: {error.strerror or error}") from error

    def _fill(self, place: Path, storage: Readable, stat: Stat, *, fetched: Callable[[int], None]) -> None:
        unfinished = place.with_suffix(_PART)
        with _alone(unfinished) as part:
            if place.exists():  # somebody finished it while we waited
                unfinished.unlink()
                return
            self._make_room(stat.size, sparing=unfinished)
            self._complete(part, storage, stat, fetched=fetched)
            unfinished.replace(place)

    def _complete(self, part: BinaryIO, storage: Readable, stat: Stat, *, fetched: Callable[[int], None]) -> None:
        failures = 0
        while (at := part.seek(0, os.SEEK_END)) < stat.size:
            try:
                self._append(part, storage, stat, at, fetched=fetched)
            except Unavailable as error:
                failures = failures + 1 if part.tell() == at else 1
                if failures >= PATIENCE.attempts:
                    raise
                self._sleep(PATIENCE.wait(failures, retry_after=error.retry_after, random=1.0))
            except Conflict as error:  # ask for its size again
                raise Unavailable(f"{stat.key} was replaced while it was read") from error
        sync(part.fileno())

    def _append(
        self, part: BinaryIO, storage: Readable, stat: Stat, at: int, *, fetched: Callable[[int], None]
    ) -> None:
        length = stat.size - at if at else None  # no range: a server may treat requests for parts worse
        with storage.open(stat.key, start=at, length=length, etag=stat.etag or None) as source:
            while data := source.read(PIECE):
                if part.tell() + len(data) > stat.size:
                    raise Conflict(f"{stat.key} is longer by now")
                part.write(data)
                part.flush()
                fetched(len(data))

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
    """When each file was last used, and its size; other processes take files away at any moment."""
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
def _alone(path: Path) -> Iterator[BinaryIO]:
    """The unfinished file, ours alone. The one we waited for may have been finished and moved: then open it anew."""
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
