"""The source seam: messages that are read until they are acknowledged.

Guarantees
- A message is handed out until it was acknowledged (a queue), or from the position on that the caller has kept (a
  stream). So one may come twice: the caller recognises it by its id, or by its position.
- Nothing is acknowledged but by `acknowledge`: call it when all that was made of the messages is durable.
- `shards` are what can be read side by side; a shard that appears later is found by asking again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec


class SourceMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message. `key` is its group or partition key, `position` where it is in a stream, `sent` seconds since 1970.

    `receipt` is what acknowledges it, where the source wants that.
    """

    id: str
    body: bytes
    source: str = ""  # the queue's or stream's name
    shard: str = ""
    key: str = ""
    deduplication_id: str = ""
    position: str = ""
    attributes: dict[str, str] = {}
    sent: float = 0.0
    receipt: str = ""


class MessageShard(Protocol):
    @property
    def ended(self) -> bool:
        """Return whether the shard is closed and has been read to its end."""

    def receive(self) -> list[SourceMessage]:
        """Return the next messages, or none when none came within about a second. Unavailable: ask again later."""

    def keep(self, messages: Sequence[SourceMessage]) -> None:
        """Hide the messages from other readers for some minutes more."""

    def acknowledge(self, messages: Sequence[SourceMessage]) -> None:
        """Forget the messages: what was made of them is durable."""

    def close(self) -> None: ...


class StreamSource(Protocol):
    def shards(self) -> list[str]: ...

    def open(self, shard: str, *, after: str, since: float) -> MessageShard:
        """Read a shard behind the position `after`; without one, what came `since` (seconds since 1970; 0: all)."""

    def close(self) -> None: ...
