"""Memory (N10, N08) and file descriptors (N21): bounded, given back, waited for."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.unit.crawl.fetch.conftest import Run
from tests.unit.crawl.fetch.fetching import (
    PATIENCE,
    Listener,
    answer,
    fetched,
    fetching,
    get,
    read_request,
    wait_for_end,
)
from webmill.crawl.fetch import FetchLimits
from webmill.crawl.fetch.connection import MemoryBudget
from webmill.testing import TestWeb, most_at_once

ROOT = Path(__file__).parents[4]
MIB = 1 << 20


class Faucet:
    def __init__(self) -> None:
        self.flows = True

    def pause(self) -> None:
        self.flows = False

    def resume(self) -> None:
        self.flows = True


def test_beyond_the_budget_only_one_reads_and_then_the_next() -> None:
    budget = MemoryBudget(100)
    first, second, third = Faucet(), Faucet(), Faucet()
    for faucet in (first, second, third):
        budget.add(faucet, 30)
    budget.add(first, 30)
    budget.add(second, 30)
    budget.add(third, 30)
    assert [each.flows for each in (first, second, third)] == [True, False, False]
    budget.add(first, 1000)
    assert first.flows
    budget.release(third, 60)  # gave up while it waited
    assert not second.flows
    budget.release(first, 1060)
    assert second.flows
    budget.release(second, 60)
    assert budget.used == 0


def test_when_the_favoured_is_done_and_memory_is_still_short_the_next_is_favoured() -> None:
    budget = MemoryBudget(100)
    first, second, third = Faucet(), Faucet(), Faucet()
    budget.add(first, 101)
    budget.add(second, 101)
    budget.add(third, 101)
    budget.release(first, 101)
    assert (second.flows, third.flows) == (True, False)
    budget.add(second, 101)
    assert second.flows
    budget.release(second, 202)
    assert third.flows
    budget.release(third, 101)
    assert budget.used == 0


def test_answers_beyond_the_budget_wait_and_then_come_whole(run: Run) -> None:
    """One answer fills the budget and stalls: the others stay with their servers until it is over."""
    size = 16 * MIB
    stalled, go_on = threading.Event(), threading.Event()

    def serve(connection: socket.socket, _: int) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        while request := read_request(connection):
            whole = answer(b"x" * size)
            if b"GET /first" in request:
                connection.sendall(whole[: size // 2])
                stalled.set()
                go_on.wait(PATIENCE)
                connection.sendall(whole[size // 2 :])
            else:
                connection.sendall(whole)

    async def main(url: str) -> None:
        limits = FetchLimits(total=PATIENCE, window=PATIENCE, body=64 * MIB, memory=MIB)
        async with fetching(limits=limits) as fetcher:
            first = asyncio.create_task(get(fetcher, f"{url}/first"))
            assert await asyncio.to_thread(stalled.wait, PATIENCE)
            others = [asyncio.create_task(get(fetcher, f"{url}/{number}")) for number in range(3)]
            done, _ = await asyncio.wait(others, timeout=0.5)  # never done, however long
            assert not done
            go_on.set()
            for outcome in await asyncio.gather(first, *others):
                assert fetched(outcome).payload == b"x" * size
            assert fetched(await get(fetcher, f"{url}/again")).payload == b"x" * size

    with Listener(serve) as listener:
        run(main(listener.url))


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS binds on Linux only")
def test_bombs_and_endless_answers_fit_into_little_memory(web: TestWeb) -> None:
    bombs = ["bomb-gzip", "bomb-deflate", "bomb-br", "bomb-zstd", "bomb-twice", "zstd-window"]
    urls = [f"http://packed.grain.example/{path}" for path in bombs]
    urls += [
        f"http://slow.harvest.test/{path}"
        for path in ("endless", "endless-chunks", "tiny-chunks", "chunk-extensions", "endless-head", "endless-100")
    ]
    fixed = {name: web.resolve[name] for name in ("packed.grain.example", "slow.harvest.test")}
    report = _child("memory", {"urls": urls, "fixed": fixed})
    assert report["limit_binds"]
    assert report["outcomes"][:6] == ["decode_limit"] * 6
    assert report["outcomes"][6:] == ["length", "length", "unspecified", "length", "header_limit", "header_limit"]


def test_without_file_descriptors_nothing_is_lost(web: TestWeb) -> None:
    urls = [page.url for page in web.pages()] * 3
    fixed = {name: web.resolve[name] for name in web.names}
    web.log.settle()
    before = len(web.log)
    report = _child("files", {"urls": urls, "fixed": fixed})
    web.log.settle()
    visits = web.log.visits()[before:]
    assert report["statuses"] == [page.status for page in web.pages()] * 3
    assert len(visits) == len(urls)
    assert most_at_once(visits) <= report["free"]
    # More sockets were asked for than there were connections: it did run out, and tried again.
    assert report["sockets_asked_for"] > len({(visit.address, visit.client_port) for visit in visits})


def test_a_shortage_that_does_not_end_is_told_and_the_request_not_sent(web: TestWeb) -> None:
    with Listener(lambda connection, _: wait_for_end(connection) or None) as listener:
        report = _child("none", {"urls": [f"{listener.url}/", "http://localhost/"], "fixed": {}})
        assert report["outcomes"] == [["too_many_files", False], ["too_many_files", False]]
        assert report["afterwards"] == "timeout"  # connected, as soon as there was a descriptor
        assert listener.accepted == 1


def _child(task: str, question: dict[str, object]) -> dict[str, object]:
    command = [sys.executable, "-m", "tests.unit.crawl.fetch.limited", task]
    done = subprocess.run(
        command,
        input=json.dumps(question),
        env={**os.environ, "MALLOC_ARENA_MAX": "1"},  # glibc reserves 64 MiB of addresses for each thread
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]
