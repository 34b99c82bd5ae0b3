"""Ask an ASGI application exactly what is written, without a client that tidies it first."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlencode

from starlette.types import ASGIApp


@dataclass(frozen=True)
class AsgiResponse:
    status: int
    pairs: list[tuple[str, str]]
    body: bytes

    def __getitem__(self, name: str) -> str:
        return ", ".join(value for key, value in self.pairs if key == name)


class AsgiClient:
    def __init__(self, app: ASGIApp, runner: asyncio.Runner) -> None:
        self.app, self.runner = app, runner

    def __call__(
        self,
        path: str,
        *,
        method: str = "GET",
        host: str = "127.0.0.1:8080",
        client: str = "testclient",
        query: str = "",
        more: list[tuple[str, str]] | None = None,
        form: dict[str, str] | None = None,
        body: bytes = b"",
        **headers: str,
    ) -> AsgiResponse:
        """`if_none_match="*"` is a header; `more` for those that come twice."""
        printed = [("host", host)] if host else []
        printed += [(name.replace("_", "-"), value) for name, value in headers.items()] + (more or [])
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode("latin-1", "backslashreplace")) for name, value in printed],
            "client": (client, 1),
            "server": ("127.0.0.1", 8080),
            "state": {},
        }
        return self.runner.run(self._ask(scope, urlencode(form).encode() if form else body))

    async def _ask(self, scope: dict[str, Any], sent: bytes) -> AsgiResponse:
        start: dict[str, Any] = {}
        body: list[bytes] = []

        bodies = [sent]

        async def receive() -> dict[str, Any]:
            if not bodies:
                await asyncio.Event().wait()  # it never leaves
            return {"type": "http.request", "body": bodies.pop(), "more_body": False}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                body.append(message.get("body", b""))

        await self.app(scope, receive, send)
        pairs = [(name.decode().lower(), value.decode("latin-1")) for name, value in start["headers"]]
        return AsgiResponse(start["status"], pairs, b"".join(body))


@contextmanager
def asgi_client(app: ASGIApp) -> Iterator[AsgiClient]:
    with asyncio.Runner() as runner:
        yield AsgiClient(app, runner)
