"""Blocking work in threads, with limits: how many run, how many per client, how many wait.

The only way from the event loop to a disk, a search engine or a long computation. Running work cannot be stopped, so no
client may take all threads: others are answered while its slow queries run. Work of a client that disconnects while
waiting is not started.
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
from webmill.serve.guard.client_address import client_of

T = TypeVar("T")

MAX_RUNNING, PER_CLIENT = 8, 4
MAX_WAITING, WAITING_PER_CLIENT = 64, 32


class ClientDisconnected(Exception):
    """The client has disconnected, so there is nobody to answer."""


class BoundedThreads:
    """A pool of threads with limits. Used by the event loop's thread alone, so it needs no lock."""

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
        self._limiter = CapacityLimiter(max_running)  # never blocks: a slot is acquired before
        self._busy = 0
        self._running: Counter[str] = Counter()  # by client
        self._new: Counter[str] = Counter()  # by client: waiting requests without a started response
        self._queue: dict[asyncio.Future[None], str] = {}  # first come, first served

    async def run(self, scope: Scope, receive: Receive, work: Callable[[], T]) -> T:
        """Run the first work of a request. Raise `Unavailable` if too many wait, or `ClientDisconnected`."""
        client = client_of(scope)
        if not self._try_acquire(client):
            await self._wait_in_queue(client, receive)
        return await self._run_in_thread(client, work)

    async def run_more(self, scope: Scope, work: Callable[[], T]) -> T:
        """Run more work for a response that has started: it waits as long as needed and is never refused."""
        client = client_of(scope)
        if not self._try_acquire(client):
            await self._wait_for_slot(client)
        return await self._run_in_thread(client, work)

    def endpoint(self, answer: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint that runs `answer` in a thread."""

        async def run_answer(request: Request) -> Response:
            return await self.run(request.scope, request.receive, partial(answer, request))

        return run_answer

    async def stream(self, scope: Scope, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the body of a long response. Empty pieces only let others run and disconnects be noticed."""
        while (piece := await self.run_more(scope, partial(next, pieces, None))) is not None:
            if piece:
                yield piece

    def _try_acquire(self, client: str) -> bool:
        """Take a slot if one is free. Only clients at their own limit wait then, so nobody is overtaken."""
        is_free = self._busy < self._max_running and self._running[client] < self._per_client
        if is_free:
            self._busy += 1
            self._running[client] += 1
        return is_free

    async def _wait_in_queue(self, client: str, receive: Receive) -> None:
        if self._new.total() >= self._max_waiting or self._new[client] >= self._waiting_per_client:
            raise Unavailable("too many requests at once; try again", retry_after=2)
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
        """Wait until a slot is free."""
        turn = self._enqueue(client)
        try:
            await turn
        except asyncio.CancelledError:
            self._abandon(turn, client)
            raise

    def _enqueue(self, client: str) -> asyncio.Future[None]:
        """Join the queue at once: a slot freed before we wait would be lost otherwise."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue[turn] = client
        return turn

    def _abandon(self, turn: asyncio.Future[None], client: str) -> None:
        if self._queue.pop(turn, None) is None:  # a slot was assigned meanwhile
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
    """Change a count; drop clients with none."""
    counts[client] += by
    if not counts[client]:
        del counts[client]
