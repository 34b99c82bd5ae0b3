"""A connection to RabbitMQ on an event loop in a thread of its own.

The caller stays synchronous and may work for an hour: heartbeats go on beside it. After a loss the next use connects
anew, after a pause that grows and is spread at random, so that a thousand workers do not come back in one moment.
Channels are never revived: whoever leased one notices and opens another, which is why there can be no double consumer.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import random
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

from webmill.errors import Misconfigured, Unavailable, WebmillError

try:
    import aiormq
    from aiormq.abc import AbstractChannel as Channel
    from aiormq.abc import AbstractConnection as Connection
    from aiormq.abc import DeliveredMessage
    from yarl import URL
except ImportError as missing:
    raise Misconfigured("RabbitMQ needs an extra: pip install 'webmill[rabbitmq]'") from missing

T = TypeVar("T")
__all__ = [
    "ANSWER_TIMEOUT",
    "BROKEN",
    "Channel",
    "Connection",
    "DeliveredMessage",
    "RabbitConnection",
    "aiormq",
    "pause_after",
    "unavailable",
]

ANSWER_TIMEOUT = 30.0  # seconds the broker has for any answer
CONNECT_TIMEOUT = 10.0
PAUSE = (0.1, 15.0)  # seconds between attempts to connect: from, to
# What aiormq lets out when a connection or channel is gone; RuntimeError is its "used after close".
BROKEN = (aiormq.AMQPError, OSError, TimeoutError, RuntimeError)


class RabbitConnection:
    """A connection that is replaced when it is lost. `prepare` runs on every new one before anybody may use it."""

    def __init__(self, url: str, *, heartbeat: int, prepare: Callable[[Connection], Awaitable[None]]):
        self._url = URL(url).update_query(heartbeat=str(heartbeat))
        self._prepare = prepare
        self._process = os.getpid()
        self._failures = 0
        self._not_before = 0.0
        self._connection: Connection | None = None
        self._loop = asyncio.new_event_loop()
        self._connecting = asyncio.Lock()
        self._thread = threading.Thread(target=self._loop.run_forever, name="webmill-rabbitmq", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[object, object, T]) -> T:
        """Run a coroutine on the loop and wait for its result. Every await inside has its own deadline."""
        if os.getpid() != self._process or self._loop.is_closed():
            work.close()
            raise Misconfigured(
                "a RabbitMQ queue is used in a forked process or after it was closed: open it there again"
            )
        if threading.current_thread() is self._thread:  # a forgotten generator, collected while the loop runs
            work.close()
            raise RuntimeError("the loop cannot wait for itself")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError as error:
            raise Unavailable("the connection to RabbitMQ was closed meanwhile") from error
        except BaseException:
            future.cancel()
            raise

    async def channel(self, *, confirms: bool) -> Channel:
        """Open a channel on the living connection. Unavailable: not now."""
        connection = await self._connected()
        try:
            return await connection.channel(
                publisher_confirms=confirms, on_return_raises=confirms, timeout=ANSWER_TIMEOUT
            )
        except BROKEN as error:
            raise unavailable(error) from error

    async def is_blocked(self) -> bool:
        """Return whether the broker accepts nothing for now: its memory or disk alarm is on."""
        if self._connection is None or self._connection.is_closed:
            return False
        try:
            async with asyncio.timeout(0):
                await self._connection.ready()
        except TimeoutError:
            return True
        return False

    def close(self) -> None:
        if self._loop.is_closed() or os.getpid() != self._process:
            return
        self.call(self._disconnect())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _connected(self) -> Connection:
        async with self._connecting:
            if self._connection is not None and not self._connection.is_closed:
                return self._connection
            await asyncio.sleep(self._not_before - self._loop.time())
            try:
                self._connection = await self._connect()
                self._failures = 0
            except Unavailable:
                self._failures += 1
                raise
            finally:
                self._not_before = self._loop.time() + pause_after(self._failures)
            return self._connection

    async def _connect(self) -> Connection:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                connection = await aiormq.connect(self._url)
            try:
                await self._prepare(connection)
            except BaseException:
                await connection.close()
                raise
        except BROKEN as error:
            raise connection_error(error, self._url) from error
        return connection

    async def _disconnect(self) -> None:
        if self._connection is not None and not self._connection.is_closed:
            await self._connection.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


def pause_after(failures: int) -> float:
    return random.uniform(0.5, 1.0) * min(PAUSE[1], PAUSE[0] * 2.0 ** min(failures, 10))  # noqa: S311  only spreading


def connection_error(error: BaseException, url: URL) -> WebmillError:
    where = url.with_user(None).with_query(None)
    match error:
        # an answer out of turn is how aiormq tells that the broker closed the door on a virtual host
        case aiormq.AuthenticationError() | aiormq.ProbableAuthenticationError() | aiormq.InvalidFrameError():
            return Misconfigured(f"RabbitMQ at {where} refuses us ({error}): check user, password and virtual host")
        case _:
            return Unavailable(f"RabbitMQ at {where} does not answer: {error!r}")


def unavailable(error: BaseException) -> Unavailable:
    return Unavailable(f"lost RabbitMQ: {error!r}")
