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

AT_ONCE, EACH = 8, 4
MOST_WAITING, WAITING_EACH = 64, 32


class ClientDisconnected(Exception):
    """The client has gone: there is nobody to answer."""


class BoundedThreads:
    """Counted in the loop's thread alone: no lock."""

    def __init__(
        self,
        *,
        at_once: int = AT_ONCE,
        each: int = EACH,
        most_waiting: int = MOST_WAITING,
        waiting_each: int = WAITING_EACH,
    ) -> None:
        self._at_once, self._each = at_once, each
        self._most_waiting, self._waiting_each = most_waiting, waiting_each
        self._limiter = CapacityLimiter(at_once)  # it never lets wait: those who come to it have a place
        self._busy = 0
        self._running: Counter[str] = Counter()  # by client
        self._new: Counter[str] = Counter()  # by client: how many of those who wait have no answer begun
        self._turns: dict[asyncio.Future[None], str] = {}  # in the order they came

    async def begin(self, scope: Scope, receive: Receive, work: Callable[[], T]) -> T:
        """Run the first work of a request. `Unavailable`: too many are waiting. `ClientDisconnected`: nobody waits for it."""
        client = client_of(scope)
        if not self._take(client):
            await self._queue(client, receive)
        return await self._run(client, work)

    async def go_on(self, scope: Scope, work: Callable[[], T]) -> T:
        """More work for an answer that has begun: it waits as long as it takes, and is never refused."""
        client = client_of(scope)
        if not self._take(client):
            await self._turn(client)
        return await self._run(client, work)

    def endpoint(self, answer: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
        """For a route."""

        async def asked(request: Request) -> Response:
            return await self.begin(request.scope, request.receive, partial(answer, request))

        return asked

    async def pieces(self, scope: Scope, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
        """The body of a long answer. Empty pieces are a chance for others, and for a client to leave."""
        while (piece := await self.go_on(scope, partial(next, pieces, None))) is not None:
            if piece:
                yield piece

    def _take(self, client: str) -> bool:
        """A place, if there is one. Who waits is of a client that may have no more: nobody is passed by."""
        is_free = self._busy < self._at_once and self._running[client] < self._each
        if is_free:
            self._busy += 1
            self._running[client] += 1
        return is_free

    async def _queue(self, client: str, receive: Receive) -> None:
        if self._new.total() >= self._most_waiting or self._new[client] >= self._waiting_each:
            raise Unavailable("too many are asking at once", retry_after=2)
        _add(self._new, client, 1)
        turn = self._line_up(client)
        gone = asyncio.ensure_future(wait_for_disconnect(receive))
        try:
            await asyncio.wait((turn, gone), return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                raise ClientDisconnected
        except BaseException:
            self._give_up(turn, client)
            raise
        finally:
            gone.cancel()
            _add(self._new, client, -1)

    async def _turn(self, client: str) -> None:
        """Until a place is ours."""
        turn = self._line_up(client)
        try:
            await turn
        except asyncio.CancelledError:
            self._give_up(turn, client)
            raise

    def _line_up(self, client: str) -> asyncio.Future[None]:
        """In the moment in which there was no place: one that gets free before we wait would be for nobody."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns[turn] = client
        return turn

    def _give_up(self, turn: asyncio.Future[None], client: str) -> None:
        if self._turns.pop(turn, None) is None:  # given in the same moment
            self._leave(client)

    async def _run(self, client: str, work: Callable[[], T]) -> T:
        try:
            return await to_thread.run_sync(work, limiter=self._limiter)
        finally:
            self._leave(client)

    def _leave(self, client: str) -> None:
        _add(self._running, client, -1)
        self._busy -= 1
        for turn, waiting in [*self._turns.items()]:
            if self._busy == self._at_once:
                break
            if not turn.done() and self._take(waiting):
                del self._turns[turn]
                turn.set_result(None)


async def wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _add(counts: Counter[str], client: str, by: int) -> None:
    """Nobody is remembered who has nothing here."""
    counts[client] += by
    if not counts[client]:
        del counts[client]
