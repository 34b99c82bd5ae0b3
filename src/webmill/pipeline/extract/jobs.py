"""A fixed set of tasks of files, worked to its end by one command at a time: a collection's archives, a dataset.

    plan ─▶ STATE/tasks.sqlite: every task, with what became of it ─▶ engine

The queue remembers what is done, so that a second run does nothing. Only one run is at it at a time (a lock of the
kernel sees to that): what an earlier one held when it was killed is due at once, and costs no attempt.
"""

from __future__ import annotations

import logging
import re
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import msgspec

from webmill.errors import Conflict
from webmill.infra import lock, waiting
from webmill.infra.executor.base import Executor
from webmill.infra.queue.base import is_drained
from webmill.infra.queue.sqlite import SqliteQueue
from webmill.pipeline.extract.engine import EngineTimes, ExtractEngine
from webmill.pipeline.extract.monitor import ExtractMonitor
from webmill.pipeline.extract.output import remove_plan_drafts
from webmill.pipeline.extract.plan import ExtractPlan
from webmill.pipeline.extract.tasks import Task, task_message
from webmill.pipeline.extract.totals import ExtractReport, TaskTotals
from webmill.pipeline.progress import ProgressReporter

log = logging.getLogger(__name__)

TASKS, STOP = "tasks.sqlite", "stop"
DOING = "extracting"
DATASET_FILE = re.compile(  # names that we make in the folder of a dataset
    r"(dataset|letsdata)\.json|(manifest|shards|first-run)\.txt|function\.py|(tasks|ledger)\.sqlite.*|receipts|output|errors|"
    r"spool|stop|run\.log|\.webmill.*"
)
LOCK_ATTEMPTS = 10


class ExtractJob(msgspec.Struct, frozen=True, kw_only=True):
    """`folder` holds the state, on this machine. `tasks` returns all tasks; those already known stay as they are."""

    folder: Path
    plan: ExtractPlan
    tasks: Callable[[], Iterable[Task]]
    attempts: int = 3
    repeat: bool = False  # tasks that are done are run again: more may have come
    lost: Callable[[], Iterable[str]] = lambda: ()  # done tasks whose output is gone: they are run again, too


def run_job(
    job: ExtractJob,
    executor: Executor,
    *,
    progress: ProgressReporter,
    pace: EngineTimes = EngineTimes(),  # noqa: B008 - it is frozen
    done: Callable[[Task, TaskTotals], None] = lambda _, __: None,
) -> ExtractReport:
    """Run all tasks that are neither done nor failed. Conflict: another run is in progress."""
    with ExitStack() as stack:
        stack.enter_context(lock_job(job.folder))
        queue = stack.enter_context(closing(open_tasks(job.folder, attempts=job.attempts)))
        stopper = _Stopper(job.folder / STOP)
        queue.end_leases()
        queue.forget_done(None if job.repeat else {*job.lost()})
        queue.publish(map(task_message, job.tasks()))
        remove_plan_drafts(job.plan)
        report = ExtractReport()
        if queue.stats().waiting:
            counter = stack.enter_context(progress("Making documents", unit="captures"))
            watcher = stack.enter_context(ExtractMonitor(job.plan, counter, also=stopper.look))
            report = _run_engine(queue, executor, job, pace, _JobObserver(watcher, done), stopper)
            remove_plan_drafts(
                job.plan
            )  # again: when the run began, workers of a killed one may have been about to die
        stats = queue.stats()
        report.stopped, report.failed, report.left = stopper.stopping, stats.buried, stats.waiting
        return report


def _run_engine(
    queue: SqliteQueue,
    executor: Executor,
    job: ExtractJob,
    pace: EngineTimes,
    observer: _JobObserver,
    stopper: _Stopper,
) -> ExtractReport:
    # What is at hand when the run fails stays leased: nobody else is at it, and the next run ends the lease for free.
    engine = ExtractEngine(
        queue, executor, job.plan, pace=pace, observer=observer, attempts=job.attempts, leave=lambda _, __: None
    )
    try:
        engine.run(stop=threading.Event(), is_over=lambda: is_drained(queue))
    except KeyboardInterrupt:
        if not stopper.stopping:
            raise
    return engine.report


class _JobObserver:
    """Calls `done` before a task is recorded as done: what follows from it must not be lost."""

    def __init__(self, watcher: ExtractMonitor, done: Callable[[Task, TaskTotals], None]) -> None:
        self._watcher, self._done = watcher, done

    def began(self, task: Task) -> None:
        self._watcher.began(task)

    def ended(self, task: Task, totals: TaskTotals | None) -> None:
        self._watcher.ended(task, totals)
        if totals:
            self._done(task, totals)

    def failed(self) -> None:
        self._watcher.failed()


class _Stopper:
    """Ends the run when the stop file appears: the thread that runs it is interrupted as by Ctrl-C."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._runner = threading.current_thread()
        self.stopping = False
        file.unlink(missing_ok=True)

    def look(self) -> None:
        if self.stopping or not self._file.exists():
            return
        log.info("stopping: found the stop file")
        self.stopping = True
        if self._runner is threading.main_thread():
            signal.pthread_kill(self._runner.ident or 0, signal.SIGINT)


def open_tasks(folder: Path, *, attempts: int) -> SqliteQueue:
    return SqliteQueue(folder / TASKS, max_attempts=attempts, remember=True)


def is_running(folder: Path) -> bool:
    try:
        with lock.exclusive(folder, "run", doing=DOING):
            return False
    except Conflict:
        return True


@contextmanager
def lock_job(folder: Path) -> Iterator[None]:
    """Hold the folder for one run. `is_running` holds it for a moment, too: so a few tries."""
    with ExitStack() as stack:
        for left in reversed(range(LOCK_ATTEMPTS)):
            try:
                stack.enter_context(lock.exclusive(folder, "run", doing=DOING))
                break
            except Conflict:
                if not left:
                    raise
                waiting.sleep(0.02)
        yield
