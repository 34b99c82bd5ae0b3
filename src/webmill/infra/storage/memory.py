"""A storage in this process: for tests, demonstrations and small work that need not last."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from typing import BinaryIO

from webmill.errors import BadInput, Conflict, NotFound
from webmill.infra.storage.base import (
    Absent,
    Condition,
    Data,
    Matches,
    Stat,
    StorageOptions,
    check_key,
    check_prefix,
    check_read,
    chunks_of,
    end_of_range,
    open_data,
)


def utc_now() -> datetime:
    return datetime.now(UTC)


def open_memory(_url: str, _options: StorageOptions) -> MemoryStorage:
    return MemoryStorage()


class MemoryStorage:
    def __init__(self, *, now: Callable[[], datetime] = utc_now) -> None:
        self._values: dict[str, tuple[Stat, bytes]] = {}
        self._folders: set[str] = set()  # as on a disk, a folder stays when its last value goes
        self._lock = threading.Lock()
        self._versions = count(1)
        self._now = now

    def stat(self, key: str) -> Stat:
        return self._value(key)[0]

    def read(self, key: str, *, start: int = 0, length: int | None = None, etag: str | None = None) -> bytes:
        stat, value = self._value(key, etag=etag)
        end = end_of_range(start, length, stat=stat)
        check_read(key, end - start)
        return value[start:end]

    def open(self, key: str, *, start: int = 0, length: int | None = None, etag: str | None = None) -> BinaryIO:
        stat, value = self._value(key, etag=etag)
        return io.BytesIO(value[start : end_of_range(start, length, stat=stat)])

    def write(self, key: str, data: Data, *, condition: Condition | None = None) -> Stat:
        check_key(key)
        with open_data(data) as source:
            value = b"".join(chunks_of(source))
        with self._lock:
            self._check(key, condition)
            stat = Stat(key=key, size=len(value), etag=f"v{next(self._versions)}", modified=self._now())
            self._folders.update(_folders_of(key))
            self._values[key] = stat, value
        return stat

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[Stat]:
        check_prefix(prefix)
        if start_after:
            check_key(start_after)
        with self._lock:
            stats = [stat for stat, _ in self._values.values()]
        stats = [stat for stat in stats if stat.key.startswith(prefix)]
        stats.sort(key=lambda stat: stat.key.encode())
        return (stat for stat in stats if stat.key.encode() > start_after.encode())

    def delete(self, key: str) -> None:
        check_key(key)
        with self._lock:
            self._values.pop(key, None)

    def _value(self, key: str, *, etag: str | None = None) -> tuple[Stat, bytes]:
        try:
            stat, value = self._values[check_key(key)]
        except KeyError:
            raise NotFound(key) from None
        if etag and etag != stat.etag:
            raise Conflict(f"{key} is another value by now")
        return stat, value

    def _check(self, key: str, condition: Condition | None) -> None:
        if key in self._folders or any(folder in self._values for folder in _folders_of(key)):
            raise BadInput("a key cannot be the folder of another", reason="bad_path", source=key)
        there = self._values.get(key)
        match condition:
            case Absent() if there:
                raise Conflict(f"{key} exists already")
            case Matches(etag) if not there or there[0].etag != etag:
                raise Conflict(f"{key} is another value by now")


def _folders_of(key: str) -> Iterator[str]:
    while key := key.rpartition("/")[0]:
        yield key
