"""Reservations of a shard's requests, collected for its next batch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from itertools import count

from webmill.crawl.politeness.host_schedule import Reservation, ReservationUpdate
from webmill.infra.clock import SteadyClock


class BatchedReservations:
    """Collects reservations until the shard's store has made them, and tells each request the result.

    `wakeup` is set when there is something for the next batch.
    """

    def __init__(self, *, clock: SteadyClock, wakeup: asyncio.Event) -> None:
        self._clock, self._wakeup = clock, wakeup
        self._numbers = count()
        self._answers: dict[int, asyncio.Future[float | None]] = {}
        self._reservations: dict[int, Reservation] = {}
        self._updates: list[dict[str, ReservationUpdate]] = []
        self._is_stopped = False

    @property
    def are_waiting(self) -> bool:
        return bool(self._reservations)

    async def reserve(self, reservation: Reservation) -> float | None:
        """Return None when the time is reserved, durably; else when to try again."""
        if self._is_stopped:
            return self._clock()
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        self._reservations[number] = reservation
        self._wakeup.set()
        return await self._answers[number]

    def update(self, keys: dict[str, ReservationUpdate]) -> None:
        """Record with the next batch when reserved keys are free."""
        self._updates.append(keys)

    def take(self) -> tuple[dict[int, Reservation], list[dict[str, ReservationUpdate]]]:
        """Return what was collected, for a batch."""
        taken = self._reservations, self._updates
        self._reservations, self._updates = {}, []
        return taken

    def answer(self, numbers: Iterable[int], refused: Mapping[int, float]) -> None:
        """Tell the requests of a batch that is done."""
        for number in numbers:
            future = self._answers.pop(number)
            if not future.done():
                future.set_result(refused.get(number))

    def refuse_new(self) -> None:
        """Reserve nothing more: the shard stops."""
        self._is_stopped = True

    def refuse_waiting(self) -> None:
        """Tell all requests that wait to try again later."""
        for future in self._answers.values():
            if not future.done():
                future.set_result(self._clock())
        self._answers.clear()
        self._reservations.clear()
