"""Messages that are worked on: their leases are extended for as long as that takes, and they are settled patiently."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from webmill.errors import Conflict, Unavailable
from webmill.infra.queue.base import Delivery
from webmill.infra.retry import BackoffPolicy, retrying

log = logging.getLogger(__name__)

BROKER = BackoffPolicy(attempts=6, first_wait=0.5, longest_wait=15.0)


class LeasedMessage:
    """A message that is ours, as long as its lease lasts."""

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        self._lost: Conflict | None = None

    def extend(self) -> None:
        try:
            self.delivery.extend()
        except Conflict as error:
            self._lost = error
        except Unavailable:
            pass  # the next beat, or the confirmation, will tell

    def check(self) -> None:
        """Conflict: stop, somebody else has it."""
        if self._lost:
            raise self._lost

    def confirm(self) -> None:
        """Ask the queue itself: a process that was stopped for an hour does not know it. Conflict, as in `check`."""
        self.check()
        retrying(self.delivery.extend, policy=BROKER)


class Leases:
    """A thread that extends what is held every `heartbeat` seconds; a lease must be longer."""

    def __init__(self, heartbeat: float) -> None:
        self._heartbeat = heartbeat
        self._held: set[LeasedMessage] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="webmill-leases", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def hold(self, delivery: Delivery) -> LeasedMessage:
        message = LeasedMessage(delivery)
        self._held.add(message)
        return message

    def release(self, message: LeasedMessage) -> None:
        self._held.discard(message)

    @contextmanager
    def holding(self, delivery: Delivery) -> Iterator[LeasedMessage]:
        message = self.hold(delivery)
        try:
            yield message
        finally:
            self.release(message)

    def _beat(self) -> None:
        """Work takes long when a server is slow or its turn is far: leases must not run out."""
        while not self._over.wait(self._heartbeat):
            for message in list(self._held):
                message.extend()


def settle(action: Callable[[], None]) -> None:
    """Where it does not arrive, the lease runs out and the message is handed out again: that changes nothing."""
    try:
        retrying(action, policy=BROKER)
    except (Conflict, Unavailable) as error:
        log.warning("a message was not settled", extra={"why": str(error)})
