"""Workers: jobs from a queue, several boards at once, each in a thread.

A board that cannot be read now is retried with a growing delay, until its attempts or the run's time are used up; then
the job becomes a dead letter, and is abandoned in its run. The last two attempts of a job are made alone, as the worker
pool does with suspect messages: if the job kills this process, that costs no attempt of other jobs.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from webmill.boards import metrics as counters
from webmill.boards.jobs import BoardJob, parse_job
from webmill.boards.process_job import AnyBoardReader, JobOutcome, PreviousVersion, process_job
from webmill.errors import BadInput, Conflict, Misconfigured, Unavailable
from webmill.infra.metrics import Metrics
from webmill.infra.queue.base import MAX_ATTEMPTS, Delivery
from webmill.infra.queue.leases import LeasedMessage, settle
from webmill.infra.queue.worker_pool import MessageSource, WorkerPool
from webmill.infra.storage.base import Storage
from webmill.publish.publication import utc_now

log = logging.getLogger(__name__)


class BoardWorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds. `attempts`: deliveries by the queue, including those of a job that kills its workers."""

    threads: int = 32  # most of them wait for their host
    attempts: int = MAX_ATTEMPTS
    tries: int = 3  # of a board that fails; each makes a few requests
    heartbeat_interval: float = 15.0  # between extensions of the leases held; a lease must be longer
    first_delay: float = 2.0  # of a job that is retried; doubled each time
    longest_delay: float = 60.0


class BoardWorkers:
    def __init__(
        self,
        storage: Storage,
        queue: MessageSource,
        reader: AnyBoardReader,
        options: BoardWorkerOptions,
        *,
        metrics: Metrics | None = None,
        now: Callable[[], datetime] = utc_now,
        on_done: Callable[[JobOutcome], None] = lambda _: None,
    ) -> None:
        self._storage, self._reader, self._options, self._now = storage, reader, options, now
        self._metrics = metrics or Metrics(counters.OF_WORKERS)
        self._on_done = on_done
        self._previous = PreviousVersion(storage)
        self._pool = WorkerPool(
            queue,
            self._handle,
            threads=options.threads,
            heartbeat=options.heartbeat_interval,
            is_suspect=self._may_kill,
        )
        self._mutex = threading.Lock()
        self.results: Counter[str] = Counter()

    def run(self, *, stop: threading.Event, is_over: Callable[[], bool] = lambda: False) -> Counter[str]:
        """Work until `stop` is set (boards under way are finished), or the queue is empty and `is_over` is true."""
        self._pool.run(stop=stop, is_over=is_over)
        return self.results

    def _handle(self, message: LeasedMessage) -> None:
        try:
            job = parse_job(message.delivery.body)
        except BadInput as error:
            reason = str(error)
            settle(lambda: message.delivery.bury(reason))
        else:
            self._process(message, job)

    def _may_kill(self, delivery: Delivery) -> bool:
        return delivery.attempts > max(1, self._options.attempts - 2)

    def _process(self, held: LeasedMessage, job: BoardJob) -> None:
        delivery, delay = held.delivery, self._delay(held.delivery)
        tries = min(self._options.attempts, self._options.tries)
        is_last = delivery.attempts >= tries or self._now() + timedelta(seconds=delay) >= job.deadline
        try:
            outcome = process_job(
                self._storage,
                job,
                reader=self._reader,
                previous=self._previous,
                attempt=delivery.attempts,
                is_last=is_last,
                confirm=held.confirm,
            )
        except Conflict as lost:
            log.warning("another worker has the job by now", extra={"job": delivery.id, "why": str(lost)})
        except Misconfigured as error:
            self._retry(delivery, str(error), delay)
            raise
        except Exception as error:  # noqa: BLE001 - not caused by the web, but by the storage or a bug: reported with the job
            is_expected = isinstance(error, Unavailable | BadInput)
            reason = str(error) if is_expected else f"{error!r}\n{traceback.format_exc(limit=-5)}"
            self._retry(delivery, reason, delay)
        else:
            settle((lambda: delivery.bury(outcome.reason)) if outcome.result == "given_up" else delivery.ack)
            self._count(outcome)

    def _delay(self, delivery: Delivery) -> float:
        return min(self._options.first_delay * 2.0 ** (delivery.attempts - 1), self._options.longest_delay)

    def _retry(self, delivery: Delivery, reason: str, delay: float) -> None:
        """Retry a job. After its last attempt the queue makes it a dead letter, and the aggregator reads why."""
        log.warning(
            "a job failed and is retried", extra={"job": delivery.id, "attempt": delivery.attempts, "why": reason}
        )
        self._metrics.count(counters.JOBS, result="retried")
        settle(lambda: delivery.retry(reason, delay=delay))

    def _count(self, outcome: JobOutcome) -> None:
        self._metrics.count(counters.JOBS, result=outcome.result)
        self._metrics.count(counters.ITEMS, outcome.items)
        self._metrics.count(counters.WRITTEN, outcome.blobs.written_bytes)
        for result in ("written", "present", "repaired"):
            self._metrics.count(counters.BLOBS, getattr(outcome.blobs, result), result=result)
        with self._mutex:
            self.results[outcome.result] += 1
            self._on_done(outcome)
