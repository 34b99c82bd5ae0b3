"""Places for work that blocks: nobody has all of them, nobody waits for those who have left."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Message

from tests.serve.conftest import ADDRESS, site_of
from webmill.errors import Unavailable
from webmill.search.base import SearchAnswer, SearchRequest
from webmill.serve.app import application
from webmill.serve.processes.fair_slots import ClientDisconnected, FairSlots, HeavyShare
from webmill.serve.processes.threads import (
    MAX_RUNNING,
    MAX_WAITING,
    PER_CLIENT,
    WAITING_PER_CLIENT,
    BoundedThreads,
)

DEADLINE = 120.0
PATHS = (
    *("/api/versions", "/documents", "/history", "/", "/tasks", "/crawl", "/settings", "/versions"),
    *("/raw/20230401120000/https://town.example/", "/web/20230401120000/https://town.example/"),
    *("/healthz", "/readyz", "/collinfo.json", "/latest.json"),
)


class SlowEngine:
    """Finds nothing, and takes as long for it as the test wants."""

    def __init__(self) -> None:
        self.asked = 0
        self.may_end = threading.Event()

    def search(self, request: SearchRequest) -> SearchAnswer:
        self.asked += 1
        assert self.may_end.wait(DEADLINE)
        return SearchAnswer(total=0, hits=[])

    def count(self) -> int:
        return 0

    def cursor(self) -> str | None:
        return None

    def close(self) -> None:
        pass


@pytest.fixture
def engine() -> Iterator[SlowEngine]:
    engine = SlowEngine()
    yield engine
    engine.may_end.set()


class Caller:
    """One request of one client, who may leave before it is answered."""

    def __init__(self, app: ASGIApp, path: str, *, client: str) -> None:
        self.status = 0
        self.left = asyncio.Event()
        host = ADDRESS.partition("://")[2]
        scope = {
            "type": "http",
            "method": "GET",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"q=x" if "search" in path else b"",
            "headers": [(b"host", host.encode())],
            "client": (client, 1),
            "server": ("127.0.0.1", 8080),
        }
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))  # type: ignore[arg-type]

    async def _receive(self) -> Message:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        self.status = message.get("status", self.status)

    async def answered(self) -> int:
        await asyncio.wait_for(self.task, DEADLINE)
        return self.status


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not holds():
            await asyncio.sleep(0.01)


def app_with(sample_root: Path, engine: SlowEngine) -> ASGIApp:
    return application(replace(site_of(sample_root), open_engine=lambda: engine))  # type: ignore[arg-type, return-value]


def test_one_client_leaves_places_for_others(sample_root: Path, engine: SlowEngine) -> None:
    async def test() -> None:
        app = app_with(sample_root, engine)
        greedy = [Caller(app, "/api/search", client="192.0.2.1") for _ in range(PER_CLIENT + WAITING_PER_CLIENT + 1)]
        await until(lambda: engine.asked == PER_CLIENT and any(one.status for one in greedy))
        assert [one.status for one in greedy if one.status] == [503]
        for path in PATHS:
            assert await Caller(app, path, client="192.0.2.2").answered() == 200, path
        assert engine.asked == PER_CLIENT
        engine.may_end.set()
        statuses = [await one.answered() for one in greedy]
        assert sorted(statuses) == [200] * (PER_CLIENT + WAITING_PER_CLIENT) + [503]

    asyncio.run(test())


def test_a_search_engine_that_hangs_holds_up_nothing_else(sample_root: Path, engine: SlowEngine) -> None:
    async def test() -> None:
        app = app_with(sample_root, engine)
        many = [Caller(app, "/search", client=f"192.0.2.{number}") for number in range(1, 2 * MAX_RUNNING)]
        await until(lambda: engine.asked == MAX_RUNNING)
        for path in PATHS:
            if path != "/":  # says how the search stands
                assert await Caller(app, path, client="198.51.100.1").answered() == 200, path
        assert engine.asked == MAX_RUNNING
        engine.may_end.set()
        assert [await one.answered() for one in many] == [200] * len(many)

    asyncio.run(test())


def test_nobody_works_for_a_client_that_has_left(sample_root: Path, engine: SlowEngine) -> None:
    async def test() -> None:
        app = app_with(sample_root, engine)
        callers = [Caller(app, "/search", client="192.0.2.1") for _ in range(PER_CLIENT + 3)]
        await until(lambda: engine.asked == PER_CLIENT)
        for one in callers[PER_CLIENT:]:
            one.left.set()
        assert [await one.answered() for one in callers[PER_CLIENT:]] == [0, 0, 0]
        engine.may_end.set()
        assert [await one.answered() for one in callers[:PER_CLIENT]] == [200] * PER_CLIENT
        assert engine.asked == PER_CLIENT

    asyncio.run(test())


# --- the class itself ----------------------------------------------------------------------------------------------


def scope_of(client: str) -> dict[str, Any]:
    return {"type": "http", "client": (client, 1)}


async def never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


def test_more_than_can_wait_are_asked_to_come_again() -> None:
    """First of all the client that waits for most."""
    release = threading.Event()

    async def test() -> None:
        threads = BoundedThreads(max_running=2, per_client=1, max_waiting=3, waiting_per_client=2)

        def ask(client: str) -> asyncio.Task[bool]:
            return asyncio.ensure_future(threads.run(scope_of(client), never, lambda: release.wait(DEADLINE)))

        tasks = [ask("192.0.2.1") for _ in range(4)]
        with pytest.raises(Unavailable):
            await tasks[3]
        tasks[3] = ask("192.0.2.2")
        tasks += [ask("192.0.2.3"), ask("192.0.2.4")]
        with pytest.raises(Unavailable):
            await asyncio.wait_for(tasks.pop(2), DEADLINE)
        release.set()
        done = await asyncio.wait_for(asyncio.gather(*tasks), DEADLINE)
        assert all(done)

    asyncio.run(test())


def test_an_answer_that_has_begun_is_never_refused_and_a_client_is_never_over_its_share() -> None:
    lock, running, most = threading.Lock(), 0, 0
    may_end = threading.Event()

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        may_end.wait(DEADLINE)
        with lock:
            running -= 1

    async def test() -> None:
        threads = BoundedThreads(max_running=4, per_client=2, max_waiting=0, waiting_per_client=0)
        tasks = [asyncio.ensure_future(threads.run_more(scope_of("192.0.2.1"), work)) for _ in range(50)]
        await until(lambda: running == 2)
        other = asyncio.ensure_future(threads.run(scope_of("192.0.2.2"), never, may_end.is_set))
        assert await asyncio.wait_for(other, DEADLINE) is False
        for task in tasks[30:]:
            task.cancel()
        may_end.set()
        await asyncio.wait_for(asyncio.gather(*tasks[:30]), DEADLINE)
        assert most == 2
        assert all(task.cancelled() for task in tasks[30:])
        await asyncio.gather(*(threads.run(scope_of("192.0.2.1"), never, may_end.is_set) for _ in range(2)))

    asyncio.run(test())


def test_who_has_used_the_threads_least_is_next_however_late_it_came() -> None:
    order: list[str] = []

    async def test() -> None:
        threads = BoundedThreads(max_running=1, per_client=1)
        may_end = threading.Event()

        def ask(client: str, work: Callable[[], Any]) -> asyncio.Task[Any]:
            return asyncio.ensure_future(threads.run(scope_of(client), never, work))

        await ask("192.0.2.1", lambda: time.sleep(0.05))
        running = ask("192.0.2.3", lambda: may_end.wait(DEADLINE))
        greedy = [ask("192.0.2.1", lambda: order.append("greedy")) for _ in range(WAITING_PER_CLIENT)]
        await asyncio.sleep(0)
        modest = [ask("192.0.2.2", lambda: order.append("modest")) for _ in range(2)]
        await asyncio.sleep(0)
        may_end.set()
        await asyncio.wait_for(asyncio.gather(running, *greedy, *modest), DEADLINE)

    asyncio.run(test())
    assert order[:2] == ["modest", "modest"]


def test_a_crowd_that_waits_leaves_room_for_one_that_asks_little() -> None:
    async def test() -> None:
        threads = BoundedThreads(max_running=2, per_client=2)
        may_end = threading.Event()
        crowd = [
            asyncio.ensure_future(threads.run(scope_of(f"192.0.2.{n}"), never, lambda: may_end.wait(DEADLINE)))
            for _ in range(WAITING_PER_CLIENT)
            for n in range(1, 20)
        ]
        await asyncio.sleep(0)
        modest = asyncio.ensure_future(threads.run(scope_of("198.51.100.1"), never, lambda: True))
        await asyncio.sleep(0)
        may_end.set()
        assert await asyncio.wait_for(modest, DEADLINE) is True
        done = await asyncio.gather(*crowd, return_exceptions=True)
        assert sum(isinstance(one, Unavailable) for one in done) == len(crowd) - MAX_WAITING - 1

    asyncio.run(test())


def test_nobody_waits_longer_than_a_client_would() -> None:
    async def test() -> None:
        threads = BoundedThreads(max_running=1, per_client=1, patience=0.1)
        may_end = threading.Event()
        running = asyncio.ensure_future(threads.run(scope_of("192.0.2.1"), never, lambda: may_end.wait(DEADLINE)))
        await asyncio.sleep(0)
        with pytest.raises(Unavailable):
            await threads.run(scope_of("192.0.2.2"), never, lambda: True)
        may_end.set()
        assert await running is True
        assert await threads.run(scope_of("192.0.2.2"), never, lambda: True) is True

    asyncio.run(test())


def test_a_place_that_is_given_to_somebody_who_leaves_in_that_moment_is_given_on() -> None:
    async def test() -> None:
        threads = BoundedThreads(max_running=1, per_client=1, max_waiting=10, waiting_per_client=10)
        may_end = threading.Event()
        first = asyncio.ensure_future(threads.run(scope_of("192.0.2.1"), never, lambda: may_end.wait(DEADLINE)))
        await asyncio.sleep(0)
        gone = asyncio.Event()

        async def leaving() -> Message:
            await gone.wait()
            return {"type": "http.disconnect"}

        left = asyncio.ensure_future(threads.run(scope_of("192.0.2.2"), leaving, lambda: True))
        cancelled = asyncio.ensure_future(threads.run(scope_of("192.0.2.3"), never, lambda: True))
        last = asyncio.ensure_future(threads.run(scope_of("192.0.2.4"), never, lambda: True))
        await asyncio.sleep(0)
        may_end.set()
        await first
        gone.set()
        cancelled.cancel()
        assert await asyncio.wait_for(last, DEADLINE) is True
        results = await asyncio.gather(left, cancelled, return_exceptions=True)
        assert isinstance(results[0], ClientDisconnected) or results[0] is True
        assert isinstance(results[1], asyncio.CancelledError) or results[1] is True
        assert await threads.run(scope_of("192.0.2.5"), never, lambda: True) is True

    asyncio.run(test())


def test_a_place_that_gets_free_in_the_moment_of_asking_is_not_missed() -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        threads = BoundedThreads(max_running=1, per_client=1)
        asked: list[asyncio.Task[bool]] = []

        def ask() -> None:
            asked.append(asyncio.ensure_future(threads.run(scope_of("192.0.2.2"), never, lambda: True)))

        for _ in range(100):
            await threads.run(scope_of("192.0.2.1"), never, lambda: loop.call_soon_threadsafe(ask))
            await until(lambda: bool(asked))
            assert await asyncio.wait_for(asked.pop(), DEADLINE)

    asyncio.run(test())


def test_clients_that_have_used_much_share_a_few_threads_whatever_they_ask_for() -> None:
    async def test() -> None:
        share = HeavyShare(1)
        pages, searches = (BoundedThreads(share=share) for _ in range(2))
        may_end = threading.Event()
        for number in (1, 2):
            share.take(f"192.0.2.{number}")
            share.give_back(f"192.0.2.{number}", 10.0)

        def ask(threads: BoundedThreads, client: str, work: Callable[[], Any]) -> asyncio.Task[Any]:
            return asyncio.ensure_future(threads.run(scope_of(client), never, work))

        running = ask(pages, "192.0.2.1", lambda: may_end.wait(DEADLINE))
        await asyncio.sleep(0)
        waiting = ask(searches, "192.0.2.2", may_end.is_set)
        for threads in (pages, searches):
            assert await asyncio.wait_for(ask(threads, "198.51.100.1", may_end.is_set), DEADLINE) is False
        assert not waiting.done()
        may_end.set()
        assert await asyncio.wait_for(asyncio.gather(running, waiting), DEADLINE) == [True, True]

    asyncio.run(test())


def test_a_slot_is_not_lost_to_one_that_gives_up_in_that_moment() -> None:
    async def test() -> None:
        slots = FairSlots(most=1, per_client=1, max_waiting=4, waiting_per_client=4)
        await slots.acquire_more("192.0.2.1")
        gives_up = asyncio.ensure_future(slots.acquire_more("192.0.2.2"))
        await asyncio.sleep(0)
        gives_up.cancel()
        slots.release("192.0.2.1", 0.0)
        await asyncio.wait_for(slots.acquire_more("192.0.2.3"), DEADLINE)

    asyncio.run(test())
