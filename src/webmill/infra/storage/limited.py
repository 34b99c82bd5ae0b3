"""Manners around a storage that is read from: every request takes a turn of the limiter, and tells it what came of it.

    RetryingReads(LimitedReads(HttpStorage(…, on_redirect=limiter.spend), limiter), policy=…)

In this order: a second attempt is a request like any other and waits for its turn.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import BinaryIO

from webmill.errors import Conflict, Unavailable
from webmill.infra.limiter import Turns, note_error, noting
from webmill.infra.pace import Turn
from webmill.infra.storage.base import CHUNK, RawStream, Readable, Stat, buffered, end_of_range

LAST_WAIT = 10.0  # seconds for a turn, of who is told to stop: what is at hand may end if its turn is near


class LimitedReads:
    """For a storage of which every call is one request, as HTTP is. `Unavailable` when there is no turn in time.

    `patience` is how many seconds one call waits for its turn. Once `stop` is set, none waits longer than `LAST_WAIT`:
    a server that refuses us is left alone for many minutes, and nobody who ends a program waits for those.
    """

    def __init__(
        self,
        inner: Readable,
        limiter: Turns,
        *,
        stop: threading.Event | None = None,
        patience: float | None = None,
    ) -> None:
        self._readable, self._limiter = inner, limiter
        self._stop, self._patience = stop, patience

    def stat(self, key: str) -> Stat:
        with self._turn():
            return self._readable.stat(key)

    def read(self, key: str, *, start: int = 0, length: int | None = None, etag: str | None = None) -> bytes:
        with self._turn():
            return self._readable.read(key, start=start, length=length, etag=etag)

    def open(self, key: str, *, start: int = 0, length: int | None = None, etag: str | None = None) -> BinaryIO:
        turn = self._wait()
        try:
            stream = self._readable.open(key, start=start, length=length, etag=etag)
        except BaseException as error:
            note_error(self._limiter, turn, error)
            raise
        return buffered(_Watched(stream, limiter=self._limiter, turn=turn))

    def _turn(self) -> AbstractContextManager[None]:
        return noting(self._limiter, self._wait())

    def _wait(self) -> Turn:
        try:
            return self._limiter.wait(stop=self._stop, patience=self._patience)
        except Unavailable:
            if not self._stop or not self._stop.is_set():
                raise
        return self._limiter.wait(patience=LAST_WAIT)


class LimitedPartReads(LimitedReads):
    """For a storage of which an open stream is many requests, as with S3: each part takes a turn."""

    part = 8 << 20

    def open(self, key: str, *, start: int = 0, length: int | None = None, etag: str | None = None) -> BinaryIO:
        stat = self.stat(key)
        if etag and etag != stat.etag:
            raise Conflict(f"{key} is another value by now")
        return buffered(_Parts(self, stat, start=start, end=end_of_range(start, length, stat=stat)))


class _Watched(RawStream):
    """A body that breaks early is a failure, though its head was good: nothing is noted before the first bytes."""

    def __init__(self, stream: BinaryIO, *, limiter: Turns, turn: Turn) -> None:
        self._stream, self._limiter, self._turn = stream, limiter, turn
        self._noted = False

    def _next(self, most: int) -> bytes:
        try:
            data = self._stream.read(min(most, CHUNK))
        except BaseException as error:
            self._noted = True
            note_error(self._limiter, self._turn, error)
            raise
        self._note_ok()
        return data

    def _note_ok(self) -> None:
        if not self._noted:
            self._noted = True
            self._limiter.note(self._turn, "ok")

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
            self._note_ok()
        super().close()


class _Parts(RawStream):
    def __init__(self, reads: LimitedPartReads, stat: Stat, *, start: int, end: int) -> None:
        self._reads, self._stat, self._at, self._end = reads, stat, start, end
        self._part = memoryview(b"")

    def _next(self, most: int) -> bytes:
        if not self._part and self._at < self._end:
            length = min(self._reads.part, self._end - self._at)
            part = self._reads.read(self._stat.key, start=self._at, length=length, etag=self._stat.etag)
            self._part = memoryview(part)
            self._at += length
        data, self._part = self._part[:most], self._part[most:]
        return bytes(data)
