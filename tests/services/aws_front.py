"""A proxy before moto that can refuse, as Amazon does and moto cannot: single entries of a batch, or all of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

Request = dict[str, Any]
Forward = Callable[[Request], tuple[int, Request]]
Meddle = Callable[[str, Request, Forward], tuple[int, Request]]


def honest(operation: str, request: Request, forward: Forward) -> tuple[int, Request]:
    return forward(request)


class Front(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.meddle: Meddle = honest
        self.requests: list[tuple[str, Request]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def of(self, operation: str) -> list[Request]:
        return [request for name, request in self.requests if name == operation]

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that was killed


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Front

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        operation = self.headers["X-Amz-Target"].rpartition(".")[2]
        self.server.requests.append((operation, request))
        status, answer = self.server.meddle(operation, request, self.forward)
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", self.headers["Content-Type"])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def forward(self, request: Request) -> tuple[int, Request]:
        parts = urlsplit(self.path)  # a proxy is asked for the whole address
        headers = {name: value for name, value in self.headers.items() if name.lower() != "content-length"}
        connection = HTTPConnection(parts.netloc, timeout=30)
        try:
            connection.request("POST", parts.path or "/", json.dumps(request), headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"{}")
        finally:
            connection.close()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def fronting() -> Iterator[Front]:
    with Front() as front:
        thread = threading.Thread(target=front.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield front
        finally:
            front.shutdown()
            thread.join()
