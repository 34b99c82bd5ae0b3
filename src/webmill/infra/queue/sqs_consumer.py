"""The worker's side of the SQS queue: what is received, held, and settled."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Self

from webmill.errors import Conflict, Unavailable
from webmill.infra.queue.base import lease_expired, worded
from webmill.infra.queue.sqs_desk import LONGEST_POLL, Desk, over
from webmill.infra.queue.sqs_letters import LONGEST_DELAY, Copy
from webmill.infra.sinks.sqs import ENTRIES

GLANCE = 0.1  # seconds between looks when less than a second is left, which SQS cannot wait


@dataclass
class Office:
    """The two queues, and what holds for all who work on them."""

    work: Desk
    grave: Desk
    max_attempts: int
    lease: float
    clock: Callable[[], float] = time.monotonic
    postponed: dict[str, float] = field(default_factory=dict)  # until when, by the copy's sequence

    def count_postponed(self) -> int:
        now = self.clock()
        return sum(until > now for until in list(self.postponed.values()))


class SqsDelivery:
    """`claim` is all that came with it, and is extended with it."""

    def __init__(self, consumer: SqsConsumer, copy: Copy, *, until: float, claim: list[SqsDelivery]) -> None:
        self.copy = copy
        self.claim = claim
        self.id = copy.id
        self.body = copy.body
        self.attempts = copy.carried + copy.lost + 1
        self.until = until
        self._consumer = consumer
        self._office = consumer.office

    def ack(self, result: bytes = b"") -> None:  # noqa: ARG002 - a broker forgets
        self.check()
        try:
            self._office.work.delete(self.copy)
        except Conflict:
            self._consumer.held.discard(self)
            raise
        self._consumer.held.discard(self)
        self._consumer.deleted(self.copy.receipt)

    def retry(self, reason: str, *, delay: float = 0.0) -> None:
        if self.attempts >= self._office.max_attempts:
            self.bury(reason)
        else:
            self._replace("retry", self._office.work, reason, delay=min(delay, LONGEST_DELAY))

    def bury(self, reason: str) -> None:
        self._replace("bury", self._office.grave, reason, buried=True)

    def extend(self) -> None:
        self.check()
        self._consumer.extend(self.claim)
        self.check()

    def give_back(self) -> None:
        """As it was: SQS would count an attempt."""
        self._office.work.send([self.copy.next("back", attempts=self.attempts - 1)])
        self.ack()

    def check(self) -> None:
        """SQS refuses what comes too late; its imitations do not, and we know as well as they when a lease ends."""
        if self not in self._consumer.held or self._office.clock() >= self.until:
            self._consumer.held.discard(self)
            raise over(self.id)

    def _replace(self, verb: str, to: Desk, reason: str, **changes: object) -> None:
        """Never the other way round: deleted first, a crash would lose it."""
        self.extend()
        errors = {"first_error": self.copy.first_error or worded(reason), "last_error": worded(reason)}
        to.send([self.copy.next(verb, attempts=self.attempts, **errors, **changes)])
        self.ack()


class SqsConsumer:
    """`prefetch` is at most 10, what one answer of SQS can hold. 0: it asks for nothing, and has what it was given."""

    def __init__(self, office: Office, *, prefetch: int, deleted: Callable[[str], None] = lambda _: None) -> None:
        self.office = office
        self.held: set[SqsDelivery] = set()
        self.deleted = deleted
        self._prefetch = min(prefetch, ENTRIES)
        self._longest_poll = min(LONGEST_POLL, int(office.lease / 3))  # the lease may have begun when the poll did
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
                time.sleep(min(max(left, 0.0), pause))
        return delivery

    def take(self, copies: Iterable[Copy], *, since: float) -> None:
        """Make deliveries of what has come; put off what came too early, bury what came too often."""
        claim: list[SqsDelivery] = []
        for copy in copies:
            delivery = SqsDelivery(self, copy, until=since + self.office.lease, claim=claim)
            claim.append(delivery)
            self.held.add(delivery)
            if copy.is_early:
                self._postpone(delivery)
            elif delivery.attempts > self.office.max_attempts:
                self._bury_used_up(delivery)
            else:
                self._ahead.append(delivery)

    def extend(self, claim: Iterable[SqsDelivery]) -> None:
        """All of it that is held, so that what was fetched ahead does not run out behind what is worked on."""
        asked = self.office.clock()
        deliveries = [delivery for delivery in claim if delivery in self.held]
        still = self.office.work.hold([delivery.copy for delivery in deliveries], self.office.lease)
        for delivery in deliveries:
            if delivery.copy.receipt in still:
                delivery.until = asked + self.office.lease
            else:
                self.held.discard(delivery)

    def close(self) -> None:
        while self._ahead:
            delivery = self._ahead.popleft()
            try:
                delivery.check()
                delivery.give_back()
            except Conflict:
                pass  # somebody has it already

    def _next(self) -> SqsDelivery | None:
        """Of what was fetched ahead, with a good part of its lease left."""
        while self._ahead:
            delivery = self._ahead[0]
            try:
                if delivery.until - self.office.clock() <= self.office.lease / 2:
                    delivery.extend()
            except Conflict:
                self._ahead.popleft()
                continue
            return self._ahead.popleft()
        return None

    def _fetch(self, wait: int, *, is_last: bool) -> float:
        """Ask once; how long to wait before the next time."""
        asked = self.office.clock()
        self.held -= {delivery for delivery in list(self.held) if delivery.until <= asked}  # nobody settled them
        try:
            copies = self.office.work.receive(count=self._prefetch, wait=wait, lease=self.office.lease)
            self.take(copies, since=asked)
        except Unavailable:
            self._failures += 1
            if is_last:
                raise
            return self.office.work.wait_after(self._failures)
        self._failures = 0
        return 0.0 if wait else GLANCE

    def _postpone(self, delivery: SqsDelivery) -> None:
        copy, now = delivery.copy, self.office.clock()
        self.held.discard(delivery)
        self.office.work.hold([copy], copy.early)
        self.office.postponed = {
            sequence: until for sequence, until in self.office.postponed.items() if until > now
        } | {copy.sequence: now + copy.early}

    def _bury_used_up(self, delivery: SqsDelivery) -> None:
        lost, delivery.attempts = delivery.copy.lost, self.office.max_attempts  # it is not handed out this time
        try:
            delivery.bury(lease_expired(lost))
        except Conflict:
            pass  # then whoever has it now buries it

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
