"""Leases of messages in work: extended for as long as the work takes, and settled with retries."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from webmill.errors import Conflict, Unavailable
from webmill.infra.queue.base import Delivery
from webmill.infra.retry import BackoffPolicy, retrying
from webmill.infra.ticker import Ticker

log = logging.getLogger(__name__)

BROKER = BackoffPolicy(attempts=6, first_wait=0.5, longest_wait=15.0)


class LeasedMessage:
    """A message that is ours as long as its lease lasts."""

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        self._lost: Conflict | None = None

    def extend(self) -> None:
        try:
            self.delivery.extend()
        except Conflict as error:
            self._lost = error
        except Unavailable:
            pass  # the next heartbeat, or `confirm`, will tell

    def check(self) -> None:
        """Raise Conflict when the lease was lost: another worker has the message."""
        if self._lost:
            raise self._lost

    def confirm(self) -> None:
        """Ask the queue itself: a process that was suspended for an hour does not know. Conflict, as in `check`."""
        self.check()
        retrying(self.delivery.extend, policy=BROKER)


class Leases:
    """The leases of messages in work. While the block runs, all are extended every `heartbeat` seconds."""

    def __init__(self, heartbeat: float) -> None:
        self._messages: set[LeasedMessage] = set()
        self._ticker = Ticker(heartbeat, self._extend_all, name="leases")

    def __enter__(self) -> Self:
        self._ticker.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._ticker.__exit__()

    def add(self, delivery: Delivery) -> LeasedMessage:
        message = LeasedMessage(delivery)
        self._messages.add(message)
        return message

    def remove(self, message: LeasedMessage) -> None:
        self._messages.discard(message)

    @contextmanager
    def leased(self, delivery: Delivery) -> Iterator[LeasedMessage]:
        message = self.add(delivery)
        try:
            yield message
        finally:
            self.remove(message)

    def _extend_all(self) -> None:
        """Extend the leases: work takes long when a server is slow or rate limited."""
        for message in list(self._messages):
            message.extend()


def settle(action: Callable[[], None]) -> None:
    """Settle a message with retries. Where that fails, the lease expires and the message is delivered again."""
    try:
        retrying(action, policy=BROKER)
    except (Conflict, Unavailable) as error:
        log.warning("a message was not settled", extra={"why": str(error)})
