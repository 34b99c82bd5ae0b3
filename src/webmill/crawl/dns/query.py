"""One name that servers are asked for: which replies are there, and which are still waited for."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping

from msgspec import Struct

from webmill.formats.dns import AAAA, NO_SUCH_NAME, A, DnsReply, encode_name, encode_question, mix_case

SECOND_WAIT = 0.5  # seconds for AAAA when A is known, or the other way round


class SentQuestion(Struct, eq=False):
    """A question that was sent to a server, and where its reply goes."""

    query: NameQuery
    kind: int
    question: bytes
    is_extended: bool = False
    number: int = 0  # of the try
    tries_over_tcp: int = 0


class NameQuery:
    """The questions for one name, to one server after the other. Replies of earlier servers count as well, if late."""

    def __init__(self, name: str, kinds: tuple[int, ...] = (A, AAAA)) -> None:
        self.name, self.kinds = name, kinds
        self.encoded = encode_name(name)
        self.replies: dict[int, DnsReply] = {}
        self.failures: dict[int, str] = {}  # of the server that was asked last, by kind
        self.tries = 0
        self.is_soft = True  # whether all failures so far may be over in a moment
        self.has_heard = False  # from any server, anything
        self._sent: list[tuple[MutableMapping[int, SentQuestion], int]] = []
        self._settled: asyncio.Future[None] | None = None
        self._second: asyncio.TimerHandle | None = None

    @property
    def missing(self) -> list[int]:
        return [kind for kind in self.kinds if kind not in self.replies]

    @property
    def is_conclusive(self) -> bool:
        """Tell whether something is known: an address, or that there is no such name."""
        return any(reply.addresses or reply.code == NO_SUCH_NAME for reply in self.replies.values())

    def question(self, kind: int, *, random: int) -> bytes:
        return encode_question(mix_case(self.encoded, random), kind)

    def note_sent(self, pending: MutableMapping[int, SentQuestion], number: int) -> None:
        """Remember where a reply is expected, to expect it no longer when the query ends."""
        self._sent.append((pending, number))

    def take(self, kind: int, reply: DnsReply) -> None:
        self.replies[kind], self.has_heard = reply, True
        self._look()

    def begin_try(self) -> None:
        """Forget what the server before has failed in."""
        self.tries += 1
        self.failures.clear()

    def fail(self, sent: SentQuestion, why: str, *, is_soft: bool = False) -> None:
        """Note that the server that was asked last has no reply."""
        if sent.number != self.tries:
            return
        self.failures[sent.kind] = why
        self.is_soft = self.is_soft and is_soft
        self._look()

    async def settled(self, seconds: float) -> None:
        """Wait until every missing reply has come or failed, or the time is over; not long for the second one."""
        if self._is_settled():
            return
        loop = asyncio.get_running_loop()
        self._settled = loop.create_future()
        timer = loop.call_later(seconds, self._wake)
        try:
            await self._settled
        finally:
            timer.cancel()
            if self._second:
                self._second.cancel()
            self._settled = self._second = None

    def close(self) -> None:
        for pending, number in self._sent:
            pending.pop(number, None)
        self._sent.clear()

    def _is_settled(self) -> bool:
        return all(kind in self.failures for kind in self.missing)

    def _look(self) -> None:
        if self._is_settled():
            self._wake()
        elif self._settled and self._second is None and self.is_conclusive:
            self._second = asyncio.get_running_loop().call_later(SECOND_WAIT, self._wake)

    def _wake(self) -> None:
        if self._settled and not self._settled.done():
            self._settled.set_result(None)
