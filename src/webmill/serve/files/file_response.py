"""Sends a stored file or a range of it, in bounded memory, read in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import BinaryIO

from msgspec import Struct
from starlette.types import Receive, Scope, Send

from webmill.infra.storage.base import Readable, Stat
from webmill.serve.http.conditional_requests import (
    UnsatisfiableRange,
    http_date,
    is_not_modified,
    parse_range,
    precondition_fails,
)
from webmill.serve.http.responses import Header, send_refusal
from webmill.serve.processes.fair_slots import wait_for_disconnect
from webmill.serve.processes.threads import BoundedThreads

CHANGED = "the file has changed since; request it again"
PIECE = 64 << 10  # bytes sent at once: a client must read them within `send_seconds`
PIECES = 8  # read at once, after as many: a client that does not read keeps one piece in memory
MAX_RUNNING, PER_CLIENT = 8, 4  # threads that read
MAX_WAITING = 1000  # in total and per client: bounded by connections anyway


def file_threads() -> BoundedThreads:
    return BoundedThreads(
        max_running=MAX_RUNNING, per_client=PER_CLIENT, max_waiting=MAX_WAITING, waiting_per_client=MAX_WAITING
    )


class ServedFile(Struct, frozen=True, kw_only=True):
    """A file of a storage to send. `headers` are those without length, range and validators."""

    storage: Readable
    stat: Stat
    etag: bytes
    headers: Sequence[Header]
    threads: BoundedThreads


async def send_file(
    scope: Scope, receive: Receive, send: Send, request_headers: Mapping[bytes, bytes], file: ServedFile
) -> None:
    """Answer with the file, a range of it, 304, 412 or 416, as the request headers `request_headers` want it."""
    stat = file.stat
    headers = [*file.headers, (b"etag", file.etag), (b"accept-ranges", b"bytes")]
    if stat.modified:
        headers.append((b"last-modified", http_date(stat.modified)))
    if precondition_fails(request_headers, file.etag, stat.modified):
        await send_refusal(send, request_headers, 412, CHANGED)
        return
    if is_not_modified(request_headers, file.etag, stat.modified):
        await send_empty(send, 304, headers)
        return
    try:
        wanted = parse_range(request_headers, stat.size, etag=file.etag, modified=stat.modified)
    except UnsatisfiableRange:
        await refuse_range(send, request_headers, stat.size)
        return
    start, end = wanted or (0, stat.size)
    headers.append((b"content-length", str(end - start).encode()))
    if wanted:
        headers.append(content_range(start, end, stat.size))
    status = 206 if wanted else 200
    if scope["method"] == "HEAD" or start == end:
        await send_empty(send, status, headers)
        return
    open_range = partial(file.storage.open, stat.key, start=start, length=end - start, etag=stat.etag)
    stream = await file.threads.run(
        scope, receive, open_range
    )  # before the head: a file that cannot be read is an error
    try:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await _send_pieces(scope, receive, send, stream, end - start, file.threads)
    finally:
        stream.close()


async def _send_pieces(
    scope: Scope, receive: Receive, send: Send, stream: BinaryIO, left: int, threads: BoundedThreads
) -> None:
    """Send to the end, or until the client disconnects, which `send` does not report."""
    gone = asyncio.ensure_future(wait_for_disconnect(receive))
    pieces = 1
    try:
        while left and not gone.done():
            read = partial(stream.read, min(PIECE * pieces, left))
            data = await threads.run_more(scope, read)
            pieces = min(2 * pieces, PIECES)
            left -= len(data)
            for start in range(0, len(data), PIECE):
                piece = data[start : start + PIECE]
                is_last = not left and start + PIECE >= len(data)
                await send({"type": "http.response.body", "body": piece, "more_body": not is_last})
    finally:
        gone.cancel()


async def send_empty(send: Send, status: int, headers: list[Header]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def refuse_range(send: Send, request_headers: Mapping[bytes, bytes], size: int) -> None:
    await send_refusal(
        send,
        request_headers,
        416,
        "the requested range is past the end of the file",
        [(b"content-range", f"bytes */{size}".encode())],
    )


def content_range(start: int, end: int, size: int) -> Header:
    return b"content-range", f"bytes {start}-{end - 1}/{size}".encode()
