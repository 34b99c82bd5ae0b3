"""What a server of JSON says, in errors of our tree; and that what is asked twice is asked in the same words."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from webmill.errors import BadInput, Conflict, Misconfigured, NotFound, Unavailable
from webmill.infra import json_http
from webmill.infra.json_http import JsonServer
from webmill.infra.retry import BackoffPolicy

Script = Callable[[int], tuple[int, bytes]]  # how many requests came before -> status and body
HEADERS = {"Authorization": "Bearer a-secret"}


@contextmanager
def serving(script: Script) -> Iterator[tuple[str, list[bytes]]]:
    asked: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked.append(self.rfile.read(int(self.headers["Content-Length"])))
            status, body = script(len(asked) - 1)
            if not status:
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


def ask(script: Script, *, attempts: int = 3) -> tuple[object, list[bytes]]:
    policy = BackoffPolicy(attempts=attempts, first_wait=0.001)
    with serving(script) as (url, asked), closing(JsonServer(url, headers=HEADERS, policy=policy)) as server:
        return server.ask("POST", "/x", {"a": 1}, answer=dict), asked


@pytest.mark.parametrize("failure", [429, 500, 503, 0])
def test_what_may_pass_is_asked_again_in_the_same_words(failure: int) -> None:
    answer, asked = ask(lambda before: (200, b'{"b": 2}') if before == 2 else (failure, b""))
    assert answer == {"b": 2}
    assert asked == [b'{"a":1}'] * 3


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, BadInput), (401, Misconfigured), (403, Misconfigured), (404, NotFound), (409, Conflict), (503, Unavailable)],
)
def test_a_refusal_is_an_error_that_shows_no_key(status: int, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"too +bad") as caught:
        ask(lambda _: (status, b"too \x07bad"))
    assert "a-secret" not in str(caught.value)
    assert "\x07" not in str(caught.value)


def test_what_is_no_json_and_what_is_too_much_are_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    for nonsense in (b"<html>", b'{"a": "\xff"}', b'{"a":' * 100_000):
        with pytest.raises(Misconfigured, match="not an answer of the expected kind of server"):
            ask(lambda _, printed=nonsense: (200, printed))  # type: ignore[misc]
    monkeypatch.setattr(json_http, "LARGEST", 100)
    with pytest.raises(BadInput, match="an answer of more than"):
        ask(lambda _: (200, b" " * 200))


def test_a_server_that_is_not_there_may_be_there_later() -> None:
    with serving(lambda _: (200, b"{}")) as (url, _):
        pass
    server = JsonServer(url, headers={}, policy=BackoffPolicy(attempts=2, first_wait=0.001))
    with closing(server), pytest.raises(Unavailable):
        server.ask("GET", "/x", answer=dict)
