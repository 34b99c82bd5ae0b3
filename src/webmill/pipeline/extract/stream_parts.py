"""Parts of a task whose messages come from a queue or stream.

    receive ─▶ documents ─▶ part ─▶ sink ─▶ receipt ─▶ acknowledge

A message is acknowledged when the part with its document is durable, and its receipt is. Killed between the two, it
comes again, perhaps after many others: the receipts have its id until then, and nothing is made of it a second time. A
shard of a stream goes on behind the position in its last receipt.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import NamedTuple

from webmill.errors import Unavailable
from webmill.extract.own_reader import MessageReader, Reading, message_error
from webmill.infra.sources.base import MessageShard, SourceMessage, StreamSource
from webmill.pipeline.extract.parts import TaskPart
from webmill.pipeline.extract.plan import StreamReading
from webmill.pipeline.extract.receipts import Receipt

SHARD = "SHARD"  # the file type of a task that is no file
MESSAGES = 1000  # of a part at most: so many are hidden from others until it is durable
SECONDS = 60.0  # after which a part is written, however few its messages are
COMES_AGAIN = 900.0  # seconds after which a message that was not deleted has come again: a lease is shorter


class StreamTask(NamedTuple):
    """A shard to read, who reads its messages, how, and what was done so far."""

    source: StreamSource
    shard: str
    reader: MessageReader
    how: StreamReading
    done: list[Receipt]


def stream_parts(
    work: StreamTask, *, new_part: Callable[[], TaskPart], progressed: Callable[[], None]
) -> Iterator[TaskPart]:
    """Yield parts until the shard is read to its end. What follows a yield happens when the part is durable."""
    last = work.done[-1] if work.done else None
    durable = DurableMessages(last.messages if last else (), now=time.monotonic())
    position = last.position if last else ""
    with closing(work.source.open(work.shard, after=position, since=work.how.since)) as shard:
        while True:
            part = new_part()
            messages = _fill(part, shard, work, durable, progressed)
            if not messages:  # asked after the last ones were deleted: a FIFO queue may hold more back until then
                return
            new = [message.id for message in messages if message.receipt]
            part.messages = (*new, *durable.unconfirmed(now=time.monotonic()))
            part.position = messages[-1].position
            shard.keep(messages)
            yield part
            shard.acknowledge(messages)
            durable.add(new, now=time.monotonic())


def _fill(
    part: TaskPart, shard: MessageShard, work: StreamTask, durable: DurableMessages, progressed: Callable[[], None]
) -> list[SourceMessage]:
    """Add messages until the part is full or old enough, or none comes; return them."""
    messages: list[SourceMessage] = []
    empty, began = 0, time.monotonic()
    while not (part.is_full() or part.is_full_of_errors() or len(messages) >= MESSAGES):
        found = shard.receive()
        progressed()
        shard.acknowledge([message for message in found if message.id in durable])
        durable.confirm(message.id for message in found)
        taken = {message.id for message in messages}  # a queue may deliver a message twice
        for message in found:
            if message.id not in durable and message.id not in taken:
                part.add_reading(read_message(work.reader, message))
                messages.append(message)
        empty = 0 if found else empty + 1
        if shard.ended or (empty >= work.how.empty_receives and not work.how.follow):
            break
        if messages and (empty or time.monotonic() - began > SECONDS):
            break
    return messages


class DurableMessages:
    """Messages whose documents are durable, for as long as they may come again. `unconfirmed` are those of earlier runs
    of which nobody knows whether they were deleted: each receipt passes them on.
    """

    def __init__(self, unconfirmed: Iterable[str], *, now: float) -> None:
        self._until = dict.fromkeys(unconfirmed, now + COMES_AGAIN)
        self._unconfirmed = set(self._until)

    def __contains__(self, id_: str) -> bool:
        return id_ in self._until

    def add(self, ids: Iterable[str], *, now: float) -> None:
        """Remember messages that were acknowledged, and forget those that cannot come again."""
        self._until = {id_: until for id_, until in self._until.items() if until > now}
        self._until |= dict.fromkeys(ids, now + COMES_AGAIN)

    def confirm(self, ids: Iterable[str]) -> None:
        """Note that messages have come again, and were acknowledged now."""
        self._unconfirmed.difference_update(ids)

    def unconfirmed(self, *, now: float) -> list[str]:
        return sorted(id_ for id_ in self._unconfirmed if self._until.get(id_, 0.0) > now)


def read_message(reader: MessageReader, message: SourceMessage) -> Reading:
    """Return what the reader makes of a message; an error record if it raises something."""
    try:
        return reader.read_message(message)
    except (MemoryError, Unavailable):
        raise
    except Exception as error:  # noqa: BLE001 - a message that breaks its reader costs that message only
        return message_error(message, f"{type(error).__name__}: {error}", reason="reader_failed")
