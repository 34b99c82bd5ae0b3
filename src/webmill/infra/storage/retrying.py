"""Retries around any storage, for the calls that may be repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

from webmill.errors import Unavailable
from webmill.infra import waiting
from webmill.infra.retry import BackoffPolicy, retrying
from webmill.infra.storage.base import Condition, Data, Readable, Stat, Storage

T = TypeVar("T")


class RetryingReads:
    """`open` is tried again until the stream stands; a stream that breaks later is its reader's to reopen."""

    def __init__(
        self, inner: Readable, *, policy: BackoffPolicy, sleep: Callable[[float], None] = waiting.sleep
    ) -> None:
        self._readable = inner
        self._policy = policy
        self._sleep = sleep

    def stat(self, key: str) -> Stat:
        return self._try(lambda: self._readable.stat(key))

    def read(self, key: str, *, start: int = 0, length: int | None = None, etag: str | None = None) -> bytes:
        return self._try(lambda: self._readable.read(key, start=start, length=length, etag=etag))

    def open(self, key: str, *, start: int = 0, length: int | None = None, etag: str | None = None) -> BinaryIO:
        return self._try(lambda: self._readable.open(key, start=start, length=length, etag=etag))

    def _try(self, call: Callable[[], T]) -> T:
        return retrying(call, policy=self._policy, sleep=self._sleep)


class Retrying(RetryingReads):
    """A conditional write is not repeated: after `Unavailable` it may have happened, and the second attempt would
    meet the first and call it a `Conflict`. Who wrote can read what is there, and knows what it meant to write.
    """

    def __init__(
        self, inner: Storage, *, policy: BackoffPolicy, sleep: Callable[[float], None] = waiting.sleep
    ) -> None:
        super().__init__(inner, policy=policy, sleep=sleep)
        self._storage = inner

    def write(self, key: str, data: Data, *, condition: Condition | None = None) -> Stat:
        if condition:
            return self._storage.write(key, data, condition=condition)
        if isinstance(data, bytes | Path):
            return self._try(lambda: self._storage.write(key, data))
        return self._write_stream(key, data)

    def _write_stream(self, key: str, data: BinaryIO) -> Stat:
        if not data.seekable():
            return self._storage.write(key, data)
        start = data.tell()

        def write_from_start() -> Stat:
            data.seek(start)
            return self._storage.write(key, data)

        return self._try(write_from_start)

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[Stat]:
        """List as the inner storage does; after a failure go on behind the last key."""
        after = start_after
        listing = self._storage.list(prefix, start_after=after)

        def read_next() -> Stat | None:
            nonlocal listing
            try:
                return next(listing, None)
            except Unavailable:
                listing = self._storage.list(prefix, start_after=after)  # a generator that has raised is over
                raise

        while stat := self._try(read_next):
            after = stat.key
            yield stat

    def delete(self, key: str) -> None:
        self._try(lambda: self._storage.delete(key))
