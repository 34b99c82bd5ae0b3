"""Changes of a frontier in Redis: each is one script, whole or not at all, made once, and only by the owner.

A change has a number that follows on the last one's, and a name that no other has. One whose answer was lost is sent
again as it was; it counts once. Should it still be on its way while another takes its number, only one of them counts,
and the other is told.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

import msgspec

from webmill.crawl.frontier.redis.server import Command, RedisServer, WriteRefused, encode_commands
from webmill.errors import Conflict, Misconfigured

NOT_THE_OWNER = "another process has opened this frontier: it goes on there"
WENT_BACK = "Redis has lost changes that it had made: open the frontier anew"

OnApplied = Callable[[], None]


class SentChange(msgspec.Struct):
    """Until its answer is there it is in doubt."""

    name: str
    blob: bytes
    then: OnApplied | None
    is_claim: bool  # not sent again: the caller has forgotten the turns; their leases run out if it counts after all


class ChangeSender:
    def __init__(self, server: RedisServer, meta: str, *, epoch: int, number: int) -> None:
        self._server, self._meta, self._epoch, self.number = server, meta, epoch, number
        self._in_doubt: SentChange | None = None

    @property
    def is_in_doubt(self) -> bool:
        return self._in_doubt is not None

    def make(self, commands: Sequence[Command], *, then: OnApplied | None, is_claim: bool) -> None:
        name = f"{self.number + 1}.{secrets.token_hex(4)}"
        self._in_doubt = SentChange(name, encode_commands(commands), then, is_claim)
        self._send(self._in_doubt)

    def settle_doubt(self) -> None:
        """Find out whether the last one counts."""
        sent = self._in_doubt
        if sent and sent.is_claim:
            last = self._last()
            if last != sent.name and change_number(last) != self.number:
                raise Conflict(WENT_BACK)
            self.number, self._in_doubt = change_number(last), None
        elif sent:
            self._send(sent)

    def _send(self, sent: SentChange) -> None:
        try:
            done = self._server.run("apply", keys=[self._meta], args=[self._epoch, sent.name, sent.blob])
        except (Misconfigured, WriteRefused):
            self._in_doubt = None
            raise
        self._in_doubt = None
        if done < 0:
            raise Conflict(WENT_BACK if done == -2 else NOT_THE_OWNER)
        self.number = change_number(sent.name)
        if sent.then:
            sent.then()

    def must_be_owner(self) -> None:
        """Raise Conflict unless this process is the owner: before files are touched that another may have."""
        self.settle_doubt()
        if int(self._server.ask("HGET", self._meta, "epoch") or 0) != self._epoch:
            raise Conflict(NOT_THE_OWNER)
        if change_number(self._last()) != self.number:
            raise Conflict(WENT_BACK)

    def _last(self) -> str:
        return (self._server.ask("HGET", self._meta, "change") or b"0").decode()


def change_number(name: str) -> int:
    return int(name.partition(".")[0])
