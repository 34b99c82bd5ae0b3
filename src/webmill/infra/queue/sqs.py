"""The queue without servers of one's own: two FIFO queues of Amazon SQS.

    sqs://[KEY:SECRET@]NAME.fifo[?region=NAME][&endpoint=http://HOST:PORT][&proxy=URL][&max_bytes=N]

    NAME.fifo ──▶ worker
      └── too many receipts ──▶ NAME-buried.fifo ◀── bury(reason): sent before the message is deleted

Both are made when they are not there; when they are, their settings are checked, and NAME's redrive policy names the
other one.
Durable: SQS keeps a message for 14 days, a buried one for 14 days from its burial, and then forgets it.
Duplicates: every `publish` is a publication of its own, so nothing that is published again is swallowed by the five
minutes in which SQS drops what it has seen; it returns how many were sent. Within one call, and within one retry,
bury, give-back or requeue of one copy, the deduplication id is the same however often it is tried: a lost answer makes
no second message. A message that was published twice is two messages of one group, so they are never in two processes'
hands at once; consumers suppress the second by its effect.
Groups: of one group, SQS hands out nothing more while some of it is in somebody's hands. A message's group is its id,
so that none waits for another, or what `group_of` says.
`retry`, `bury` and `requeue` send the message anew and then delete the old copy, as only a new one can carry the
reason: broken off in between, the message is there twice, never not at all.
Leases: the visibility timeout, in whole seconds. SQS refuses to settle after it; we refuse by our own clock, too. An
answer of SQS that is lost on its way costs the messages in it an attempt. A lease can be extended for 12 hours.
Delays: FIFO queues have none for single messages. A message that is received before its time is made invisible for the
rest of it, once, by the first to receive it; who dies in that moment costs it an attempt and hands it out early.
11 hours at most.
Stats are what SQS says, approximate for a minute; what other processes have put off counts as leased.
Looking at the buried hides them from others until the end of it.
The role needs GetQueueUrl, GetQueueAttributes, SendMessage, ReceiveMessage, DeleteMessage and ChangeMessageVisibility
on both queues, and CreateQueue when they are not there.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from webmill.infra.queue.base import LEASE, MAX_ATTEMPTS, DeadLetter, Message, QueueOptions, QueueStats, checked
from webmill.infra.queue.sqs_consumer import Office, SqsConsumer
from webmill.infra.queue.sqs_desk import Desk
from webmill.infra.queue.sqs_letters import Copy, Letter, check, copy_of_record, epitaph, mark_of
from webmill.infra.queue.sqs_pair import find_or_make
from webmill.infra.retry import BackoffPolicy, retrying
from webmill.infra.sinks.aws import PATIENCE, Address, connect
from webmill.infra.sinks.sqs import ENTRIES

LOOK = 600.0  # seconds that buried messages are hidden from others while one looks at them


def open_sqs(url: str, options: QueueOptions) -> SqsQueue:
    """The address names the queue itself."""
    return SqsQueue(url, max_attempts=options.attempts, lease=options.lease)


class SqsQueue:
    """Safe to share between threads; every process opens its own."""

    def __init__(
        self,
        url: str,
        *,
        max_attempts: int = MAX_ATTEMPTS,
        max_bytes: int | None = None,
        lease: float = LEASE,
        patience: BackoffPolicy = PATIENCE,
        look: int = 1,  # seconds to wait for more buried messages: SQS may have some that it did not find at once
        group_of: Callable[[Message], str] = lambda message: message.id,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        address = Address.from_url(url)
        self._look = look
        self._group_of = group_of
        self._patience = patience
        self._client = connect(address)
        try:
            pair = retrying(
                lambda: find_or_make(self._client, address, max_attempts=max_attempts, lease=lease), policy=patience
            )
        except BaseException:
            self._client.close()
            raise
        self._room = pair.max_bytes
        self._max_bytes = self._room if max_bytes is None else max_bytes
        work, grave = (Desk(self._client, address, url, patience=patience) for url in (pair.work, pair.grave))
        self._office = Office(work, grave, max_attempts, lease, clock)

    def publish(self, messages: Iterable[Message]) -> int:
        """Unavailable: some of them may be in the queue; publish all again."""
        publication = uuid.uuid4().hex
        accepted = checked(messages, max_bytes=self._max_bytes)
        letters = [self._letter(message, publication) for message in accepted]
        self._office.work.send(letters)
        return len(letters)

    def _letter(self, message: Message, publication: str) -> Letter:
        dedup, group = mark_of(message.id, publication), mark_of(self._group_of(message))
        return check(Letter(id=message.id, body=message.body, dedup=dedup, group=group), max_bytes=self._room)

    def consume(self, *, prefetch: int = 1) -> SqsConsumer:
        return SqsConsumer(self._office, prefetch=prefetch)

    def handed(self, records: Iterable[Mapping[str, Any]], *, deleted: Callable[[str], None]) -> SqsConsumer:
        """A consumer of the records of a Lambda event, and of nothing else. `deleted` is told the receipt of each that
        is done with: acked, buried, or sent anew.
        """
        consumer = SqsConsumer(self._office, prefetch=0, deleted=deleted)
        copies = [copy_of_record(record) for record in records]
        asked = self._office.clock()
        held = self._office.work.hold(copies, self._office.lease)  # when Lambda received them it does not say
        consumer.take((copy for copy in copies if copy.receipt in held), since=asked)
        return consumer

    def buried(self) -> Iterator[DeadLetter]:
        looked: list[Copy] = []
        try:
            for copy in self._in_grave():
                looked.append(copy)
                yield epitaph(copy, max_attempts=self._office.max_attempts)
        finally:
            self._office.grave.hold(looked, 0)

    def requeue(self, ids: Iterable[str] | None = None) -> int:
        return self._exhume(None if ids is None else set(ids), to=self._office.work)

    def drop(self, ids: Iterable[str]) -> int:
        return self._exhume(set(ids), to=None)

    def stats(self) -> QueueStats:
        work, grave = self._office.work.count(), self._office.grave.count()
        postponed = min(work.held, self._office.count_postponed())
        buried = grave.ready + grave.held + grave.delayed
        return QueueStats(work.ready, work.held - postponed, work.delayed + postponed, buried)

    def close(self) -> None:
        self._client.close()

    def _in_grave(self) -> Iterator[Copy]:
        def some() -> list[Copy]:
            return self._office.grave.receive(count=ENTRIES, wait=self._look, lease=LOOK)

        while copies := retrying(some, policy=self._patience):
            yield from copies

    def _exhume(self, ids: set[str] | None, *, to: Desk | None) -> int:
        """Take these out of the grave, each id once; the others are seen again at the end."""
        done: set[str] = set()
        others: list[Copy] = []
        try:
            for copy in self._in_grave():
                if ids is not None and copy.id not in ids:
                    others.append(copy)
                    continue
                if to and copy.id not in done:
                    to.send([copy.next("requeue", first_error="", last_error="")])
                self._office.grave.delete(copy)
                done.add(copy.id)
        finally:
            self._office.grave.hold(others, 0)
        return len(done)
