"""The queue without servers of one's own: two FIFO queues of Amazon SQS.

    sqs://[KEY:SECRET@]NAME.fifo[?region=NAME][&endpoint=http://HOST:PORT][&proxy=URL][&max_bytes=N]

    NAME.fifo ──▶ worker
      └── too many receipts ──▶ NAME-buried.fifo ◀── bury(reason): sent before the message is deleted

Both are created when they are missing; otherwise their settings are checked, and NAME's redrive policy names the other.
Durable: SQS keeps a message for 14 days, a buried one for 14 days from its burial, and then forgets it.
Duplicates: every `publish` is a publication of its own, so nothing that is published again is swallowed by the five
minutes in which SQS drops what it has seen; it returns how many were sent. Within one call, and within one retry,
bury, give-back or requeue of one copy, the deduplication id is the same however often it is tried: a lost answer makes
no second message. A message that was published twice is two messages of one group, so they are never
leased by two processes at once; consumers suppress the second by its effect.
Groups: of one group, SQS hands out nothing more while some of it is leased. A message's group is its id,
so that none waits for another, or what `group_of` says.
`retry`, `bury` and `requeue` send the message anew and then delete the old copy, as only a new one can carry the
reason: broken off in between, the message is there twice, never not at all.
Leases: the visibility timeout, in whole seconds. SQS refuses to settle after it; we refuse by our own clock, too. An
answer of SQS that is lost on its way costs the messages in it an attempt. A lease can be extended for 12 hours.
Delays: FIFO queues have none for single messages. A message that is received before its time is made invisible for the
rest of it, once, by the first to receive it; who dies in that moment costs it an attempt and hands it out early.
11 hours at most.
Stats are what SQS says, approximate for a minute; what other processes have put off counts as leased.
Listing the dead letters hides them from others until the listing ends.
The role needs GetQueueUrl, GetQueueAttributes, SendMessage, ReceiveMessage, DeleteMessage and ChangeMessageVisibility
on both queues, and CreateQueue when they are missing.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from webmill.infra.queue.base import LEASE, MAX_ATTEMPTS, DeadLetter, Message, QueueOptions, QueueStats, check_messages
from webmill.infra.queue.sqs_client import SqsClient
from webmill.infra.queue.sqs_consumer import SqsConsumer, SqsQueues
from webmill.infra.queue.sqs_messages import (
    MessageCopy,
    SqsOutgoingMessage,
    check_outgoing,
    dead_letter_of,
    decode_lambda_record,
    hash_of,
)
from webmill.infra.queue.sqs_queue_pair import find_or_create
from webmill.infra.retry import BackoffPolicy, retrying
from webmill.infra.sinks.aws import PATIENCE, AwsAddress, connect
from webmill.infra.sinks.sqs import ENTRIES

DEAD_LETTER_LEASE = 600.0  # seconds that dead letters are hidden from others while they are listed


def open_sqs(url: str, options: QueueOptions) -> SqsQueue:
    """Open the queue that the address names, whatever the name in `options`."""
    return SqsQueue(url, max_attempts=options.attempts, lease=options.lease)


class SqsTiming(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait for SQS. `dead_letter_wait`: seconds for more dead letters, which it may not find at once."""

    patience: BackoffPolicy = PATIENCE
    dead_letter_wait: int = 1
    clock: Callable[[], float] = time.monotonic


class SqsQueue:
    """Safe to share between threads; every process opens its own."""

    def __init__(
        self,
        url: str,
        *,
        max_attempts: int = MAX_ATTEMPTS,
        max_bytes: int | None = None,
        lease: float = LEASE,
        group_of: Callable[[Message], str] = lambda message: message.id,
        timing: SqsTiming = SqsTiming(),  # noqa: B008 - it is frozen
    ) -> None:
        address = AwsAddress.from_url(url)
        self._group_of = group_of
        self._timing = timing
        self._client = connect(address)
        try:
            pair = retrying(
                lambda: find_or_create(self._client, address, max_attempts=max_attempts, lease=lease),
                policy=timing.patience,
            )
        except BaseException:
            self._client.close()
            raise
        self._message_limit = pair.max_bytes
        self._max_bytes = self._message_limit if max_bytes is None else max_bytes
        work, dead_letters = (
            SqsClient(self._client, address, url, patience=timing.patience) for url in (pair.work, pair.dead_letters)
        )
        self._queues = SqsQueues(work, dead_letters, max_attempts, lease, timing.clock)

    def publish(self, messages: Iterable[Message]) -> int:
        """Publish the messages. Unavailable: some of them may be in the queue; publish all again."""
        publication = uuid.uuid4().hex
        accepted = check_messages(messages, max_bytes=self._max_bytes)
        self._queues.work.send([self._outgoing(message, publication) for message in accepted])
        return len(accepted)

    def _outgoing(self, message: Message, publication: str) -> SqsOutgoingMessage:
        dedup, group = hash_of(message.id, publication), hash_of(self._group_of(message))
        outgoing = SqsOutgoingMessage(id=message.id, body=message.body, dedup=dedup, group=group)
        return check_outgoing(outgoing, max_bytes=self._message_limit)

    def consume(self, *, prefetch: int = 1) -> SqsConsumer:
        return SqsConsumer(self._queues, prefetch=prefetch)

    def consume_event(self, records: Iterable[Mapping[str, Any]], *, deleted: Callable[[str], None]) -> SqsConsumer:
        """Return a consumer of the records of a Lambda event, and of nothing else.

        `deleted` is called with the receipt of each that is done with: acked, buried, or sent anew.
        """
        consumer = SqsConsumer(self._queues, prefetch=0, deleted=deleted)
        copies = [decode_lambda_record(record) for record in records]
        asked = self._queues.clock()
        leased = self._queues.work.extend_leases(copies, self._queues.lease)  # Lambda does not say when they began
        consumer.take((copy for copy in copies if copy.receipt in leased), since=asked)
        return consumer

    def dead_letters(self) -> Iterator[DeadLetter]:
        listed: list[MessageCopy] = []
        try:
            for copy in self._receive_dead_letters():
                listed.append(copy)
                yield dead_letter_of(copy, max_attempts=self._queues.max_attempts)
        finally:
            self._queues.dead_letters.extend_leases(listed, 0)

    def requeue(self, ids: Iterable[str] | None = None) -> int:
        return self._remove_dead_letters(None if ids is None else set(ids), to=self._queues.work)

    def drop(self, ids: Iterable[str]) -> int:
        return self._remove_dead_letters(set(ids), to=None)

    def stats(self) -> QueueStats:
        work, dead_letters = self._queues.work.count(), self._queues.dead_letters.count()
        postponed = min(work.leased, self._queues.count_postponed())
        buried = dead_letters.ready + dead_letters.leased + dead_letters.delayed
        return QueueStats(work.ready, work.leased - postponed, work.delayed + postponed, buried)

    def close(self) -> None:
        self._client.close()

    def _receive_dead_letters(self) -> Iterator[MessageCopy]:
        def receive() -> list[MessageCopy]:
            wait = self._timing.dead_letter_wait
            return self._queues.dead_letters.receive(count=ENTRIES, wait=wait, lease=DEAD_LETTER_LEASE)

        while copies := retrying(receive, policy=self._timing.patience):
            yield from copies

    def _remove_dead_letters(self, ids: set[str] | None, *, to: SqsClient | None) -> int:
        """Remove these dead letters, sending each id once to `to`; the others become visible again at the end."""
        done: set[str] = set()
        others: list[MessageCopy] = []
        try:
            for copy in self._receive_dead_letters():
                if ids is not None and copy.id not in ids:
                    others.append(copy)
                    continue
                if to and copy.id not in done:
                    to.send([copy.next("requeue", first_error="", last_error="")])
                self._queues.dead_letters.delete(copy)
                done.add(copy.id)
        finally:
            self._queues.dead_letters.extend_leases(others, 0)
        return len(done)
