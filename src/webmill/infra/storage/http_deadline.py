"""A deadline for what urllib3 reads in one call: a head, a chunk's length, a piece of a body.

Its timeouts are for one read of the socket. A server that sends a byte before each of them ends keeps a caller for
hours: a head may have 100 lines of 64 KiB. So the reads of a call are counted together.

    with deadline(60.0):
        answer = pool.request(…)        ReadTimeoutError, a read after that time
"""

from __future__ import annotations

import http.client
import io
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

_call = threading.local()  # a call reads in the thread of its caller


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """End the reads of a block after so many seconds, and what the last of them waits for the socket."""
    _call.end = time.monotonic() + seconds
    try:
        yield
    finally:
        _call.end = None


class _PunctualReader(io.RawIOBase):
    """A socket's reader that fails after the deadline of its caller."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        end = getattr(_call, "end", None)
        if end is not None and time.monotonic() > end:
            raise TimeoutError("too slow")
        count: int | None = self._raw.readinto(buffer)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _PunctualResponse(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp = io.BufferedReader(_PunctualReader(self.fp.detach()))


class _PunctualConnection(HTTPConnection):
    response_class = _PunctualResponse


class _PunctualTlsConnection(HTTPSConnection):
    response_class = _PunctualResponse


class _PunctualPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _PunctualConnection


class _PunctualTlsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _PunctualTlsConnection


def open_pool(*, proxy: str | None, connections: int) -> urllib3.PoolManager:
    """Return a pool whose responses keep the deadline. It reads neither proxy variables nor .netrc by itself."""
    pool = urllib3.ProxyManager(proxy, maxsize=connections) if proxy else urllib3.PoolManager(maxsize=connections)
    pool.pool_classes_by_scheme = {"http": _PunctualPool, "https": _PunctualTlsPool}
    return pool
