"""A front before S3 that enforces `BlobsAreWrittenOnce` of the template, which no server of ours does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

DENIED = b"<Error><Code>AccessDenied</Code><Message>explicit deny</Message></Error>"


class PolicyFront(ThreadingHTTPServer):
    """`blobs` are the keys of blobs that were put, `denied` those that were put without If-None-Match."""

    daemon_threads = True

    def __init__(self, server: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.server = urlsplit(server)
        self.blobs: list[str] = []
        self.denied: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: PolicyFront

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.command == "PUT" and "/blobs/" in self.path:
            self.server.blobs.append(self.path)
            if not self.headers.get("If-None-Match"):
                self.server.denied.append(self.path)
                self.reply(403, {}, DENIED)
                return
        self.pass_on(body)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = answer  # noqa: N815  names of the library

    def pass_on(self, body: bytes) -> None:
        connection = HTTPConnection(self.server.server.hostname or "", self.server.server.port or 0, timeout=60)
        try:
            connection.request(self.command, self.path, body=body or None, headers=dict(self.headers.items()))
            found = connection.getresponse()
            self.reply(found.status, dict(found.getheaders()), found.read())
        finally:
            connection.close()

    def reply(self, status: int, headers: dict[str, str], data: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("connection", "transfer-encoding", "content-length", "date", "server"):
                self.send_header(name, value)
        length = headers.get("content-length", headers.get("Content-Length", "0")) if self.command == "HEAD" else ""
        self.send_header("Content-Length", length or str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def enforcing_policy(server: str) -> Iterator[PolicyFront]:
    with PolicyFront(server) as front:
        thread = threading.Thread(target=front.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield front
        finally:
            front.shutdown()
            thread.join()
