"""Tasks from a queue to the workers of an executor: leases are held while they work, and each task is settled.

    receive ─▶ executor ─▶ run_task (worker) ─┬─▶ durable: ack
                                              ├─▶ may work later: back, with a growing delay
                                              └─▶ never will: a dead letter, with the reason

Killed anywhere, a task is handed out again, and its output is there once. What stops everything: an output that cannot
be written, an archive that refuses us, a wrong setting. A queue out of reach is waited for.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from typing import NamedTuple, Protocol

import msgspec

from webmill.errors import Conflict, Unavailable, WebmillError
from webmill.infra.executor.base import PAUSE, Executor, Outcome, Pause, TaskDone, TaskFailed
from webmill.infra.queue.base import MAX_ATTEMPTS, Consumer, Delivery, Queue
from webmill.infra.queue.leases import BROKER, LeasedMessage, Leases, settle
from webmill.pipeline.extract.plan import ExtractPlan
from webmill.pipeline.extract.tasks import Task, read_task
from webmill.pipeline.extract.totals import ExtractReport, TaskFailure, TaskTotals
from webmill.pipeline.extract.worker import close_worker, run_task

log = logging.getLogger(__name__)

POLL_INTERVAL = 0.05  # seconds that an empty queue is waited for before the workers are looked at


class EngineObserver(Protocol):
    """Hears what happens to tasks; called in the thread that runs the engine."""

    def began(self, task: Task) -> None: ...
    def ended(self, task: Task, totals: TaskTotals | None) -> None: ...
    def failed(self) -> None:
        """A task was given back, or became a dead letter."""


class _LeasedTask(NamedTuple):
    message: LeasedMessage
    consumer: Consumer


class EngineTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds."""

    heartbeat: float = 15.0  # between two extensions of the leases held; a lease must be longer
    first_delay: float = 10.0  # of a task that goes back; doubled each time
    longest_delay: float = 600.0

    def delay(self, attempt: int, *, least: float | None) -> float:
        return max(min(self.first_delay * 2.0 ** (attempt - 1), self.longest_delay), least or 0.0)


def return_message(delivery: Delivery, reason: str) -> None:
    """Return a message that was in progress to the queue, for others."""
    settle(partial(delivery.retry, reason))


class ExtractEngine:
    """`attempts`: as the queue was told; whose last one failed is a dead letter. `is_done` says of a task that was
    handed out before whether its output is complete elsewhere already.

    `leave` is called for each message at hand when everything stops by an error.
    """

    def __init__(
        self,
        queue: Queue,
        executor: Executor,
        plan: ExtractPlan,
        *,
        pace: EngineTimes,
        observer: EngineObserver,
        attempts: int = MAX_ATTEMPTS,
        is_done: Callable[[Task], bool] = lambda _: False,
        leave: Callable[[Delivery, str], None] = return_message,
    ) -> None:
        self._queue, self._executor, self._plan = queue, executor, plan
        self._pace, self._observer, self._attempts = pace, observer, attempts
        self._is_done, self._leave = is_done, leave
        self._held: dict[str, list[_LeasedTask]] = {}
        self._free: list[Consumer] = []
        self._failures = 0  # of the queue, in a row
        self.report = ExtractReport()

    def run(self, *, stop: threading.Event, is_over: Callable[[], bool]) -> ExtractReport:
        """Run tasks until `stop` is set (tasks in progress are finished), or the queue is empty and `is_over`."""
        with ExitStack() as stack:
            stack.callback(close_worker)
            self._leases = stack.enter_context(Leases(self._pace.heartbeat))
            stack.callback(self._close_consumers)
            tasks = self._tasks(stop, is_over)
            run = stack.enter_context(closing(self._executor.run(partial(run_task, self._plan), tasks, attempts=1)))
            try:
                for outcome in run:
                    self._settle(outcome)
            except WebmillError as error:
                self._leave_all(str(error))
                raise
        return self.report

    # --- from the queue ---

    def _tasks(self, stop: threading.Event, is_over: Callable[[], bool]) -> Iterator[Task | Pause]:
        while not stop.is_set():
            consumer = self._free.pop() if self._free else self._queue.consume(prefetch=1)
            try:
                delivery = consumer.receive(timeout=POLL_INTERVAL)
                over = delivery is None and not self._held and is_over()
                self._failures = 0
            except Unavailable as error:
                self._free.append(consumer)
                self._wait(error, stop)
                continue
            task = self._taken(delivery) if delivery else None
            if task and delivery:
                self._held.setdefault(task.id, []).append(_LeasedTask(self._leases.add(delivery), consumer))
                if len(self._held[task.id]) == 1:
                    self._observer.began(task)
                    yield task
                continue  # handed out to us a second time: it is settled with the first, when that is durable
            self._free.append(consumer)
            if over:
                return
            if delivery is None:
                yield PAUSE

    def _wait(self, error: Unavailable, stop: threading.Event) -> None:
        self._failures += 1
        log.warning("queue unreachable", extra={"why": str(error), "failures": self._failures})
        stop.wait(BROKER.wait(self._failures, retry_after=error.retry_after, random=1.0))

    def _taken(self, delivery: Delivery) -> Task | None:
        """Return the task of a message; None: it is not a task, or it was done by a worker that died before its ack."""
        try:
            task = read_task(delivery.id, delivery.body)
        except WebmillError as error:
            self._bury(delivery, str(error))
            return None
        if delivery.attempts > 1 and task.id not in self._held and self._is_done(task):
            settle(delivery.ack)
            return None
        return task

    def _close_consumers(self) -> None:
        for consumer in (*self._free, *(one.consumer for held in self._held.values() for one in held)):
            consumer.close()

    def _leave_all(self, reason: str) -> None:
        for held in self._held.values():
            for one in held:
                self._leave(one.message.delivery, reason)

    # --- to the queue ---

    def _settle(self, outcome: Outcome[Task, TaskTotals]) -> None:
        task = outcome.item
        held = self._held.pop(task.id)
        for one in held:
            self._leases.remove(one.message)
            self._free.append(one.consumer)
        ours = [one.message.delivery for one in held if not self._is_lost(one.message, task)]
        made = outcome.value if isinstance(outcome, TaskDone) and ours else None
        if made:
            self.report.add(made)
        self._observer.ended(task, made)
        for delivery in ours:
            if isinstance(outcome, TaskDone):
                settle(partial(delivery.ack, msgspec.json.encode(outcome.value)))
            else:
                self._failed(delivery, outcome)

    def _is_lost(self, leased: LeasedMessage, task: Task) -> bool:
        try:
            leased.confirm()
        except Conflict as lost:
            log.warning("lost the lease of a task", extra={"task": task.id, "why": str(lost)})
            return True
        except Unavailable:
            pass  # settling will tell
        return False

    def _failed(self, delivery: Delivery, failed: TaskFailed[Task]) -> None:
        error, reason = failed.error, failed.reason
        if isinstance(error, Unavailable):
            self._give_back(delivery, reason, least=error.retry_after)
        elif error is None:  # its worker died, or a mistake of ours: it is told, and tried again
            self._give_back(delivery, f"{reason}\n{failed.trace}".strip(), least=None)
        else:
            self._bury(delivery, reason)

    def _give_back(self, delivery: Delivery, reason: str, *, least: float | None) -> None:
        if delivery.attempts >= self._attempts:
            self._bury(delivery, reason)
            return
        log.warning("task given back", extra={"task": delivery.id, "attempt": delivery.attempts, "why": reason})
        self.report.given_back += 1
        self._observer.failed()
        settle(partial(delivery.retry, reason, delay=self._pace.delay(delivery.attempts, least=least)))

    def _bury(self, delivery: Delivery, reason: str) -> None:
        log.warning("task failed", extra={"task": delivery.id, "why": reason})
        self.report.failures.append(TaskFailure(delivery.id, reason))
        self._observer.failed()
        settle(partial(delivery.bury, reason))
