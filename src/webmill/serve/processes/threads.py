"""Blocking work in threads, with limits: how many run, how many per client, how many wait (`FairSlots`).

The only way from the event loop to a disk, a search engine or a long computation. Running work cannot be stopped, so no
client may take all threads: others are answered while its slow queries run. Work of a client that disconnects while
waiting is not started.

There are few threads: those that compute share one interpreter with the event loop, which each of them keeps waiting.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from webmill.serve.guard.client_address import client_of
from webmill.serve.http.pause import pause_client
from webmill.serve.processes.fair_slots import PATIENCE, FairSlots, HeavyShare, Overloaded

T = TypeVar("T")

MAX_RUNNING, PER_CLIENT = 4, 2
MAX_WAITING, WAITING_PER_CLIENT = 256, 16
WAITING_COST = 1 / 8  # of a second of waiting for a disk or a server, beside one of computing
REFUSAL_PAUSE = 1.0  # seconds until more is read from a client that was refused


class BoundedThreads:
    """A pool of threads with limits. Used by the event loop's thread alone, so it needs no lock."""

    def __init__(
        self,
        *,
        max_running: int = MAX_RUNNING,
        per_client: int = PER_CLIENT,
        max_waiting: int = MAX_WAITING,
        waiting_per_client: int = WAITING_PER_CLIENT,
        patience: float = PATIENCE,
        share: HeavyShare | None = None,
    ) -> None:
        """`share`: threads of several kinds that clients share which have used much."""
        self._limiter = CapacityLimiter(max_running)  # never blocks: a slot is acquired before
        self._slots = FairSlots(
            most=max_running,
            per_client=per_client,
            max_waiting=max_waiting,
            waiting_per_client=waiting_per_client,
            patience=patience,
            share=share,
        )

    async def run(self, scope: Scope, receive: Receive, work: Callable[[], T]) -> T:
        """Run the first work of a request. Raise `Overloaded` if too many wait, or `ClientDisconnected`."""
        client = client_of(scope)
        try:
            await self._slots.acquire(client, receive)
        except Overloaded:
            pause_client(scope, REFUSAL_PAUSE)
            raise
        return await self._run_in_thread(client, work)

    async def run_more(self, scope: Scope, work: Callable[[], T]) -> T:
        """Run more work for a response that has started: it waits as long as needed and is never refused."""
        client = client_of(scope)
        await self._slots.acquire_more(client)
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

    async def _run_in_thread(self, client: str, work: Callable[[], T]) -> T:
        """Run the work and charge the client for what it has computed: it may have waited for others meanwhile."""
        began, computed = time.monotonic(), 0.0

        def run_measured() -> T:
            nonlocal computed
            before = time.thread_time()
            try:
                return work()
            finally:
                computed = time.thread_time() - before

        try:
            return await to_thread.run_sync(run_measured, limiter=self._limiter)
        finally:
            self._slots.release(client, max(computed, WAITING_COST * (time.monotonic() - began)))
