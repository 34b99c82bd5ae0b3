"""Workers in a process of their own: a job that kills it does not kill the run, and it is restarted."""

from __future__ import annotations

import logging
import pickle
import select
import threading
import time
from contextlib import closing
from functools import partial

import msgspec

from webmill.boards.jobs import open_job_queue
from webmill.boards.reader import BoardReader
from webmill.boards.types import ReaderOptions
from webmill.boards.workers import BoardWorkerOptions, BoardWorkers
from webmill.errors import Misconfigured
from webmill.infra.child import PICKLED, Child, ChildJob, ChildLimits, Death, Raised, pack_call
from webmill.infra.storage.backends import open_versions
from webmill.settings import QueueSettings

log = logging.getLogger(__name__)

MAX_QUICK_DEATHS = 20  # deaths in a row, each within a minute
QUICK_DEATH = 60.0


class WorkerProcessOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a process of workers needs."""

    storage: str
    queue: QueueSettings
    reading: ReaderOptions
    threads: int

    @property
    def workers(self) -> BoardWorkerOptions:
        interval = max(0.1, min(15.0, self.queue.lease / 4))
        return BoardWorkerOptions(threads=self.threads, attempts=self.queue.attempts, heartbeat_interval=interval)


def run_workers(options: WorkerProcessOptions) -> None:
    """The main function of a child; it ends with its parent."""
    logging.disable(logging.ERROR)  # errors are reported by fragments and dead letters
    storage = open_versions(options.storage)
    with open_job_queue(options.queue) as queue, closing(BoardReader(options.reading)) as reader:
        BoardWorkers(storage, queue, reader, options.workers).run(stop=threading.Event())


class WorkerProcess:
    """Implements `run_loop.LocalWorkers`."""

    def __init__(self, options: WorkerProcessOptions) -> None:
        self._job = ChildJob(pickle.dumps(partial(run_workers, options)), ChildLimits())
        self._deaths = 0
        self._start()

    def check(self) -> None:
        while self._has_answer():
            answer = self._child.receive()
            if isinstance(answer, Raised):
                raise Misconfigured(f"the workers cannot work: {answer.message}")
            if isinstance(answer, Death):
                self._replace(answer.reason)

    def close(self) -> None:
        self._child.kill()

    def _start(self) -> None:
        self._child = Child(self._job, PICKLED)
        self._child.send(pack_call())
        self._started = time.monotonic()

    def _has_answer(self) -> bool:
        poll = select.poll()
        poll.register(self._child.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def _replace(self, reason: str) -> None:
        self._deaths = self._deaths + 1 if time.monotonic() - self._started < QUICK_DEATH else 1
        if self._deaths > MAX_QUICK_DEATHS:
            raise Misconfigured(f"the workers died {self._deaths} times in a row: {reason}")
        log.warning("the workers died and are restarted", extra={"why": reason})
        self._start()
