"""The files of a task, open for reading from where it goes on, and the same bytes as when it began."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import BinaryIO

from webmill.errors import BadInput, Unavailable
from webmill.infra.retry import BackoffPolicy, retrying
from webmill.infra.storage.base import RawStream, Readable, buffer_stream
from webmill.pipeline.extract.manifest import TaskFiles
from webmill.pipeline.extract.receipts import SourceVersion

LocateFile = Callable[[str], tuple[Readable, str]]  # a path of the manifest -> the storage and the key of that file
READ_RETRIES = BackoffPolicy(attempts=4)
KEPT_BYTES = 32 << 20


@contextmanager
def open_task_files(
    files: TaskFiles, find: LocateFile, *, start: Mapping[str, int], known: Mapping[str, SourceVersion]
) -> Iterator[tuple[dict[str, ReplayStream], dict[str, SourceVersion]]]:
    """Open the files of a task. `known` is how they were before; BadInput `source_changed`: one was replaced since."""
    with ExitStack() as stack:
        streams: dict[str, ReplayStream] = {}
        sources: dict[str, SourceVersion] = {}
        for file_type, path in files.items():
            storage, key = find(path)
            stat = storage.stat(key)
            sources[file_type] = source = SourceVersion(stat.size, stat.etag)
            if known.get(file_type, source) != source:
                message = f"not the file that this task began to read ({source} now, {known[file_type]} then)"
                raise BadInput(message, reason="source_changed", source=path)
            at = start.get(file_type, 0)
            streams[file_type] = stack.enter_context(
                closing(ReplayStream(partial(_open_at, storage, key, source), at=at))
            )
        yield streams, sources


def _open_at(storage: Readable, key: str, source: SourceVersion, at: int) -> BinaryIO:
    return buffer_stream(_ReconnectingStream(storage, key, source, at=at)) if at < source.size else io.BytesIO()


class ReplayStream:
    """A stream that can be rewound to any byte that was not forgotten, without a second request.

    Of a record that is longer than `keep`, only the end is kept: reading that again opens the file anew.
    """

    def __init__(self, open_at: Callable[[int], BinaryIO], *, at: int, keep: int = KEPT_BYTES) -> None:
        self._open_at, self._keep = open_at, keep
        self._begin(at)

    def _begin(self, at: int) -> None:
        self._stream = self._open_at(at)
        self._pieces: deque[tuple[int, bytes]] = deque()
        self._end = self._at = at

    def read(self, size: int, /) -> bytes:
        if self._at == self._end:
            data = self._stream.read(size)
            if data:
                self._pieces.append((self._end, data))
            self._end += len(data)
            self.forget(self._end - self._keep)
        else:
            offset, piece = next(kept for kept in self._pieces if kept[0] <= self._at < kept[0] + len(kept[1]))
            data = piece[self._at - offset : self._at - offset + size]
        self._at += len(data)
        return data

    def forget(self, before: int) -> None:
        while self._pieces and self._pieces[0][0] + len(self._pieces[0][1]) <= before:
            self._pieces.popleft()

    def rewind(self, to: int) -> None:
        kept_from = self._pieces[0][0] if self._pieces else self._end
        if to >= kept_from:
            self._at = to
        else:
            self.close()
            self._begin(to)

    def close(self) -> None:
        self._stream.close()


class _ReconnectingStream(RawStream):
    """A stream that reopens where its connection broke. A WARC file takes minutes to download."""

    def __init__(self, storage: Readable, key: str, source: SourceVersion, *, at: int) -> None:
        self._storage, self._key, self._source, self._at = storage, key, source, at
        self._stream: BinaryIO | None = None

    def _next(self, most: int) -> bytes:
        data = retrying(lambda: self._try(most), policy=READ_RETRIES)
        self._at += len(data)
        return data

    def _try(self, most: int) -> bytes:
        if self._at >= self._source.size:
            return b""
        if self._stream is None:
            self._stream = self._storage.open(self._key, start=self._at, etag=self._source.etag or None)
        try:
            return self._stream.read(most)
        except Unavailable:
            self._hang_up()
            raise

    def _hang_up(self) -> None:
        if self._stream:
            self._stream.close()
            self._stream = None

    def close(self) -> None:
        self._hang_up()
        super().close()
