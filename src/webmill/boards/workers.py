"""Workers: jobs from a queue, several boards at once, each in a thread.

A board that cannot be read now goes back with a growing delay, until its attempts or the run's time are used up; then
it is buried, and given up in its run. The last two attempts of a job are made alone: if it kills this process, it takes
no attempt from its neighbours, which are handed out again with it every time.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol

import msgspec

from webmill.boards import metrics as counters
from webmill.boards.jobs import BoardJob, parse_job
from webmill.boards.process_job import AnyBoardReader, JobOutcome, PreviousVersion, process_job
from webmill.errors import BadInput, Conflict, Misconfigured, Unavailable
from webmill.infra.metrics import Metrics
from webmill.infra.queue.base import MAX_ATTEMPTS, Consumer, Delivery
from webmill.infra.queue.leases import LeasedMessage, settle
from webmill.infra.queue.worker_pool import WorkerPool
from webmill.infra.storage.base import Storage
from webmill.publish.publication import utc_now

log = logging.getLogger(__name__)


class BoardWorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds. `attempts` is what the queue gives a job, also one that kills its workers."""

    threads: int = 32  # most of them wait for the turn of some host
    attempts: int = MAX_ATTEMPTS
    tries: int = 3  # of a board that fails; its server is asked a few times each time
    beat: float = 15.0  # between two extensions of the leases at hand; a lease must be longer
    first_delay: float = 2.0  # of a job that goes back; doubled each time
    longest_delay: float = 60.0


class JobSource(Protocol):
    """A queue, or what a queue has handed out."""

    def consume(self) -> Consumer: ...


class BoardWorkers:
    def __init__(
        self,
        storage: Storage,
        queue: JobSource,
        reader: AnyBoardReader,
        labour: BoardWorkerOptions,
        *,
        metrics: Metrics | None = None,
        now: Callable[[], datetime] = utc_now,
        ended: Callable[[JobOutcome], None] = lambda _: None,
    ) -> None:
        self._storage, self._queue, self._reader, self._labour, self._now = storage, queue, reader, labour, now
        self._metrics = metrics or Metrics(counters.OF_WORKERS)
        self._ended = ended
        self._previous = PreviousVersion(storage)
        self._pool = WorkerPool(heartbeat=labour.beat)
        self._room = ReadersWriterLock()
        self._mutex = threading.Lock()
        self.results: Counter[str] = Counter()

    def run(self, *, stop: threading.Event, is_over: Callable[[], bool] = lambda: False) -> Counter[str]:
        """Until `stop` is set (boards at hand are finished), or the queue gives nothing and `is_over` says so."""
        work = partial(self._work, stop=stop, is_over=is_over)
        self._pool.run([work] * self._labour.threads)
        return self.results

    def _work(self, *, stop: threading.Event, is_over: Callable[[], bool]) -> None:
        with self._queue.consume() as consumer:
            for delivery in self._pool.deliveries(consumer, stop=stop, is_over=is_over):
                self._handle(delivery)

    def _handle(self, delivery: Delivery) -> None:
        try:
            job = parse_job(delivery.body)
        except BadInput as error:
            reason = str(error)
            settle(lambda: delivery.bury(reason))
            return
        room = self._room.alone if self._is_dangerous(delivery) else self._room.shared
        with self._pool.lease(delivery) as held, room():
            self._do(held, job)

    def _is_dangerous(self, delivery: Delivery) -> bool:
        return delivery.attempts > max(1, self._labour.attempts - 2)

    def _do(self, held: LeasedMessage, job: BoardJob) -> None:
        delivery, delay = held.delivery, self._delay(held.delivery)
        tries = min(self._labour.attempts, self._labour.tries)
        is_last = delivery.attempts >= tries or self._now() + timedelta(seconds=delay) >= job.deadline
        try:
            worked = process_job(
                self._storage,
                job,
                reader=self._reader,
                previous=self._previous,
                attempt=delivery.attempts,
                is_last=is_last,
                confirm=held.confirm,
            )
        except Conflict as lost:
            log.warning("a job is in other hands by now", extra={"job": delivery.id, "why": str(lost)})
        except Misconfigured as error:
            self._give_back(delivery, str(error), delay)
            raise
        except Exception as error:  # noqa: BLE001 - not the web's doing: the store's, or a mistake of ours; it is kept
            told = isinstance(error, Unavailable | BadInput)
            reason = str(error) if told else f"{error!r}\n{traceback.format_exc(limit=-5)}"
            self._give_back(delivery, reason, delay)
        else:
            settle((lambda: delivery.bury(worked.reason)) if worked.result == "given_up" else delivery.ack)
            self._note(worked)

    def _delay(self, delivery: Delivery) -> float:
        return min(self._labour.first_delay * 2.0 ** (delivery.attempts - 1), self._labour.longest_delay)

    def _give_back(self, delivery: Delivery, reason: str, delay: float) -> None:
        """With its last attempt the queue buries it, and the aggregator reads why."""
        log.warning("a job goes back", extra={"job": delivery.id, "attempt": delivery.attempts, "why": reason})
        self._metrics.count(counters.JOBS, result="retried")
        settle(lambda: delivery.retry(reason, delay=delay))

    def _note(self, worked: JobOutcome) -> None:
        self._metrics.count(counters.JOBS, result=worked.result)
        self._metrics.count(counters.ITEMS, worked.items)
        self._metrics.count(counters.WRITTEN, worked.blobs.written_bytes)
        for result in ("written", "present", "repaired"):
            self._metrics.count(counters.BLOBS, getattr(worked.blobs, result), result=result)
        with self._mutex:
            self.results[worked.result] += 1
            self._ended(worked)


class ReadersWriterLock:
    """Many share it, or one has it alone. Who wants it alone waits until those inside have left, and none enters."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._wanted = 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._wanted)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self._changed:
            self._wanted += 1
            self._changed.wait_for(lambda: not self._inside)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._wanted -= 1
                self._changed.notify_all()
