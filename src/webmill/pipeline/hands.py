"""Threads that take messages from a queue, hold them while they are worked, and settle them.

A message in hand is extended as long as its work takes. A queue that is out of reach is tried again, later and later.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from webmill.errors import Conflict, Unavailable
from webmill.infra.queue.base import Consumer, Delivery, Queue
from webmill.infra.retry import Policy, retrying

log = logging.getLogger(__name__)

GLANCE = 0.5  # seconds between two looks whether to stop
BROKER = Policy(attempts=6, first_wait=0.5, longest_wait=15.0)


class Hands:
    """`beat`: seconds between two extensions of what is in hand; a lease must be longer."""

    def __init__(self, *, beat: float) -> None:
        self._beat = beat
        self._held: set[Held] = set()
        self._failure: BaseException | None = None

    def run(self, works: Sequence[Callable[[], None]], *, glance: Callable[[], None] = lambda: None) -> None:
        """Each in a thread, until all have ended; `glance` now and then meanwhile. Raises the first failure of any."""
        hands = [
            threading.Thread(target=self._work, args=(work,), name=f"webmill-hand-{number}", daemon=True)
            for number, work in enumerate(works)
        ]
        idle = threading.Event()
        keeper = threading.Thread(target=self._keep, args=(idle,), name="webmill-keeper", daemon=True)
        for thread in (*hands, keeper):
            thread.start()
        try:
            while alive := [hand for hand in hands if hand.is_alive()]:
                alive[0].join(GLANCE)
                glance()
        except BaseException as error:
            self._failure = self._failure or error
            raise
        finally:
            for hand in hands:
                hand.join()
            idle.set()
            keeper.join()
        if self._failure:
            raise self._failure

    def deliveries(
        self, consumer: Consumer, *, stop: threading.Event, is_over: Callable[[], bool]
    ) -> Iterator[Delivery]:
        """Until `stop` is set, another hand has failed, or the queue gives nothing and `is_over` says so."""
        failures = 0
        while not stop.is_set() and not self._failure:
            try:
                delivery = consumer.receive(timeout=GLANCE)
                over = delivery is None and is_over()
                failures = 0
            except Unavailable as error:
                failures += 1
                log.warning("the queue is out of reach", extra={"why": str(error), "failures": failures})
                stop.wait(BROKER.wait(failures, retry_after=error.retry_after, random=1.0))
                continue
            if delivery:
                yield delivery
            elif over:
                return

    @contextmanager
    def holding(self, delivery: Delivery) -> Iterator[Held]:
        held = Held(delivery)
        self._held.add(held)
        try:
            yield held
        finally:
            self._held.discard(held)

    def _work(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits for us
            self._failure = self._failure or error  # and the other hands end after what they hold

    def _keep(self, idle: threading.Event) -> None:
        """Work takes long when a server is slow or its turn is far: leases must not run out."""
        while not idle.wait(self._beat):
            for held in list(self._held):
                held.extend()


class Held:
    """A message in our hands, as long as its lease lasts."""

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
        """Asks the queue itself: a process that was stopped for an hour does not know it."""
        self.check()
        retrying(self.delivery.extend, policy=BROKER)


def settle(action: Callable[[], None]) -> None:
    """Where it does not arrive, the lease runs out and the message is handed out again: that changes nothing."""
    try:
        retrying(action, policy=BROKER)
    except (Conflict, Unavailable) as error:
        log.warning("a message was not settled", extra={"why": str(error)})


def is_drained(queue: Queue) -> bool:
    """Nothing to hand out, now or later; a broker does not tell what other workers hold."""
    stats = queue.stats()
    return not (stats.ready or stats.leased or stats.delayed)
