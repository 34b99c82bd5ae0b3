"""Threads that process the messages of a queue.

A message that a worker has received has cost an attempt, whether it was worked on or not. So a thread receives only
what it processes at once: one thread at a time receives, and none while another's message is processed alone.

A suspect message, which may kill the process, is processed alone: its thread waits until the others have settled
theirs, and lets none receive until it is done. If the process dies, only that message has lost an attempt.

A queue that is unreachable is tried again, with growing pauses.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Protocol

from webmill.errors import Unavailable
from webmill.infra.queue.base import Consumer, Delivery
from webmill.infra.queue.leases import BROKER, LeasedMessage, Leases

log = logging.getLogger(__name__)

POLL_INTERVAL = 0.5  # seconds between two checks whether to stop


class MessageSource(Protocol):
    """A queue, or what a queue has handed out."""

    def consume(self) -> Consumer: ...


class WorkerPool:
    """`heartbeat`: seconds between two extensions of the leases; a lease must be longer."""

    def __init__(
        self,
        source: MessageSource,
        process: Callable[[LeasedMessage], None],
        *,
        threads: int,
        heartbeat: float,
        is_suspect: Callable[[Delivery], bool] = lambda _: False,
    ) -> None:
        self._source, self._process, self._threads, self._is_suspect = source, process, threads, is_suspect
        self._leases = Leases(heartbeat)
        self._receiving = threading.Lock()
        self._active = 0  # threads that receive or process
        self._changed = threading.Condition()
        self._is_over = False
        self._failure: BaseException | None = None

    def run(self, *, stop: threading.Event, is_over: Callable[[], bool]) -> None:
        """Process messages until `stop` is set, or none comes, none is in work and `is_over` is true.

        The first failure of any thread ends them all after their message, and is raised.
        """
        threads = [
            threading.Thread(target=self._work, args=(stop, is_over), name=f"webmill-worker-{number}", daemon=True)
            for number in range(self._threads)
        ]
        with self._leases:
            for thread in threads:
                thread.start()
            try:
                for thread in threads:
                    thread.join()
            except BaseException as error:
                self._failure = self._failure or error
                raise
            finally:
                for thread in threads:
                    thread.join()
        if self._failure:
            raise self._failure

    def _work(self, stop: threading.Event, is_over: Callable[[], bool]) -> None:
        try:
            with self._source.consume() as consumer:
                while self._process_next(consumer, stop, is_over):
                    pass
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits for us
            self._failure = self._failure or error

    def _process_next(self, consumer: Consumer, stop: threading.Event, is_over: Callable[[], bool]) -> bool:
        """Process one message. Return whether there may be more."""
        with ExitStack() as stack:
            with self._receiving:
                stack.enter_context(self._counted_as_active())
                delivery = self._receive(consumer, stop, is_over)
                if delivery is None:
                    return False
                message = stack.enter_context(self._leases.leased(delivery))
                if self._is_suspect(delivery):
                    self._wait_until_alone()
                    self._process(message)
                    return True
            self._process(message)
        return True

    def _receive(self, consumer: Consumer, stop: threading.Event, is_over: Callable[[], bool]) -> Delivery | None:
        """Wait for a message. None: it is time to end."""
        failures = 0
        while not (stop.is_set() or self._failure or self._is_over):
            was_alone = self._active == 1  # before receiving: a message that fails afterwards is ready again
            try:
                delivery = consumer.receive(timeout=POLL_INTERVAL)
                is_done = delivery is None and is_over()
                failures = 0
            except Unavailable as error:
                failures += 1
                log.warning("the queue is unreachable", extra={"why": str(error), "failures": failures})
                stop.wait(BROKER.wait(failures, retry_after=error.retry_after, random=1.0))
                continue
            if delivery:
                return delivery
            self._is_over = is_done and was_alone
            if is_done and not was_alone:
                self._wait_until_alone(timeout=POLL_INTERVAL)
        return None

    @contextmanager
    def _counted_as_active(self) -> Iterator[None]:
        self._count_active(1)
        try:
            yield
        finally:
            self._count_active(-1)

    def _count_active(self, difference: int) -> None:
        with self._changed:
            self._active += difference
            self._changed.notify_all()

    def _wait_until_alone(self, *, timeout: float | None = None) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._active == 1, timeout)
