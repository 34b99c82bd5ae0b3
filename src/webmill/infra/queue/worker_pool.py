"""Threads that take messages from a queue, extend their leases during the work, and settle them.

A queue that is unreachable is tried again, with growing pauses.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from webmill.errors import Unavailable
from webmill.infra.queue.base import Consumer, Delivery
from webmill.infra.queue.leases import BROKER, LeasedMessage, Leases

log = logging.getLogger(__name__)

POLL_INTERVAL = 0.5  # seconds between two checks whether to stop


class WorkerPool:
    """`heartbeat`: seconds between two extensions of the leases; a lease must be longer."""

    def __init__(self, *, heartbeat: float) -> None:
        self._leases = Leases(heartbeat)
        self._failure: BaseException | None = None

    def run(self, works: Sequence[Callable[[], None]], *, also: Callable[[], None] = lambda: None) -> None:
        """Run each in a thread until all have ended, calling `also` now and then. Raise the first failure of any."""
        threads = [
            threading.Thread(target=self._work, args=(work,), name=f"webmill-worker-{number}", daemon=True)
            for number, work in enumerate(works)
        ]
        with self._leases:
            for thread in threads:
                thread.start()
            try:
                while alive := [thread for thread in threads if thread.is_alive()]:
                    alive[0].join(POLL_INTERVAL)
                    also()
            except BaseException as error:
                self._failure = self._failure or error
                raise
            finally:
                for thread in threads:
                    thread.join()
        if self._failure:
            raise self._failure

    def deliveries(
        self, consumer: Consumer, *, stop: threading.Event, is_over: Callable[[], bool]
    ) -> Iterator[Delivery]:
        """Yield messages until `stop` is set, another worker has failed, or none comes and `is_over` is true."""
        failures = 0
        while not stop.is_set() and not self._failure:
            try:
                delivery = consumer.receive(timeout=POLL_INTERVAL)
                over = delivery is None and is_over()
                failures = 0
            except Unavailable as error:
                failures += 1
                log.warning("the queue is unreachable", extra={"why": str(error), "failures": failures})
                stop.wait(BROKER.wait(failures, retry_after=error.retry_after, random=1.0))
                continue
            if delivery:
                yield delivery
            elif over:
                return

    def lease(self, delivery: Delivery) -> AbstractContextManager[LeasedMessage]:
        """Extend the lease of a message while the block runs."""
        return self._leases.leased(delivery)

    def _work(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits for us
            self._failure = self._failure or error  # and the others end after their message
