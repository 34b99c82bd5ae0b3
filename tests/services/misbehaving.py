"""An origin that refuses, stalls, breaks off and lies by a script, and remembers when it was asked.

    def script(asked: Request, before: int) -> Answer: …     # `before`: how many requests came earlier
    with misbehaving(script) as origin:
        origin.url, origin.log

Times are of `time.monotonic`, which is one clock for all processes of a machine. It serves one value under every key.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

VALUE = bytes(range(256)) * 16


@dataclass(frozen=True)
class Answer:
    """`body`: all of it, a half ("short"), a byte and then nothing ("stall"), none and a reset ("reset")."""

    status: int = 206
    headers: dict[str, str] = field(default_factory=dict)
    body: str = "whole"
    delay: float = 0.0  # before the first byte


OK = Answer()
SLOW_DOWN = Answer(503)
REFUSED = Answer(403)
RESET = Answer(body="reset")
SHORT = Answer(body="short")
IGNORES_RANGE = Answer(200)


def too_many(retry_after: float) -> Answer:
    return Answer(429, {"Retry-After": f"{retry_after:g}"})


@dataclass
class Request:
    """`answered` is before the first byte of the answer is sent: nobody has heard of it earlier."""

    path: str
    at: float
    answer: Answer | None = None
    answered: float = 0.0


Script = Callable[[Request, int], Answer]


class Origin(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.log: list[Request] = []
        self.over = threading.Event()  # ends those that stall
        self._script = script
        self._turn = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def asked(self, path: str) -> Request:
        with self._turn:
            request = Request(path, time.monotonic())
            request.answer = self._script(request, len(self.log))
            self.log.append(request)
            return request

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # clients are killed here, and hang up


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Origin

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        request = self.server.asked(self.path)
        answer = request.answer
        assert answer is not None
        self.server.over.wait(answer.delay)
        request.answered = time.monotonic()
        if answer.body == "reset":
            self.reset()
        else:
            self.answer(answer)

    def answer(self, answer: Answer) -> None:
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        ranged = match is not None and answer.status == 206
        first, last = (int(match[1]), int(match[2])) if match and ranged else (0, len(VALUE) - 1)
        body = VALUE[first : last + 1] if answer.status < 300 else b""
        self.send_response(200 if answer.status == 206 and not ranged else answer.status)
        self.send_header("Content-Length", str(len(body)))
        if ranged:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(VALUE)}")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if answer.body == "whole":
            self.wfile.write(body)
            return
        self.wfile.write(body[: 1 if answer.body == "stall" else len(body) // 2])
        if answer.body == "stall":
            self.server.over.wait()
        self.close_connection = True

    def reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def misbehaving(script: Script) -> Iterator[Origin]:
    with Origin(script) as origin:
        thread = threading.Thread(target=origin.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield origin
        finally:
            origin.over.set()
            origin.shutdown()
            thread.join()
