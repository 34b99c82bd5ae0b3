"""One value of a storage as an answer: whole or a range of it, in bounded memory, read in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import BinaryIO

from starlette.types import Receive, Scope, Send

from webmill.infra.storage.base import Readable, Stat
from webmill.serve.conditional_requests import (
    UnsatisfiableRange,
    http_date,
    is_not_modified,
    parse_range,
    precondition_fails,
)
from webmill.serve.responses import Header, send_refusal
from webmill.serve.threads import BoundedThreads, wait_for_disconnect

PIECE = 64 << 10  # sent at once: a client must take one within `send_seconds`
PIECES = 8  # read at once
AT_ONCE, EACH = 16, 8  # threads that read
MOST_WAITING = 1000  # of all and of one: they are bounded by their connections


def file_threads() -> BoundedThreads:
    return BoundedThreads(at_once=AT_ONCE, each=EACH, most_waiting=MOST_WAITING, waiting_each=MOST_WAITING)


async def send_file(
    scope: Scope,
    receive: Receive,
    send: Send,
    asked: Mapping[bytes, bytes],
    storage: Readable,
    stat: Stat,
    *,
    etag: bytes,
    headers: Sequence[Header],
    is_head: bool,
    threads: BoundedThreads,
) -> None:
    """`headers` without those of length, range and validators."""
    known = [*headers, (b"etag", etag), (b"accept-ranges", b"bytes")]
    if stat.modified:
        known.append((b"last-modified", http_date(stat.modified)))
    if precondition_fails(asked, etag, stat.modified):
        await send_refusal(send, asked, 412, "this is another value by now")
    elif is_not_modified(asked, etag, stat.modified):
        await send_empty(send, 304, known)
    else:
        await _send_range(scope, receive, send, asked, storage, stat, etag, known, is_head=is_head, threads=threads)


async def _send_range(
    scope: Scope,
    receive: Receive,
    send: Send,
    asked: Mapping[bytes, bytes],
    storage: Readable,
    stat: Stat,
    etag: bytes,
    headers: list[Header],
    *,
    is_head: bool,
    threads: BoundedThreads,
) -> None:
    try:
        wanted = parse_range(asked, stat.size, etag=etag, modified=stat.modified)
    except UnsatisfiableRange:
        await refuse_range(send, asked, stat.size)
        return
    start, end = wanted or (0, stat.size)
    headers.append((b"content-length", str(end - start).encode()))
    if wanted:
        headers.append(content_range(start, end, stat.size))
    if is_head or start == end:
        await send_empty(send, 206 if wanted else 200, headers)
        return
    opened = partial(storage.open, stat.key, start=start, length=end - start, etag=stat.etag)
    stream = await threads.begin(scope, receive, opened)  # before the head: what cannot be read is an error
    try:
        await send({"type": "http.response.start", "status": 206 if wanted else 200, "headers": headers})
        await _send_pieces(scope, receive, send, stream, end - start, threads)
    finally:
        stream.close()


async def _send_pieces(
    scope: Scope, receive: Receive, send: Send, stream: BinaryIO, left: int, threads: BoundedThreads
) -> None:
    """To its end, or until the client has gone: `send` would take the rest of a large file and say nothing."""
    gone = asyncio.ensure_future(wait_for_disconnect(receive))
    try:
        while left and not gone.done():
            read = partial(stream.read, min(PIECE * PIECES, left))
            data = await threads.go_on(scope, read)
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


async def refuse_range(send: Send, asked: Mapping[bytes, bytes], size: int) -> None:
    await send_refusal(send, asked, 416, "no such range", [(b"content-range", f"bytes */{size}".encode())])


def content_range(start: int, end: int, size: int) -> Header:
    return b"content-range", f"bytes {start}-{end - 1}/{size}".encode()
