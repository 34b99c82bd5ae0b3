"""Rate limits around a storage that is read from: every request waits for the limiter, and reports how it ended.

    RetryingReads(LimitedReads(HttpStorage(…, on_redirect=limiter.spend), limiter), policy=…)

In this order: a second attempt is a request like any other and waits too.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import BinaryIO

from webmill.errors import Conflict, Unavailable
from webmill.infra.host_schedule.adaptive_rate import Permit
from webmill.infra.host_schedule.limiter import RequestLimiter, record_error, recording_outcome
from webmill.infra.storage.base import CHUNK, RawStream, Readable, Stat, buffer_stream, end_of_range

LAST_WAIT = 10.0  # seconds once we are to stop: what is at hand may end if its permit is near


class LimitedReads:
    """For a storage of which every call is one request, as HTTP is. `Unavailable` when there is no permit in time.

    One call waits `patience` seconds for its permit. Once `stop` is set, none waits longer than `LAST_WAIT`: a server
    that refuses us is left alone for many minutes, and nobody who ends a program waits for those.
    """

    def __init__(
        self,
        inner: Readable,
        limiter: RequestLimiter,
        *,
        stop: threading.Event | None = None,
        patience: float | None = None,
    ) -> None:
        self._readable, self._limiter = inner, limiter
        self._stop, self._patience = stop, patience

    def stat(self, key: str) -> Stat:
        with self._request():
            return self._readable.stat(key)

    def read(self, key: str, *, start: int = 0, length: int | None = None, etag: str | None = None) -> bytes:
        with self._request():
            return self._readable.read(key, start=start, length=length, etag=etag)

    def open(self, key: str, *, start: int = 0, length: int | None = None, etag: str | None = None) -> BinaryIO:
        permit = self._acquire()
        try:
            stream = self._readable.open(key, start=start, length=length, etag=etag)
        except BaseException as error:
            record_error(self._limiter, permit, error)
            raise
        return buffer_stream(_RecordingStream(stream, limiter=self._limiter, permit=permit))

    def _request(self) -> AbstractContextManager[None]:
        return recording_outcome(self._limiter, self._acquire())

    def _acquire(self) -> Permit:
        try:
            return self._limiter.acquire(stop=self._stop, patience=self._patience)
        except Unavailable:
            if not self._stop or not self._stop.is_set():
                raise
        return self._limiter.acquire(patience=LAST_WAIT)


class LimitedPartReads(LimitedReads):
    """For a storage of which an open stream is many requests, as with S3: each part is one request."""

    part = 8 << 20

    def open(self, key: str, *, start: int = 0, length: int | None = None, etag: str | None = None) -> BinaryIO:
        stat = self.stat(key)
        if etag and etag != stat.etag:
            raise Conflict(f"{key} is another value by now")
        return buffer_stream(_LimitedParts(self, stat, start=start, end=end_of_range(start, length, stat=stat)))


class _RecordingStream(RawStream):
    """A body that breaks early is a failure, though its head was good: nothing is recorded before the first bytes."""

    def __init__(self, stream: BinaryIO, *, limiter: RequestLimiter, permit: Permit) -> None:
        self._stream, self._limiter, self._permit = stream, limiter, permit
        self._is_recorded = False

    def _next(self, most: int) -> bytes:
        try:
            data = self._stream.read(min(most, CHUNK))
        except BaseException as error:
            self._is_recorded = True
            record_error(self._limiter, self._permit, error)
            raise
        self._record_success()
        return data

    def _record_success(self) -> None:
        if not self._is_recorded:
            self._is_recorded = True
            self._limiter.record(self._permit, "ok")

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
            self._record_success()
        super().close()


class _LimitedParts(RawStream):
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
