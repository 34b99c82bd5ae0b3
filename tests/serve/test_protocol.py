"""One connection at a time, with an application that answers when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from webmill.serve.guard.client_address import TrustedProxies
from webmill.serve.http.connection import ClientConnection
from webmill.serve.http.connection_limiter import ConnectionLimiter
from webmill.serve.site import ClientLimits

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
DEADLINE = 60.0


class Stage:
    """The server's side: `let` lets an answer go, `reasons` are those of refusals."""

    def __init__(self, **limits: float) -> None:
        self.let = asyncio.Semaphore(0)
        self.asked = asyncio.Semaphore(0)
        self.reasons: list[str] = []
        self.limiter = ConnectionLimiter(
            ClientLimits(**limits), exempt=TrustedProxies(()), on_refused=self.reasons.append
        )  # type: ignore[arg-type]

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.release()
        await self.let.acquire()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async def until_refused(self, reason: str) -> None:
        async with asyncio.timeout(DEADLINE):
            while reason not in self.reasons:
                self.limiter.close_slow()
                await asyncio.sleep(0.01)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        config = uvicorn.Config(
            self.app,
            interface="asgi3",
            http=ClientConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
        )
        config.load()
        state = ServerState()
        server = await asyncio.get_running_loop().create_server(
            lambda: ClientConnection(config=config, server_state=state, app_state={}, limiter=self.limiter),
            "127.0.0.1",
            0,
        )
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        try:
            yield reader, writer
        finally:
            writer.close()
            server.close()
            await asyncio.gather(*state.tasks, return_exceptions=True)
            async with asyncio.timeout(DEADLINE):
                while self.limiter.count:
                    await asyncio.sleep(0.01)


def test_half_of_the_next_request_does_not_cost_the_one_before_it_its_answer() -> None:
    async def play() -> bytes:
        stage = Stage(head_seconds=0.05)
        async with stage.client() as (reader, writer):
            writer.write(GET + b"GET / HTTP/1.1\r\nHo")
            await asyncio.wait_for(stage.asked.acquire(), DEADLINE)
            await stage.until_refused("slow_request")
            stage.let.release()
            async with asyncio.timeout(DEADLINE):
                return await reader.read()

    answers = asyncio.run(play())
    assert answers.startswith(b"HTTP/1.1 200 OK")
    assert b"\r\n\r\nokHTTP/1.1 408 " in answers


def test_a_body_that_does_not_come_costs_its_own_request_only() -> None:
    async def play() -> bytes:
        stage = Stage(head_seconds=0.05)
        async with stage.client() as (reader, writer):
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf")
            await asyncio.wait_for(stage.asked.acquire(), DEADLINE)
            await stage.until_refused("slow_request")
            async with asyncio.timeout(DEADLINE):
                answer = await reader.read()
            stage.let.release()
            return answer

    assert asyncio.run(play()).startswith(b"HTTP/1.1 408 ")


def test_an_answer_that_takes_long_is_waited_for() -> None:
    async def play() -> bytes:
        stage = Stage(head_seconds=0.01, idle_seconds=0.01, send_seconds=0.01)
        async with stage.client() as (reader, writer):
            writer.write(GET)
            await asyncio.wait_for(stage.asked.acquire(), DEADLINE)
            for _ in range(20):
                stage.limiter.close_slow()
                await asyncio.sleep(0.01)
            assert not stage.reasons
            stage.let.release()
            async with asyncio.timeout(DEADLINE):
                return await reader.readuntil(b"ok")

    assert asyncio.run(play()).startswith(b"HTTP/1.1 200 OK")
