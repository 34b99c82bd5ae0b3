"""Work that blocks, in threads: so many at once, so many of one client, so many waiting, and no more.

The only way from the event loop to a disk, a search engine or a long computation. What runs cannot be stopped, so that
one client never has all the places: behind its slow questions others are still answered. Who has left while waiting is
not worked for.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from webmill.errors import Unavailable
from webmill.serve.client_address import client_of

T = TypeVar("T")

MAX_RUNNING, PER_CLIENT = 8, 4
MAX_WAITING, WAITING_PER_CLIENT = 64, 32


class ClientDisconnected(Exception):
    """The client has gone: there is nobody to answer."""


class BoundedThreads:
    """Counted in the loop's thread alone: no lock."""

    def __init__(
        self,
        *,
        max_running: int = MAX_RUNNING,
        per_client: int = PER_CLIENT,
        max_waiting: int = MAX_WAITING,
        waiting_per_client: int = WAITING_PER_CLIENT,
    ) -> None:
        self._max_running, self._per_client = max_running, per_client
        self._max_waiting, self._waiting_per_client = max_waiting, waiting_per_client
        self._limiter = CapacityLimiter(max_running)  # it never lets wait: those who come to it have a place
        self._busy = 0
        self._running: Counter[str] = Counter()  # by client
        self._new: Counter[str] = Counter()  # by client: how many of those who wait have no answer begun
        self._queue: dict[asyncio.Future[None], str] = {}  # in the order they came

    async def run(self, scope: Scope, receive: Receive, work: Callable[[], T]) -> T:
        """Run the first work of a request. Raise `Unavailable` if too many wait, or `ClientDisconnected`."""
        client = client_of(scope)
        if not self._try_acquire(client):
            await self._wait_in_queue(client, receive)
        return await self._run_in_thread(client, work)

    async def run_more(self, scope: Scope, work: Callable[[], T]) -> T:
        """More work for an answer that has begun: it waits as long as it takes, and is never refused."""
        client = client_of(scope)
        if not self._try_acquire(client):
            await self._wait_for_slot(client)
        return await self._run_in_thread(client, work)

    def endpoint(self, answer: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
        """For a route."""

        async def asked(request: Request) -> Response:
            return await self.run(request.scope, request.receive, partial(answer, request))

        return asked

    async def stream(self, scope: Scope, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
        """The body of a long answer. Empty pieces are a chance for others, and for a client to leave."""
        while (piece := await self.run_more(scope, partial(next, pieces, None))) is not None:
            if piece:
                yield piece

    def _try_acquire(self, client: str) -> bool:
        """A place, if there is one. Who waits is of a client that may have no more: nobody is passed by."""
        is_free = self._busy < self._max_running and self._running[client] < self._per_client
        if is_free:
            self._busy += 1
            self._running[client] += 1
        return is_free

    async def _wait_in_queue(self, client: str, receive: Receive) -> None:
        if self._new.total() >= self._max_waiting or self._new[client] >= self._waiting_per_client:
            raise Unavailable("too many are asking at once", retry_after=2)
        _add(self._new, client, 1)
        turn = self._enqueue(client)
        gone = asyncio.ensure_future(wait_for_disconnect(receive))
        try:
            await asyncio.wait((turn, gone), return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                raise ClientDisconnected
        except BaseException:
            self._abandon(turn, client)
            raise
        finally:
            gone.cancel()
            _add(self._new, client, -1)

    async def _wait_for_slot(self, client: str) -> None:
        """Until a place is ours."""
        turn = self._enqueue(client)
        try:
            await turn
        except asyncio.CancelledError:
            self._abandon(turn, client)
            raise

    def _enqueue(self, client: str) -> asyncio.Future[None]:
        """In the moment in which there was no place: one that gets free before we wait would be for nobody."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue[turn] = client
        return turn

    def _abandon(self, turn: asyncio.Future[None], client: str) -> None:
        if self._queue.pop(turn, None) is None:  # given in the same moment
            self._release(client)

    async def _run_in_thread(self, client: str, work: Callable[[], T]) -> T:
        try:
            return await to_thread.run_sync(work, limiter=self._limiter)
        finally:
            self._release(client)

    def _release(self, client: str) -> None:
        _add(self._running, client, -1)
        self._busy -= 1
        for turn, waiting in [*self._queue.items()]:
            if self._busy == self._max_running:
                break
            if not turn.done() and self._try_acquire(waiting):
                del self._queue[turn]
                turn.set_result(None)


async def wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _add(counts: Counter[str], client: str, by: int) -> None:
    """Nobody is remembered who has nothing here."""
    counts[client] += by
    if not counts[client]:
        del counts[client]
