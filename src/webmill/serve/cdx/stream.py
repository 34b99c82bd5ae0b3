"""Answers that may be long: made in threads, some hundred lines at a time, never held whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from isal import isal_zlib
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from webmill.serve.cdx.limits import Stopwatch
from webmill.serve.threads import BoundedThreads

LINES_AT_ONCE = 500  # a thread is asked once for so many: a hop costs more than many lines
WORTH_PACKING = 1024  # bytes
LEVEL = 1


class LineChunks:
    """Lines in pieces, as gzip if that is wanted and worth it. `watch` runs while they are made."""

    def __init__(self, lines: Iterable[bytes], watch: Stopwatch, *, gzip: bool) -> None:
        self._lines = iter(lines)
        self._watch = watch
        self._gzip = gzip
        self._coder: Any = None
        self._begun = False
        self.ended = False
        self.found = False  # any line at all

    @property
    def is_packed(self) -> bool:
        return self._coder is not None

    def next(self) -> bytes:
        """After the last one `ended` is true. A packed one may be empty: what is in it comes with a later one."""
        self._watch.start()
        try:
            part = list(islice(self._lines, LINES_AT_ONCE))
        finally:
            self._watch.stop()
        self.ended = len(part) < LINES_AT_ONCE
        self.found |= bool(part)
        data = b"".join(part)
        if not self._begun and self._gzip and len(data) >= WORTH_PACKING:
            self._coder = isal_zlib.compressobj(level=LEVEL, wbits=31)
        self._begun = True
        return self._packed(data) if self._coder is not None else data

    def stop(self) -> None:
        """For those who want no more than the beginning."""
        self._lines = iter(())

    def _packed(self, data: bytes) -> bytes:
        packed: bytes = self._coder.compress(data)
        return packed + bytes(self._coder.flush()) if self.ended else packed


def stream_response(
    first: bytes,
    chunks: LineChunks,
    *,
    media_type: str,
    headers: Mapping[str, str],
    on_end: Callable[[], None],
    threads: BoundedThreads,
) -> Response:
    """Short answers whole, with their length; of others `first` and then the rest. `on_end` is called once, always."""
    headers = {**headers, "Content-Type": media_type}
    if chunks.is_packed:
        headers["Content-Encoding"] = "gzip"
    if chunks.ended:
        on_end()
        return Response(first, headers=headers)
    return StreamedLines(first, chunks, headers=headers, on_end=on_end, threads=threads)


class StreamedLines(StreamingResponse):
    """Fails midway rather than end early: a client that got all of it knows that it has all."""

    def __init__(
        self,
        first: bytes,
        chunks: LineChunks,
        *,
        headers: Mapping[str, str],
        on_end: Callable[[], None],
        threads: BoundedThreads,
    ) -> None:
        super().__init__((), headers=headers)
        self._first, self._chunks, self._on_end, self._threads = first, chunks, on_end, threads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.body_iterator = self._all(scope)
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._on_end()

    async def _all(self, scope: Scope) -> AsyncIterator[bytes]:
        yield self._first
        while not self._chunks.ended:
            yield await self._threads.run_more(scope, self._chunks.next)
