"""Durable messages between the shards of a crawl: links that belong to another shard, and commands from a person.

Every shard has an inbox. Anyone may publish into it; the shard's owner reads, makes the content durable in its own
frontier, and deletes. A message that was read and not deleted comes again, which does no harm: its links are known.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from webmill.crawl.frontier.base import domain_of
from webmill.crawl.scheduler.commands import ShardCommand
from webmill.errors import BadInput, Conflict
from webmill.infra.queue.base import Message
from webmill.infra.queue.sqlite import SqliteConsumer, SqliteDelivery, SqliteQueue
from webmill.model import Link

MESSAGES_AT_ONCE = 16
LINKS_PER_MESSAGE = 5_000  # 10 MB where each is as long as may be

_decode: Callable[[bytes], list[Link] | ShardCommand] = msgspec.msgpack.Decoder(list[Link] | ShardCommand).decode
MAX_ATTEMPTS = 1_000_000  # a message is never given up: it holds links, not work
COPY_FOLDER, HOLD_FILE = "backup", "hold"
HOLD_SECONDS = 180.0  # seconds for which messages are held after the last sign of life


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
    return shard_of_domain(domain_of(url), shards)


def shard_of_domain(domain: str, shards: int) -> int:
    return int.from_bytes(hashlib.blake2b(domain.encode(), digest_size=8).digest()) % shards


def group_by_shard(links: Iterable[Link], shards: int) -> dict[int, list[Link]]:
    """Return each shard's links, every URL once."""
    grouped: dict[int, dict[str, Link]] = {}
    for link in links:
        grouped.setdefault(shard_of(link.url, shards), {}).setdefault(link.url, link)
    return {shard: list(urls.values()) for shard, urls in grouped.items()}


class SqliteInbox:
    def __init__(self, file: Path) -> None:
        self._queue = SqliteQueue(file, max_attempts=MAX_ATTEMPTS)
        self._consumer: SqliteConsumer | None = None
        self._leased: dict[str, SqliteDelivery] = {}

    def publish(self, bodies: Sequence[bytes]) -> None:
        self._queue.publish(Message(uuid.uuid4().hex, body) for body in bodies)

    def read(self, count: int) -> list[InboxMessage]:
        if self._consumer is None:
            self._queue.end_leases()  # no earlier owner lives: what they leased may be read again
            self._consumer = self._queue.consume(prefetch=count)
        while len(self._leased) < count and (delivery := self._consumer.receive(timeout=0)):
            self._leased[delivery.id] = delivery
        return [InboxMessage(delivery.id, delivery.body) for delivery in self._leased.values()]

    def delete(self, messages: Sequence[InboxMessage]) -> None:
        for message in messages:
            try:
                self._leased.pop(message.id).ack()
            except Conflict:  # its lease ran out: it comes again
                pass

    def is_empty(self) -> bool:
        stats = self._queue.stats()
        return not (stats.ready or stats.leased or stats.delayed)

    def close(self) -> None:
        if self._consumer:
            self._consumer.close()
        self._queue.close()


class PausableInbox:
    """A shard's inbox that gives no messages while the crawl is being copied and this shard's part is done."""

    def __init__(self, inbox: ShardInbox, file: Path) -> None:
        self._inbox = inbox
        backup = file.parent / COPY_FOLDER
        self._copy, self._hold = backup / f"shard-{file.stem.removeprefix('mail-')}", backup / HOLD_FILE

    def publish(self, bodies: Sequence[bytes]) -> None:
        self._inbox.publish(bodies)

    def read(self, count: int) -> list[InboxMessage]:
        return [] if self._is_paused() else self._inbox.read(count)

    def delete(self, messages: Sequence[InboxMessage]) -> None:
        self._inbox.delete(messages)

    def is_empty(self) -> bool:
        return self._inbox.is_empty()

    def close(self) -> None:
        self._inbox.close()

    def _is_paused(self) -> bool:
        try:
            return self._copy.exists() and time.time() - self._hold.stat().st_mtime < HOLD_SECONDS
        except OSError:
            return False


class PausableInboxOpener:
    """Opens inboxes as held ones. It travels to the processes of a crawl."""

    def __init__(self, open_inbox: Callable[[Path], ShardInbox]) -> None:
        self._open = open_inbox

    def __call__(self, file: Path) -> ShardInbox:
        return PausableInbox(self._open(file), file)
