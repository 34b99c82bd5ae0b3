"""Reading one board: its listing, then the bodies of what is new, politely.

    with BoardReader(Options(manners=Manners(user_agent=…), gates=Path("gates.sqlite"))) as reader:
        reading = reader.read(board, known=known)         # from any thread; many may read at once

A reading never raises for anything that the web does: it becomes `Reading.failed` and problems.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType
from typing import Self
from weakref import WeakValueDictionary
from zoneinfo import ZoneInfo

from webmill.boards.board_list import Board
from webmill.boards.cache import Cache
from webmill.boards.gates import GateBooker
from webmill.boards.parsing import Parsers
from webmill.boards.reading import LISTING, BoardReading, Tools
from webmill.boards.types import Known, Limits, Manners, Notice, Options, Reading
from webmill.boards.web import Web
from webmill.crawl.fetch import Fetcher, Resolver, Vetting
from webmill.crawl.fetch import Limits as FetchLimits
from webmill.errors import Misconfigured, Unavailable
from webmill.formats.urls import host_of
from webmill.pipeline.crawl.gates import Gates
from webmill.publish.nouns import Problem

__all__ = ["BoardReader", "Known", "Limits", "Manners", "Notice", "Options", "Reading"]

NOTHING: Mapping[str, Known] = {}


class BoardReader:
    """Threads share it, and wait in it for the turns of their hosts: give it many more than there are hosts.

    Processes open one each, on the same `gates` and `cache` files.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        zone = zone_of(options.zone)
        with ExitStack() as parts:
            self._open(parts, zone)
            self._parts = parts.pop_all()

    def _open(self, parts: ExitStack, zone: ZoneInfo) -> None:
        options = self._options
        gates = Gates(options.gates)
        parts.callback(gates.close)
        cache = Cache(options.cache)
        parts.callback(cache.close)
        clock = gates.clock(None)
        cache.forget_old(clock())
        thread = ThreadPoolExecutor(1, thread_name_prefix="webmill-gates")
        parts.callback(thread.shutdown)
        parsers = Parsers(options.parsers, limits=options.limits.child)
        parts.callback(parsers.close)
        self._loop = asyncio.new_event_loop()
        parts.callback(self._loop.close)
        running = threading.Thread(target=self._loop.run_forever, name="webmill-boards", daemon=True)
        running.start()
        parts.callback(running.join)
        parts.callback(self._loop.call_soon_threadsafe, self._loop.stop)
        self._booker = GateBooker(gates, thread, clock=clock)
        self._fetcher = asyncio.run_coroutine_threadsafe(make_fetcher(options), self._loop).result()
        web = Web(self._fetcher, self._booker, cache, options, clock=clock)
        self._tools = Tools(web, parsers, cache, options, zone, clock)
        self._readings: set[asyncio.Task[object]] = set()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by host
        self._is_closed, self._door = False, threading.Lock()

    def read(self, board: Board, *, known: Mapping[str, Known] = NOTHING) -> Reading:
        with self._door:  # whoever is in before it closes is told so
            if self._is_closed:
                return ended(board, "the reader is closed")
            future = asyncio.run_coroutine_threadsafe(self._read(board, known), self._loop)
        try:
            return future.result()
        except BaseException:  # Ctrl-C
            future.cancel()
            raise

    async def _read(self, board: Board, known: Mapping[str, Known]) -> Reading:
        task = asyncio.current_task()
        assert task is not None
        self._readings.add(task)
        try:
            # A host is asked one thing at a time anyway: board after board, each is done before its time is over.
            async with self._turns.setdefault(host_of(board.url), asyncio.Lock()):
                return await BoardReading(board, known, self._tools).read()
        except asyncio.CancelledError:
            return ended(board, "the reader was closed")
        except Unavailable as error:  # our own files, not the web
            return ended(board, str(error))
        finally:
            self._readings.discard(task)

    def close(self) -> None:
        """Readings under way end as failed."""
        with self._door:
            if self._is_closed:
                return
            self._is_closed = True
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._parts.close()

    async def _end(self) -> None:
        for task in self._readings:
            task.cancel()
        if self._readings:
            await asyncio.wait(self._readings)
        await self._booker.settle()
        await self._fetcher.close()
        await self._loop.shutdown_default_executor()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


async def make_fetcher(options: Options) -> Fetcher:
    limits = options.limits
    return Fetcher(
        user_agent=options.manners.user_agent,
        limits=FetchLimits(body=limits.body, total=limits.deadline, connect=min(10.0, limits.deadline / 2)),
        vetting=Vetting(allow_private=options.reach.allow_private),
        resolver=Resolver(fixed=options.reach.resolve),
        tls=options.reach.tls,
        connections=options.connections,
    )


def zone_of(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise Misconfigured(
            f"no time zone {name!r} on this machine: write it as in Asia/Seoul, and install the system's tzdata"
        ) from error


def ended(board: Board, message: str) -> Reading:
    problem = Problem(stage=LISTING, message=message, source=board.source, url=board.url, retryable=True)
    return Reading(source=board.source, problems=(problem,), failed=True, retryable=True)
