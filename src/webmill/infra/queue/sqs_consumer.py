"""The worker's side of the SQS queue: receive, lease and settle messages."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Self

from webmill.errors import Conflict, Unavailable
from webmill.infra import waiting
from webmill.infra.queue.base import clip_reason, lease_expired
from webmill.infra.queue.sqs_client import LONGEST_POLL, SqsClient, lease_over_error
from webmill.infra.queue.sqs_messages import LONGEST_DELAY, MessageCopy
from webmill.infra.sinks.sqs import ENTRIES

POLL_INTERVAL = 0.1  # seconds between polls when less than a second is left, which SQS cannot wait


@dataclass
class SqsQueues:
    """The two queues, and the rules for all who work on them."""

    work: SqsClient
    dead_letters: SqsClient
    max_attempts: int
    lease: float
    clock: Callable[[], float] = time.monotonic
    postponed: dict[str, float] = field(default_factory=dict)  # until when, by the copy's sequence

    def count_postponed(self) -> int:
        now = self.clock()
        return sum(until > now for until in list(self.postponed.values()))


class SqsDelivery:
    """A leased message. `batch` is all that came with it, and is extended with it."""

    def __init__(self, consumer: SqsConsumer, copy: MessageCopy, *, until: float, batch: list[SqsDelivery]) -> None:
        self.copy = copy
        self.batch = batch
        self.id = copy.id
        self.body = copy.body
        self.attempts = copy.carried + copy.lost + 1
        self.until = until
        self._consumer = consumer
        self._queues = consumer.queues

    def ack(self, result: bytes = b"") -> None:  # noqa: ARG002 - a broker forgets
        self.check()
        try:
            self._queues.work.delete(self.copy)
        except Conflict:
            self._consumer.leased.discard(self)
            raise
        self._consumer.leased.discard(self)
        self._consumer.deleted(self.copy.receipt)

    def retry(self, reason: str, *, delay: float = 0.0) -> None:
        if self.attempts >= self._queues.max_attempts:
            self.bury(reason)
        else:
            self._replace("retry", self._queues.work, reason, delay=min(delay, LONGEST_DELAY))

    def bury(self, reason: str) -> None:
        self._replace("bury", self._queues.dead_letters, reason, buried=True)

    def extend(self) -> None:
        self.check()
        self._consumer.extend(self.batch)
        self.check()

    def give_back(self) -> None:
        """Return it as it was; if its lease just ended, SQS would count an attempt."""
        self._queues.work.send([self.copy.next("back", attempts=self.attempts - 1)])
        self.ack()

    def check(self) -> None:
        """Raise Conflict when the lease is over. SQS refuses late calls itself, but its emulators do not."""
        if self not in self._consumer.leased or self._queues.clock() >= self.until:
            self._consumer.leased.discard(self)
            raise lease_over_error(self.id)

    def _replace(self, verb: str, to: SqsClient, reason: str, **changes: object) -> None:
        """Send the successor, then delete: the other way round a crash would lose the message."""
        self.extend()
        errors = {"first_error": self.copy.first_error or clip_reason(reason), "last_error": clip_reason(reason)}
        to.send([self.copy.next(verb, attempts=self.attempts, **errors, **changes)])
        self.ack()


class SqsConsumer:
    """`prefetch` is at most 10, what one answer of SQS can hold; with 0 it only has what `take` is given."""

    def __init__(self, queues: SqsQueues, *, prefetch: int, deleted: Callable[[str], None] = lambda _: None) -> None:
        self.queues = queues
        self.leased: set[SqsDelivery] = set()
        self.deleted = deleted
        self._prefetch = min(prefetch, ENTRIES)
        self._longest_poll = min(LONGEST_POLL, int(queues.lease / 3))  # the lease may have begun when the poll did
        self._ahead: deque[SqsDelivery] = deque()
        self._failures = 0

    def receive(self, *, timeout: float) -> SqsDelivery | None:
        deadline = time.monotonic() + timeout
        while (delivery := self._next()) is None:
            if not self._prefetch:
                return None
            left = deadline - time.monotonic()
            wait = min(self._longest_poll, max(0, int(left)))
            pause = self._fetch(wait, is_last=left <= 0)
            if not self._ahead and left <= 0:
                return None
            if not self._ahead and pause:
                waiting.sleep(min(max(left, 0.0), pause))
        return delivery

    def take(self, copies: Iterable[MessageCopy], *, since: float) -> None:
        """Make deliveries of what has come; postpone what came too early, bury what came too often."""
        batch: list[SqsDelivery] = []
        for copy in copies:
            delivery = SqsDelivery(self, copy, until=since + self.queues.lease, batch=batch)
            batch.append(delivery)
            self.leased.add(delivery)
            if copy.is_early:
                self._postpone(delivery)
            elif delivery.attempts > self.queues.max_attempts:
                self._bury_exhausted(delivery)
            else:
                self._ahead.append(delivery)

    def extend(self, batch: Iterable[SqsDelivery]) -> None:
        """Extend all of a batch that is still leased, so that messages fetched ahead do not expire meanwhile."""
        asked = self.queues.clock()
        deliveries = [delivery for delivery in batch if delivery in self.leased]
        still = self.queues.work.extend_leases([delivery.copy for delivery in deliveries], self.queues.lease)
        for delivery in deliveries:
            if delivery.copy.receipt in still:
                delivery.until = asked + self.queues.lease
            else:
                self.leased.discard(delivery)

    def close(self) -> None:
        while self._ahead:
            delivery = self._ahead.popleft()
            try:
                delivery.check()
                delivery.give_back()
            except Conflict:
                pass  # another worker has it already

    def _next(self) -> SqsDelivery | None:
        """Return the next message that was fetched ahead, with at least half of its lease left."""
        while self._ahead:
            delivery = self._ahead[0]
            try:
                if delivery.until - self.queues.clock() <= self.queues.lease / 2:
                    delivery.extend()
            except Conflict:
                self._ahead.popleft()
                continue
            return self._ahead.popleft()
        return None

    def _fetch(self, wait: int, *, is_last: bool) -> float:
        """Poll once; return how long to wait before the next time."""
        asked = self.queues.clock()
        self.leased -= {delivery for delivery in list(self.leased) if delivery.until <= asked}  # nobody settled them
        try:
            copies = self.queues.work.receive(count=self._prefetch, wait=wait, lease=self.queues.lease)
            self.take(copies, since=asked)
        except Unavailable:
            self._failures += 1
            if is_last:
                raise
            return self.queues.work.wait_after(self._failures)
        self._failures = 0
        return 0.0 if wait else POLL_INTERVAL

    def _postpone(self, delivery: SqsDelivery) -> None:
        copy, now = delivery.copy, self.queues.clock()
        self.leased.discard(delivery)
        self.queues.work.extend_leases([copy], copy.early)
        self.queues.postponed = {
            sequence: until for sequence, until in self.queues.postponed.items() if until > now
        } | {copy.sequence: now + copy.early}

    def _bury_exhausted(self, delivery: SqsDelivery) -> None:
        lost, delivery.attempts = delivery.copy.lost, self.queues.max_attempts  # it is not delivered this time
        try:
            delivery.bury(lease_expired(lost))
        except Conflict:
            pass  # then whoever has it now buries it

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
