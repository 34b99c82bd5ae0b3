"""Sending to the queues of RabbitMQ that are one of ours: declared as the promises need them, confirmed one by one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec

from webmill.errors import Misconfigured, Unavailable
from webmill.infra.queue.letters import Arguments, Letter, close, count, declare, publish
from webmill.infra.queue.link import ANSWER, BROKEN, Channel, Connection, Link, aiormq, pause_after, unavailable

RUNGS = (1, 10, 60, 600, 3600)
# Looking at a buried message counts as a delivery; without a limit of its own RabbitMQ 4 loses it at the 21st look.
NO_LIMIT = 2**31 - 1
QUORUM: dict[str, str | int] = {"x-queue-type": "quorum"}
KEEP: dict[str, str | int] = {
    **QUORUM,
    "x-dead-letter-exchange": "",
    "x-dead-letter-strategy": "at-least-once",
    "x-overflow": "reject-publish",
}


class Post:
    """The queue of work, the buried, the delayed; safe to share between threads. All but `link` is for its loop."""

    def __init__(
        self, url: str, *, name: str, max_attempts: int, patience: float, heartbeat: int, newborn: float
    ) -> None:
        self.name = name
        self.grave = f"{name}.buried"
        self.max_attempts = max_attempts
        self._patience = patience
        self._newborn = newborn
        self._publisher: Channel | None = None
        self.link = Link(url, heartbeat=heartbeat, prepare=self._declare)
        try:
            self.link.call(self._publishing())
        except BaseException:
            self.link.close()
            raise

    def rung(self, seconds: int) -> str:
        return f"{self.name}.delay.{seconds}"

    async def send(self, letters: Sequence[Letter]) -> None:
        """Until each is confirmed. Unavailable when that takes too long."""
        deadline, failures = time.monotonic() + self._patience, 0
        while letters:
            try:
                letters = await self._send_once(letters)
            except Unavailable:
                if time.monotonic() > deadline:
                    raise
            failures += 1
            if letters and time.monotonic() > deadline:
                raise Unavailable(await self._why_unconfirmed(len(letters)))
            await asyncio.sleep(pause_after(failures) if letters else 0)

    async def delayed(self, letter: Letter, *, delay: float) -> Letter:
        seconds = next((rung for rung in RUNGS if rung >= delay), RUNGS[-1])
        async with self.channel() as channel:
            await self._declare_all(
                channel.connection, {self.rung(seconds): {"x-dead-letter-routing-key": self.name, **KEEP}}
            )
        return msgspec.structs.replace(letter, to=self.rung(seconds), expires=delay)

    @asynccontextmanager
    async def channel(self) -> AsyncIterator[Channel]:
        channel = await self.link.channel(confirms=False)
        try:
            yield channel
        except BROKEN as error:
            raise unavailable(error) from error
        finally:
            await close(channel)

    async def _send_once(self, letters: Sequence[Letter]) -> list[Letter]:
        """The ones that were not confirmed."""
        channel = await self._publishing()
        timeout = min(ANSWER, self._patience)
        sending = (publish(channel, letter, timeout=timeout) for letter in letters)
        answers = await asyncio.gather(*sending, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, aiormq.PublishError):
                raise Misconfigured(f"the queue {answer.args[1]} was deleted while in use: open it anew") from answer
            if isinstance(answer, BaseException) and not isinstance(answer, (*BROKEN, asyncio.CancelledError)):
                raise answer
        return [letter for letter, answer in zip(letters, answers, strict=True) if isinstance(answer, BaseException)]

    async def _why_unconfirmed(self, count: int) -> str:
        if await self.link.is_blocked():
            return f"RabbitMQ blocks publishers: its memory or disk alarm is on ({count} messages unconfirmed)"
        return f"RabbitMQ did not confirm {count} messages in {self._patience:g} s"

    async def _publishing(self) -> Channel:
        if self._publisher is None or self._publisher.is_closed:
            self._publisher = await self.link.channel(confirms=True)
        return self._publisher

    async def _declare(self, connection: Connection) -> None:
        limit = self.max_attempts - 1  # the broker hands out once more than its limit
        grave: Arguments = {**QUORUM, "x-delivery-limit": NO_LIMIT}
        work: Arguments = {**KEEP, "x-delivery-limit": limit, "x-dead-letter-routing-key": self.grave}
        await self._declare_all(connection, {self.grave: grave, self.name: work})

    async def _declare_all(self, connection: Connection, queues: Mapping[str, Arguments]) -> None:
        new = [name for name in queues if await count(connection, name) is None]
        for name, arguments in queues.items():
            await declare(connection, name, arguments)
        await asyncio.sleep(self._newborn if new else 0)
