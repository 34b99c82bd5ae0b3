"""Reading one board: its listing, then the bodies of what is new, politely.

    with BoardReader(ReaderOptions(politeness=board_manners("…"), gates=Path("gates.sqlite"))) as reader:
        reading = reader.read(board, known=known)         # from any thread; many may read at once

Reading never raises for anything that the web does: it becomes `BoardResult.failed` and problems.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, closing, contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar
from weakref import WeakValueDictionary
from zoneinfo import ZoneInfo

from webmill.boards.board_list import Board
from webmill.boards.cache import PageCache
from webmill.boards.parsing import ParserPool
from webmill.boards.reading import LISTING, BoardReading, ReadingTools
from webmill.boards.types import BoardResult, KnownNotice, ReaderOptions
from webmill.crawl.visit.page_fetcher import open_page_fetcher
from webmill.errors import Misconfigured, Unavailable
from webmill.forgotten import never_asked
from webmill.formats.url.normalise import host_of
from webmill.infra import atomic
from webmill.infra.host_schedule.sqlite_schedule import SqliteHostSchedule
from webmill.publish.types import PublishProblem

T = TypeVar("T")
NONE_KNOWN: Mapping[str, KnownNotice] = {}


class BoardReader:
    """Reads boards. Threads share it, and wait in it for their hosts: use many more threads than hosts.

    Processes open one each, on the same `gates` and `cache` files.
    """

    def __init__(self, options: ReaderOptions) -> None:
        zone = load_zone(options.zone)
        atomic.make_folder(options.gates.parent)
        with ExitStack() as parts:
            gates = parts.enter_context(closing(SqliteHostSchedule(options.gates)))
            cache = parts.enter_context(closing(PageCache(options.cache)))
            parsers = parts.enter_context(closing(ParserPool(options.parsers, limits=options.limits.child)))
            self._loop = parts.enter_context(running_loop())
            self._fetching = AsyncExitStack()
            clock = gates.clock(None)
            cache.delete_unused(clock())
            fetching = open_page_fetcher(
                gates,
                cache,
                politeness=options.politeness,
                limits=options.requests,
                network=options.network,
                connections=options.connections,
                clock=clock,
                forgotten=never_asked(options.gates.parent.parent),  # the collection
            )
            entering = self._fetching.enter_async_context(fetching)
            fetcher = asyncio.run_coroutine_threadsafe(entering, self._loop).result()
            self._tools = ReadingTools(fetcher, parsers, cache, options, zone, clock)
            self._parts = parts.pop_all()
        self._readings: set[asyncio.Task[object]] = set()
        self._host_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by host
        self._is_closed, self._closing = False, threading.Lock()

    def read(self, board: Board, *, known: Mapping[str, KnownNotice] = NONE_KNOWN) -> BoardResult:
        with self._closing:  # a reading that began before closing ends as failed
            if self._is_closed:
                return failed_result(board, "the reader is closed")
            future = asyncio.run_coroutine_threadsafe(self._read(board, known), self._loop)
        try:
            return future.result()
        except BaseException:  # Ctrl-C
            future.cancel()
            raise

    async def _read(self, board: Board, known: Mapping[str, KnownNotice]) -> BoardResult:
        task = asyncio.current_task()
        assert task is not None
        self._readings.add(task)
        try:
            # A host gets one request at a time anyway: with one board at a time, each is done before its deadline.
            async with self._host_locks.setdefault(host_of(board.url), asyncio.Lock()):
                return await BoardReading(board, known, self._tools).read()
        except asyncio.CancelledError:
            return failed_result(board, "the reader was closed")
        except Unavailable as error:  # our own files, not the web
            return failed_result(board, str(error))
        finally:
            self._readings.discard(task)

    def call(self, work: Callable[[ReadingTools], Coroutine[Any, Any, T]]) -> T:
        """Return the result of `work`, which uses the tools of this reader in its event loop."""
        future = asyncio.run_coroutine_threadsafe(work(self._tools), self._loop)
        try:
            return future.result()
        except BaseException:  # Ctrl-C
            future.cancel()
            raise

    def close(self) -> None:
        """Close the reader; readings under way end as failed."""
        with self._closing:
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
        await self._fetching.aclose()
        await self._loop.shutdown_default_executor()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


@contextmanager
def running_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Run an event loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="webmill-boards", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def load_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise Misconfigured(
            f"no time zone {name!r} on this machine: write it like Asia/Seoul, or install the system's tzdata"
        ) from error


def failed_result(board: Board, message: str) -> BoardResult:
    problem = PublishProblem(stage=LISTING, message=message, source=board.source, url=board.url, retryable=True)
    return BoardResult(source=board.source, problems=(problem,), failed=True, retryable=True)
