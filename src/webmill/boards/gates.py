"""Times of hosts and addresses are booked in a file that all readers of a machine share, many in one write."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from webmill.errors import WebmillError
from webmill.infra.clock import SteadyClock
from webmill.pipeline.crawl.gates import Booking, Gates, Kept

LONGEST = 86400.0  # seconds: no time that we set is further away


class GateBooker:
    """What `Asker` asks. While one write is under way the next ones gather."""

    def __init__(self, gates: Gates, thread: ThreadPoolExecutor, *, clock: SteadyClock) -> None:
        self._gates, self._thread, self._clock = gates, thread, clock
        self._bookings: list[tuple[Booking, asyncio.Future[float | None]]] = []
        self._kept: list[Mapping[str, Kept]] = []
        self._work: asyncio.Task[None] | None = None

    async def book(self, booking: Booking) -> float | None:
        """Raises what the file raises."""
        answer: asyncio.Future[float | None] = asyncio.get_running_loop().create_future()
        self._bookings.append((booking, answer))
        self._wake()
        return await answer

    def correct(self, gates: dict[str, Kept]) -> None:
        self._kept.append(gates)
        self._wake()

    async def settle(self) -> None:
        """Until all is written."""
        while self._work is not None:
            await self._work

    def _wake(self) -> None:
        if self._work is None:
            self._work = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._bookings or self._kept:
                bookings, self._bookings = self._bookings, []
                kept, self._kept = self._kept, []
                try:
                    waits = await loop.run_in_executor(self._thread, self._write, [one for one, _ in bookings], kept)
                except WebmillError as error:  # corrections are lost: their hosts stay closed for the whole window
                    for _, answer in bookings:
                        if not answer.done():
                            answer.set_exception(error)
                    continue
                for number, (_, answer) in enumerate(bookings):
                    if not answer.done():
                        answer.set_result(waits.get(number))
        finally:
            self._work = None

    def _write(self, bookings: list[Booking], kept: list[Mapping[str, Kept]]) -> dict[int, float]:
        if kept:
            self._gates.correct(kept, clock=self._clock)
        return self._gates.book(dict(enumerate(bookings)), now=self._clock(), longest=LONGEST) if bookings else {}
