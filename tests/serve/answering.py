"""A web server for one test, whose answers are made from the paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

Answer = Callable[[str], tuple[str, bytes]]


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """Serve on this machine: `answer` returns the content type and the body for a path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content_type, body = answer(self.path)
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

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
