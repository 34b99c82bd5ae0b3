"""A front before a search server that refuses every third request, or breaks it off, before or after it was done."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

EVERY = 3


@contextmanager
def front(url: str) -> Iterator[tuple[str, list[str]]]:
    """The address of the same index behind it, and what was done to which request, as they come."""
    parts = urlsplit(url)
    refused: list[str] = []
    lock = threading.Lock()
    asked = 0

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            nonlocal asked
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with lock:
                asked += 1
                turn = asked // EVERY if asked % EVERY == 0 else 0
                if turn:
                    refused.append(f"{self.command} {self.path}")
            if turn and turn % 3 == 1:
                self.reply(503 if turn % 2 else 429, b"{}")
                return
            status, data = (0, b"") if turn and turn % 3 == 2 else self.passed_on(body)
            if turn:
                self.close_connection = True
            else:
                self.reply(status, data)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815  names of the library

        def passed_on(self, body: bytes) -> tuple[int, bytes]:
            connection = HTTPConnection(parts.hostname or "", parts.port or 0, timeout=60)
            headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
            connection.request(self.command, self.path, body=body or None, headers=headers)
            reply = connection.getresponse()
            data = reply.read()
            connection.close()
            return reply.status, data

        def reply(self, status: int, data: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            host = f"127.0.0.1:{server.server_port}"
            yield parts._replace(netloc=f"{parts.username}@{host}" if parts.username else host).geturl(), refused
        finally:
            server.shutdown()
            thread.join()
