"""A long answer in small pieces is read now and then, not piece by piece."""

from __future__ import annotations

import asyncio
import socket
from typing import cast

from webmill.crawl.fetch import connection as connections
from webmill.crawl.fetch.connection import FetchConnection, MemoryBudget
from webmill.crawl.fetch.response_reader import ResponseReader
from webmill.crawl.fetch.types import FetchLimits, SocketAddress

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Transport:
    def __init__(self) -> None:
        self.is_reading, self.sent = True, b""

    def get_extra_info(self, name: str) -> None: ...

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.sent += data

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def abort(self) -> None: ...


async def begin(budget: MemoryBudget) -> tuple[FetchConnection, Transport, ResponseReader, asyncio.Task[None]]:
    """Return a connection that awaits an answer."""
    transport, reader = Transport(), ResponseReader(limit=1 << 20)
    with socket.socket() as unused:
        connection = FetchConnection(
            unused, address=SocketAddress("127.0.0.1", 80), limits=FetchLimits(), budget=budget, on_lost=lambda _: None
        )
    connection.connection_made(cast("asyncio.BaseTransport", transport))
    task = asyncio.create_task(connection.send(b"GET", reader, deadline=asyncio.get_running_loop().time() + 60))
    while not transport.sent:
        await asyncio.sleep(0)
    connection.data_received(HEAD)
    return connection, transport, reader, task


def test_after_many_small_reads_each_is_followed_by_a_pause() -> None:
    async def play() -> None:
        connection, transport, reader, task = await begin(MemoryBudget(1 << 30))
        for _ in range(connections.FREE_READS):
            assert transport.is_reading
            connection.data_received(b"z")
        assert not transport.is_reading
        while not transport.is_reading:
            await asyncio.sleep(0)
        connection.data_received(b"z" * connections.SMALL_READ)
        assert transport.is_reading, "a large read costs little for each byte"
        assert reader.cpu >= connections.FREE_READS * connections.CPU_PER_READ
        connection.data_received(b"z")
        assert not transport.is_reading
        connection.eof_received()
        await task
        assert transport.is_reading, "the next answer is not held up"

    asyncio.run(play())


def test_a_pause_does_not_let_an_answer_pass_the_memory_budget() -> None:
    async def play() -> None:
        budget = MemoryBudget(10)
        _, _, _, favoured = await begin(budget)
        connection, transport, _, task = await begin(budget)
        for _ in range(connections.FREE_READS + 10):
            connection.data_received(b"z")
        assert not transport.is_reading
        await asyncio.sleep(3 * connections.READ_PAUSE)
        assert not transport.is_reading, "it waits for its turn"
        favoured.cancel()
        await asyncio.gather(favoured, return_exceptions=True)
        assert transport.is_reading
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(play())
