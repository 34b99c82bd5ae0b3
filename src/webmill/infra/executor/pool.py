"""Run tasks in killable child processes on this machine, by default one per core.

No threads: the caller's own `next()` turns the wheel. What a task prints is logged here when the task has ended.
"""

from __future__ import annotations

import logging
import os
import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import connection
from typing import Generic

from webmill.infra.child import PICKLED, TICK, Child, Death, Job, Limits, Raised, Ready, packed
from webmill.infra.executor.base import SOON, Attempt, Done, I, O, Outcome, Outcomes, Pause, Source

log = logging.getLogger(__name__)


def open_pool(_url: str, *, workers: int | None) -> PoolExecutor:
    return PoolExecutor(workers=workers)


class PoolExecutor:
    def __init__(self, *, workers: int | None = None, limits: Limits = Limits()) -> None:  # noqa: B008 - it is frozen
        """`limits` hold for each task, which is not tried again when it passed one: it would again."""
        self._workers = workers or available_cores()
        self._limits = limits

    def run(self, function: Callable[[I], O], items: Iterable[I | Pause], *, attempts: int = 3) -> Outcomes[I, O]:
        job = Job(pickle.dumps(function), self._limits)
        crew: Crew[I, O] = Crew(job, items, workers=self._workers, attempts=attempts)
        try:
            yield from crew.work()
        finally:
            crew.dismiss()

    def close(self) -> None:
        """Children live no longer than the run they work for."""


def available_cores() -> int:
    """Fewer than the machine has, in a container or under taskset."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Crew(Generic[I, O]):
    """The children of one run, and what each of them holds."""

    def __init__(self, job: Job, items: Iterable[I | Pause], *, workers: int, attempts: int) -> None:
        self._job = job
        self._source = Source(items)
        self._workers = workers
        self._attempts = attempts
        self._busy: dict[Child, Attempt[I]] = {}
        self._idle: list[Child] = []
        self._looked = time.monotonic()

    def work(self) -> Iterator[Outcome[I, O]]:
        yield from self._assign()
        while self._busy or self._source.paused:
            for child in self._ready():
                yield from self._settle(child)
            # Only now, with all outcomes at hand given out: `items` may take its time.
            yield from self._assign()

    def dismiss(self) -> None:
        for child in self._busy:
            child.kill()
        for child in self._idle:
            child.close()

    def _assign(self) -> Iterator[Outcome[I, O]]:
        while len(self._busy) < self._workers and (attempt := self._source.take()):
            try:
                call = packed(attempt.item)
            except Exception as error:  # noqa: BLE001 - pickle raises whatever the item's own code raises
                yield attempt.failed(f"the item cannot be sent to a process: {type(error).__name__}: {error}")
                continue
            child = self._idle.pop() if self._idle else Child(self._job, PICKLED)
            self._busy[child] = attempt
            child.send(call)

    def _ready(self) -> list[Child]:
        """Children with an answer, and those from whom none will come: past their deadline, or silently dead."""
        now = time.monotonic()
        deadlines = [child.deadline for child in self._busy if child.deadline is not None]
        pipes = {child.fileno(): child for child in self._busy}
        patience = SOON if self._source.paused else TICK
        if not pipes:
            time.sleep(patience)
            return []
        heard = connection.wait(pipes, max(0.0, min([now + patience, *deadlines]) - now))
        ready = {child for pipe, child in pipes.items() if pipe in heard}
        now = time.monotonic()
        ready |= {child for child in self._busy if child.deadline is not None and child.deadline <= now}
        if now - self._looked >= TICK:
            self._looked = now
            ready |= {child for child in self._busy if not child.is_alive()}
        return list(ready)

    def _settle(self, child: Child) -> Iterator[Outcome[I, O]]:
        answer = child.receive()
        if isinstance(answer, Ready):
            return
        attempt = self._busy.pop(child)
        if isinstance(answer, Death):
            yield from self._mourn(attempt, answer)
            return
        self._idle.append(child)
        if words := child.last_words():
            log.warning("a task wrote to its output", extra={"index": attempt.index, "pid": child.pid, "words": words})
        if isinstance(answer, Raised):
            yield attempt.raised(answer)
        else:
            yield Done(attempt.index, attempt.item, answer.value)  # type: ignore[arg-type]  # what an O was pickled from

    def _mourn(self, attempt: Attempt[I], death: Death) -> Iterator[Outcome[I, O]]:
        log.warning("a worker died", extra={"index": attempt.index, "attempt": attempt.number, "reason": death.reason})
        if attempt.number < self._attempts and not death.over_limit:
            self._source.give_back(attempt)
        else:
            yield attempt.failed(f"the worker {death.reason}")
