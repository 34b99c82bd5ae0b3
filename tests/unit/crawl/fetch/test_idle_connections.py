"""How long connections wait for their next request, and how many."""

from __future__ import annotations

import asyncio
import resource
import socket
import threading

import pytest

from tests.unit.crawl.fetch.conftest import Run
from tests.unit.crawl.fetch.fetching import (
    AGENT,
    PATIENCE,
    PATIENT,
    Listener,
    answer,
    fetched,
    fetching,
    get,
    read_request,
    wait_for_end,
)
from webmill.crawl.fetch import FetchLimits
from webmill.crawl.fetch.idle_connections import allowed_idle, idle_room
from webmill.crawl.fetch.response_reader import ResponseReader
from webmill.crawl.options import Politeness


def test_an_idle_connection_is_ended_after_its_time(run: Run) -> None:
    ended = threading.Event()

    def serve(connection: socket.socket, _: int) -> None:
        read_request(connection)
        connection.sendall(answer())
        if wait_for_end(connection):
            ended.set()

    async def main(url: str) -> None:
        async with fetching(limits=FetchLimits(idle=0.01)) as fetcher:
            fetched(await get(fetcher, url))
            assert await asyncio.to_thread(ended.wait, PATIENCE)

    with Listener(serve) as listener:
        run(main(listener.url))


@pytest.mark.parametrize(
    "limits",
    [FetchLimits(idle=PATIENCE, idle_connections=3), FetchLimits(idle=PATIENCE, idle_memory=3 * 4096)],
    ids=["number", "memory"],
)
def test_idle_connections_are_bounded_and_those_that_wait_are_needed_next(run: Run, limits: FetchLimits) -> None:
    ended: list[int] = []

    def serve(connection: socket.socket, number: int) -> None:
        while read_request(connection):
            connection.sendall(answer(b"%d" % number))
        ended.append(number)

    async def main(port: int) -> None:
        fixed = {f"{number}.example": ("127.0.0.1", port) for number in range(1, 11)}
        async with fetching(fixed, limits=limits) as fetcher:
            bodies = [fetched(await get(fetcher, f"http://{name}/")).payload for name in (*fixed, *fixed)]
            assert bodies[:13] == [b"%d" % number for number in (*range(1, 11), 1, 2, 3)]
            while len(ended) < 14:
                await asyncio.sleep(0.01)

    with Listener(serve) as listener:
        run(main(listener.port))
        assert listener.accepted == 17


@pytest.mark.parametrize(
    ("field", "seconds"),
    [
        (b"timeout=5", 4.5),
        (b"timeout=5, max=100", 4.5),
        (b'max=3;Timeout = "10"', 9.0),
        (b"timeout=0", 0.0),
        (b"max=100", float("inf")),
        (b"timeout=99999999999", float("inf")),
        (b"timeout=-5", float("inf")),
        (b"mytimeout=5", float("inf")),
        (b"timeout=\xb2", float("inf")),
    ],
)
def test_the_time_that_a_server_allows_is_read(field: bytes, seconds: float) -> None:
    reader = ResponseReader(limit=100)
    reader.feed(answer(fields=b"Keep-Alive: %s\r\n" % field))
    assert reader.head
    assert allowed_idle(reader.head) == pytest.approx(seconds)


def test_a_connection_waits_no_longer_than_its_server_says(run: Run) -> None:
    ended = threading.Event()

    def serve(connection: socket.socket, _: int) -> None:
        read_request(connection)
        connection.sendall(answer(fields=b"Keep-Alive: timeout=1\r\n"))
        if wait_for_end(connection):
            ended.set()

    async def main(url: str) -> None:
        async with fetching(limits=FetchLimits(idle=2 * PATIENCE)) as fetcher:
            fetched(await get(fetcher, url))
            assert await asyncio.to_thread(ended.wait, PATIENCE)

    with Listener(serve) as listener:
        run(main(listener.url))


def test_a_server_that_allows_no_time_is_asked_on_new_connections(run: Run) -> None:
    def serve(connection: socket.socket, _: int) -> None:
        while read_request(connection):
            connection.sendall(answer(fields=b"Keep-Alive: timeout=0\r\n"))

    async def main(url: str) -> None:
        async with fetching(limits=PATIENT) as fetcher:
            for _ in range(3):
                fetched(await get(fetcher, url))

    with Listener(serve) as listener:
        run(main(listener.url))
        assert listener.accepted == 3


@pytest.mark.parametrize(
    ("delay", "idle"), [(0.0, 15.0), (2.0, 15.0), (70.0, 80.0), (290.0, 300.0), (291.0, 15.0), (86400.0, 15.0)]
)
def test_connections_wait_as_long_as_the_delay_unless_it_is_long(delay: float, idle: float) -> None:
    assert Politeness(user_agent=AGENT, delay=delay).idle_time == idle
    assert Politeness(user_agent=AGENT, delay=3.0, is_auto=True).idle_time == 80.0


def test_few_files_leave_little_room_for_idle_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    for files, room in ((60, 32), (1024, 396), (1 << 20, 2000)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, files=files: (files, files))
        assert idle_room(500) == room
