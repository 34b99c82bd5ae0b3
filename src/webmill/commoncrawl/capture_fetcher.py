"""Fetch the captures of a batch: several ranges at once, in bounded memory.

A permanent failure (no such file, an offset beyond its end) is returned for that capture alone. A temporary one is
raised: the batch is not done then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import BinaryIO, NamedTuple

from webmill.commoncrawl.ranges import ByteRange, RangeLimits, plan_ranges, total_bytes
from webmill.commoncrawl.whole_files import WholeFiles
from webmill.errors import BadInput, NotFound, Unavailable
from webmill.infra.files import read_at
from webmill.infra.storage.base import Readable, Stat
from webmill.model import CaptureRef


class StoredCapture(NamedTuple):
    """The stored bytes of one capture, or the error."""

    number: int
    stored: bytes | BadInput | NotFound


class WholeFileRule(NamedTuple):
    """When to download a whole file: for at least this many ranges, which cover at least this share of it."""

    files: WholeFiles
    share: float = 0.2
    requests: int = 3  # with fewer ranges, requesting the size and the file saves nothing


class CaptureFetcher:
    """Fetches captures from a storage; threads may share it.

    `on_download` is called with the bytes of each download.
    """

    def __init__(
        self,
        storage: Readable,
        *,
        concurrency: int,
        limits: RangeLimits,
        whole: WholeFileRule | None = None,
        on_download: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._storage = storage
        self._concurrency = concurrency
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="webmill-fetch")
        self._limits = limits
        self._whole = whole
        self._on_download = on_download
        self._stats: dict[str, Stat] = {}

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def fetch(self, captures: Mapping[int, CaptureRef]) -> Iterator[StoredCapture]:
        """Yield every capture once, file by file.

        Raise Unavailable or Misconfigured if the rest cannot be fetched now.
        """
        fitting = {number: capture for number, capture in captures.items() if capture.length <= self._limits.item}
        for number in sorted(captures.keys() - fitting.keys()):
            message = f"a capture of {captures[number].length:,} stored bytes; the limit is {self._limits.item:,}"
            yield StoredCapture(number, BadInput(message, reason="too_large"))
        pending: deque[tuple[ByteRange, Future[_Stored]]] = deque()
        try:
            for part, job in self._jobs(fitting):
                pending.append((part, self._pool.submit(job)))
                if len(pending) >= self._concurrency:
                    yield from self._cut(*pending.popleft(), captures)
            while pending:
                yield from self._cut(*pending.popleft(), captures)
        finally:
            for _, future in pending:
                if not future.cancel():
                    future.add_done_callback(_close)

    def _jobs(self, captures: Mapping[int, CaptureRef]) -> Iterator[tuple[ByteRange, Callable[[], _Stored]]]:
        for ranges in plan_ranges(captures, limits=self._limits):
            if stat := self._worth_whole(ranges):
                numbers = tuple(number for part in ranges for number in part.items)
                whole = ByteRange(filename=stat.key, start=0, end=stat.size, items=numbers)
                yield whole, partial(self._download, stat)
            else:
                yield from ((part, partial(self._read, part)) for part in ranges)

    def _worth_whole(self, ranges: list[ByteRange]) -> Stat | None:
        rule = self._whole
        if not rule or len(ranges) < rule.requests:
            return None
        stat = self._stat(ranges[0].filename)
        if not stat or stat.size > rule.files.most or total_bytes(ranges) < rule.share * stat.size:
            return None
        return stat

    def _stat(self, filename: str) -> Stat | None:
        if filename not in self._stats:
            try:
                self._stats[filename] = self._storage.stat(filename)
            except (BadInput, NotFound):
                return None  # reading its ranges will report the error
        return self._stats[filename]

    def _read(self, part: ByteRange) -> _Stored:
        try:
            data = self._storage.read(part.filename, start=part.start, length=part.length)
        except (BadInput, NotFound) as error:
            return _Refusal(error)
        self._on_download(len(data))
        return _Piece(part.start, data)

    def _download(self, stat: Stat) -> _Stored:
        assert self._whole
        try:
            return _LocalFile(self._whole.files.open(self._storage, stat, on_download=self._on_download))
        except NotFound as error:  # it existed when its size was requested
            return _Refusal(error)
        except Unavailable:
            self._stats.pop(stat.key, None)  # the file may have been replaced
            raise

    def _cut(
        self, part: ByteRange, future: Future[_Stored], captures: Mapping[int, CaptureRef]
    ) -> Iterator[StoredCapture]:
        stored = future.result()
        try:
            for number in part.items:
                capture = captures[number]
                found = stored.cut(capture.offset, capture.length)
                if isinstance(found, BadInput) and len(part.items) > 1:
                    found = self._read_alone(number, capture)
                yield StoredCapture(number, found)
        finally:
            stored.close()

    def _read_alone(self, number: int, capture: CaptureRef) -> bytes | BadInput | NotFound:
        """Read one capture alone: an offset beyond the end of the file fails the request that it shares with others."""
        alone = ByteRange(filename=capture.filename, start=capture.offset, end=capture.end, items=(number,))
        return self._read(alone).cut(capture.offset, capture.length)


class _Piece(NamedTuple):
    start: int
    data: bytes

    def cut(self, offset: int, length: int) -> bytes | BadInput | NotFound:
        return self.data[offset - self.start :][:length]

    def close(self) -> None:
        pass


class _Refusal(NamedTuple):
    error: BadInput | NotFound

    def cut(self, offset: int, length: int) -> bytes | BadInput | NotFound:  # noqa: ARG002 - the signature of the other two
        return self.error

    def close(self) -> None:
        pass


class _LocalFile(NamedTuple):
    file: BinaryIO

    def cut(self, offset: int, length: int) -> bytes | BadInput | NotFound:
        data = read_at(self.file.fileno(), length, offset)
        if len(data) == length:
            return data
        return BadInput(f"bytes {offset} to {offset + length} are not within the file", reason="bad_range")

    def close(self) -> None:
        self.file.close()


_Stored = _Piece | _Refusal | _LocalFile


def _close(future: Future[_Stored]) -> None:
    if not future.cancelled() and not future.exception():
        future.result().close()
