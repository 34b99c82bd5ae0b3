"""Boards on loopback: listings and notices that a test can change, break and count."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SELECTORS = {"item": "tr", "link": "a", "title": "a", "date": "td.date", "body": "div.body"}
ROW = '<tr><td><a href="/{board}/{number}">{title}</a></td><td class="date">2026-03-{number:02d}</td></tr>'


class Site(ThreadingHTTPServer):
    """`boards`: the titles of each board's notices, by number; `older`: those of the second page of a listing.

    A board in `broken` answers 503; one in `closed` is forbidden by robots.txt.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.boards: dict[str, dict[int, str]] = {}
        self.older: dict[str, dict[int, str]] = {}
        self.broken: set[str] = set()
        self.closed: set[str] = set()
        self.asked: Counter[str] = Counter()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def site_map(self) -> bytes:
        sources = [
            {"source": board, "url": f"{self.url}/{board}", "selectors": SELECTORS, "facets": {"campus": board[0]}}
            for board in self.boards
        ]
        return json.dumps({"sources": sources}).encode()

    def page(self, path: str) -> tuple[int, str]:
        if path == "/robots.txt":
            return 200, "User-agent: *\n" + "".join(f"Disallow: /{board}\n" for board in self.closed)
        place, _, query = path.strip("/").partition("?")
        board, _, number = place.partition("/")
        notices = self.boards.get(board)
        if notices is None:
            return 404, ""
        if board in self.broken:
            return 503, "broken"
        older = self.older.get(board, {})
        if not number:
            rows = "".join(
                ROW.format(board=board, number=at, title=title) for at, title in (older if query else notices).items()
            )
            more = f'<a rel="next" href="/{board}?page=2">more</a>' if older and not query else ""
            return 200, f"<html><table>{rows}</table>{more}</html>"
        title = (notices | older)[int(number)]
        return 200, f'<html><h1>{title}</h1><div class="body">All about {title}</div></html>'


class _Handler(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        self.server.asked[self.path] += 1
        status, text = self.server.page(self.path)
        body = text.encode()
        self.send_response(status)
        kind = "text/plain" if self.path == "/robots.txt" else "text/html; charset=utf-8"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[Site]:
    with Site() as site:
        thread = threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield site
        finally:
            site.shutdown()
            thread.join()
