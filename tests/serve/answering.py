"""A web server for one test, whose answers are made from the paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

Answer = Callable[[str], tuple[str, bytes]]


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """Serve on this machine: `answer` returns the content type and the body for a path."""

    def reply(path: str) -> Reply:
        content_type, body = answer(path)
        return Reply(200, body, {"Content-Type": content_type})

    with answering_as(reply) as address:
        yield address


@contextmanager
def answering_as(answer: Callable[[str], Reply]) -> Iterator[str]:
    """Serve on this machine whatever `answer` makes of a path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            reply = answer(self.path)
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):  # a client that has enough hangs up
                self.wfile.write(reply.body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
