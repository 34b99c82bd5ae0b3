"""Durable messages between the shards of a crawl: links that belong to another shard, and commands from a person.

Every shard has an inbox. Anyone may publish into it; the shard's owner reads, makes the content durable in its own
frontier, and deletes. A message that was read and not deleted comes again, which does no harm: its links are known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from webmill.crawl.frontier.base import domain_of
from webmill.crawl.scheduler.commands import ShardCommand
from webmill.errors import BadInput
from webmill.model import Link

MESSAGES_AT_ONCE = 16
LINKS_PER_MESSAGE = 5_000  # 10 MB where each is as long as may be

_decode: Callable[[bytes], list[Link] | ShardCommand] = msgspec.msgpack.Decoder(list[Link] | ShardCommand).decode


class InboxMessage(msgspec.Struct, frozen=True):
    id: str
    body: bytes


class ShardInbox(Protocol):
    """The messages for one shard. A message stays until it is deleted, whoever has read it."""

    def publish(self, bodies: Sequence[bytes]) -> None:
        """Add messages. They are durable on return."""
        ...

    def read(self, count: int) -> list[InboxMessage]:
        """Return the oldest messages. Only for the owner, who deletes them before reading again."""
        ...

    def delete(self, messages: Sequence[InboxMessage]) -> None: ...

    def is_empty(self) -> bool: ...

    def close(self) -> None: ...


class ShardMessages:
    """The messages of one shard: reads its own inbox, and writes to the inboxes of the others when first needed.

    What is sent is durable in the other's inbox when `send` returns. What was received must be acknowledged once it is
    durable here; until then it is received again.
    """

    def __init__(self, inboxes: Sequence[Path], shard: int, *, open_inbox: Callable[[Path], ShardInbox]) -> None:
        self._paths, self._open = inboxes, open_inbox
        self._others: dict[int, ShardInbox] = {}
        self._inbox = open_inbox(inboxes[shard])
        self._received: list[tuple[InboxMessage, list[Link] | ShardCommand]] = []

    def send(self, shard: int, links: Sequence[Link]) -> None:
        if shard not in self._others:
            self._others[shard] = self._open(self._paths[shard])
        publish_links(self._others[shard], links)

    def receive_links(self) -> list[Link]:
        """Return the links of all messages that are not acknowledged yet."""
        if not self._received:
            self._received = [(message, decode_message(message)) for message in self._inbox.read(MESSAGES_AT_ONCE)]
        return [link for _, content in self._received if isinstance(content, list) for link in content]

    def received_commands(self) -> list[ShardCommand]:
        """Return the commands among the messages that were received."""
        return [content for _, content in self._received if not isinstance(content, list)]

    def acknowledge(self) -> None:
        """Delete what was received."""
        if self._received:
            self._inbox.delete([message for message, _ in self._received])
            self._received = []

    def is_empty(self) -> bool:
        return not self._received and self._inbox.is_empty()

    def close(self) -> None:
        for inbox in (self._inbox, *self._others.values()):
            inbox.close()


def publish_links(inbox: ShardInbox, links: Sequence[Link]) -> None:
    messages = (links[start : start + LINKS_PER_MESSAGE] for start in range(0, len(links), LINKS_PER_MESSAGE))
    inbox.publish([msgspec.msgpack.encode(message) for message in messages])


def publish_command(inbox: ShardInbox, command: ShardCommand) -> None:
    """Publish a command. The shard's owner applies it after everything that was published before it."""
    inbox.publish([msgspec.msgpack.encode(command)])


def decode_message(message: InboxMessage) -> list[Link] | ShardCommand:
    try:
        return _decode(message.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:  # tampered with
        raise BadInput(f"message {message.id}: {error}", reason="bad_letter") from error


def shard_of(url: str, shards: int) -> int:
    """Return the shard that owns the URL's domain: the same on every machine and for every version, for ever."""
    return int.from_bytes(hashlib.blake2b(domain_of(url).encode(), digest_size=8).digest()) % shards


def group_by_shard(links: Iterable[Link], shards: int) -> dict[int, list[Link]]:
    """Return each shard's links, every URL once."""
    grouped: dict[int, dict[str, Link]] = {}
    for link in links:
        grouped.setdefault(shard_of(link.url, shards), {}).setdefault(link.url, link)
    return {shard: list(urls.values()) for shard, urls in grouped.items()}
