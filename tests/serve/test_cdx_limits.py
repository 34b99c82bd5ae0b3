"""What one query may cost: time, memory, the patience of others. The application is asked without a socket, so that a
client can be as slow as a test wants."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import anyio
import pytest
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message

from tests.serve.cdx_samples import make_captures, put_index
from tests.serve.conftest import site_of
from webmill.serve.app import cdx_routes
from webmill.serve.cdx.limits import QueryLimits
from webmill.serve.guard.request_guard import RequestGuard
from webmill.serve.http.responses import exception_handlers
from webmill.settings import ServeSettings, Settings

LINES = make_captures(4000, seed=6)
LONG = {"url": "*.com", "output": "json"}
SHORT = {"url": "*.com", "output": "json", "limit": "3"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("limits")
    put_index(root, LINES)
    return root


def app_of(root: Path, *, proxies: str = "", **limits: Any) -> ASGIApp:
    site = site_of(root, Settings(serve=ServeSettings(proxies=proxies)))
    made = cdx_routes(site, limits=QueryLimits(**limits))
    return RequestGuard(Starlette(routes=made, exception_handlers=exception_handlers(site)), site)


class Client:
    """One request. `on_body` is called with each piece of the answer, and may wait."""

    def __init__(
        self, app: ASGIApp, params: dict[str, str], *, address: str = "192.0.2.1", forwarded: str = ""
    ) -> None:
        self._app = app
        self._scope = {
            "type": "http",
            "method": "GET",
            "path": "/cdx",
            "headers": [(b"host", b"localhost"), (b"x-forwarded-for", forwarded.encode())],
            "query_string": urlencode(params).encode(),
            "client": (address, 1),
        }
        self.status = 0
        self.headers: dict[str, str] = {}
        self.pieces: list[bytes] = []
        self.is_whole = False
        self.begun = anyio.Event()
        self.left = anyio.Event()

    async def ask(self, on_body: Callable[[], Any] | None = None) -> Client:
        async def receive() -> Message:
            await self.left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.status = message["status"]
                self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
                return
            self.pieces.append(message.get("body", b""))
            self.is_whole = not message.get("more_body", False)
            self.begun.set()
            if on_body:
                await on_body()

        with anyio.fail_after(120):
            await self._app(self._scope, receive, send)
        return self


def run(test: Callable[[], Any]) -> None:
    anyio.run(test)


def test_a_long_answer_is_sent_in_pieces(root: Path) -> None:
    async def test() -> None:
        client = await Client(app_of(root), LONG).ask()
        expected = sum(line.startswith(b"com,") for line in LINES)
        assert expected > 2000
        assert b"".join(client.pieces).count(b"\n") == expected
        assert len(client.pieces) > 4
        assert max(map(len, client.pieces)) < 200_000

    run(test)


def test_a_query_that_takes_too_long_is_refused_and_not_to_be_asked_again(root: Path) -> None:
    async def test() -> None:
        client = await Client(app_of(root, seconds=0.0), {**LONG, "filter": "=status:999"}).ask()
        assert client.status == 422  # neither 400, "no more pages", nor 5xx, "try again"
        assert b"or use pages" in b"".join(client.pieces)

    run(test)


def test_more_heavy_queries_than_allowed_are_told_to_come_back(root: Path) -> None:
    async def test() -> None:
        app = app_of(root, heavy=2, heavy_each=2, patience=0.0)
        enough = anyio.Event()
        slow = [Client(app, LONG, address=f"192.0.2.{number}") for number in (1, 2)]
        async with anyio.create_task_group() as tasks:
            for client in slow:
                tasks.start_soon(client.ask, enough.wait)
            for client in slow:
                await client.begun.wait()
            refused = await Client(app, SHORT, address="192.0.2.3").ask()
            assert refused.status == 503
            assert int(refused.headers["retry-after"]) >= 1
            exact = await Client(app, {"url": "nowhere.com"}, address="192.0.2.3").ask()
            assert exact.status == 200
            enough.set()
        assert all(client.is_whole for client in slow)
        assert (await Client(app, SHORT).ask()).status == 200

    run(test)


def test_one_slow_client_leaves_room_for_others(root: Path) -> None:
    async def test() -> None:
        app = app_of(root, heavy=2, heavy_each=1, patience=0.0)
        enough = anyio.Event()
        slow = Client(app, LONG)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(slow.ask, enough.wait)
            await slow.begun.wait()
            assert (await Client(app, SHORT).ask()).status == 503
            assert (await Client(app, SHORT, address="192.0.2.2").ask()).status == 200
            enough.set()

    run(test)


def test_clients_behind_a_proxy_are_told_apart(root: Path) -> None:
    async def test() -> None:
        app = app_of(root, proxies=("192.0.2.9",), heavy=3, heavy_each=1, patience=0.0)
        enough = anyio.Event()
        slow = Client(app, LONG, address="192.0.2.9", forwarded="198.51.100.1")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(slow.ask, enough.wait)
            await slow.begun.wait()
            same = await Client(app, SHORT, address="192.0.2.9", forwarded="198.51.100.1").ask()
            other = await Client(app, SHORT, address="192.0.2.9", forwarded="198.51.100.2").ask()
            assert (same.status, other.status) == (503, 200)
            enough.set()

    run(test)


def test_who_waits_a_little_is_served(root: Path) -> None:
    async def test() -> None:
        app = app_of(root, heavy=1, heavy_each=1, patience=100.0)
        enough = anyio.Event()
        slow, patient = Client(app, LONG), Client(app, SHORT)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(slow.ask, enough.wait)
            await slow.begun.wait()
            tasks.start_soon(patient.ask)
            await anyio.sleep(0.1)
            assert not patient.status
            enough.set()
        assert patient.status == 200

    run(test)


def test_a_client_that_leaves_frees_its_place(root: Path) -> None:
    async def test() -> None:
        app = app_of(root, heavy=1, heavy_each=1, patience=0.0)
        never = anyio.Event()
        gone = Client(app, LONG)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(gone.ask, never.wait)
            await gone.begun.wait()
            gone.left.set()
        assert not gone.is_whole
        assert (await Client(app, SHORT).ask()).status == 200

    run(test)


def test_an_answer_that_fails_midway_does_not_look_whole(tmp_path: Path) -> None:
    shards = sorted(put_index(tmp_path, LINES).glob("cdx-*.gz"))
    shards[len(shards) // 2].unlink()

    async def test() -> None:
        app = app_of(tmp_path, heavy=1, patience=0.0)
        client = Client(app, LONG)
        with pytest.raises(RuntimeError):  # so the server breaks the connection
            await client.ask()
        assert client.status == 200
        assert client.pieces
        assert not client.is_whole
        assert (await Client(app, SHORT).ask()).status == 200

    run(test)
