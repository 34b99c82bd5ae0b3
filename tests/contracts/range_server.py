"""A small HTTP server that honours Range and If-Match, and lies in a named way about the paths told to."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote


class RangeServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.values: dict[str, bytes] = {}
        self.lies: dict[str, Callable[[Any], None]] = {}  # key -> what is done instead of an honest answer
        self.requests: list[tuple[str, str, Message]] = []
        self.sent = 0  # bytes of bodies
        self.over = threading.Event()  # for handlers that keep silent until the test ends

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/data"

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that hangs up is what these tests are about


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: RangeServer

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.server.requests.append((self.command, self.path, self.headers))
        key = unquote(self.path.removeprefix("/data/"))
        lie = self.server.lies.get(key)
        if lie:
            lie(self)
        elif key in self.server.values:
            self.honest(self.server.values[key])
        else:
            self.answer(404)

    def honest(self, value: bytes) -> None:
        etag = etag_of(value)
        if self.headers.get("If-Match", etag) != etag:
            self.answer(412)
            return
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not match:
            self.answer(200, value, etag=etag)
            return
        first, last = int(match[1]), min(int(match[2] or 1 << 62), len(value) - 1)
        if first > last:
            self.answer(416, **{"Content-Range": f"bytes */{len(value)}"})
        else:
            content_range = f"bytes {first}-{last}/{len(value)}"
            self.answer(206, value[first : last + 1], etag=etag, **{"Content-Range": content_range})

    def answer(
        self, status: int, body: bytes = b"", *, length: int | None = None, etag: str = "", **headers: str
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in {"ETag": etag, **headers}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.send(body)

    def send(self, body: bytes) -> None:
        self.wfile.write(body)
        self.server.sent += len(body)

    def log_message(self, *_: object) -> None:
        pass


@lru_cache(maxsize=64)
def etag_of(value: bytes) -> str:
    return f'"{hashlib.sha256(value).hexdigest()[:16]}"'


@contextmanager
def serving() -> Iterator[RangeServer]:
    with RangeServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()
