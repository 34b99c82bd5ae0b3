"""Streams long responses: made in threads, a few hundred lines at a time, never held whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from isal import isal_zlib
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from webmill.serve.cdx.limits import Stopwatch
from webmill.serve.processes.threads import BoundedThreads

LINES_AT_ONCE = 500  # per switch to a thread, which costs more than many lines
MIN_GZIP_BYTES = 1024
LEVEL = 1


class LineChunks:
    """Lines in chunks, compressed if accepted and worth it. `watch` runs while they are made."""

    def __init__(self, lines: Iterable[bytes], watch: Stopwatch, *, gzip: bool) -> None:
        self._lines = iter(lines)
        self._watch = watch
        self._gzip = gzip
        self._coder: Any = None
        self._begun = False
        self.ended = False
        self.found = False  # any line at all

    @property
    def is_compressed(self) -> bool:
        return self._coder is not None

    def next(self) -> bytes:
        """Return the next chunk; after the last one `ended` is true. A compressed chunk may be empty."""
        self._watch.start()
        try:
            part = list(islice(self._lines, LINES_AT_ONCE))
        finally:
            self._watch.stop()
        self.ended = len(part) < LINES_AT_ONCE
        self.found |= bool(part)
        data = b"".join(part)
        if not self._begun and self._gzip and len(data) >= MIN_GZIP_BYTES:
            self._coder = isal_zlib.compressobj(level=LEVEL, wbits=31)
        self._begun = True
        return self._compress(data) if self._coder is not None else data

    def stop(self) -> None:
        """End after the current chunk."""
        self._lines = iter(())

    def _compress(self, data: bytes) -> bytes:
        compressed: bytes = self._coder.compress(data)
        return compressed + bytes(self._coder.flush()) if self.ended else compressed


def stream_response(
    first: bytes,
    chunks: LineChunks,
    *,
    media_type: str,
    headers: Mapping[str, str],
    on_end: Callable[[], None],
    threads: BoundedThreads,
) -> Response:
    """Return a short response as a whole, a long one as a stream. `on_end` is always called, once."""
    headers = {**headers, "Content-Type": media_type}
    if chunks.is_compressed:
        headers["Content-Encoding"] = "gzip"
    if chunks.ended:
        on_end()
        return Response(first, headers=headers)
    return StreamedLines(first, chunks, headers=headers, on_end=on_end, threads=threads)


class StreamedLines(StreamingResponse):
    """A streamed response that breaks off on errors, so that no client takes a part for the whole."""

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
