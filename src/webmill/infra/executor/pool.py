"""Run tasks in killable child processes on this machine, by default one per core.

No threads: the work is driven by the caller's own `next()`. What a task prints is logged here when the task has ended.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Generic

from webmill.infra.child import GRACE, PICKLED, Child, ChildJob, ChildLimits, Death, Raised, Ready, pack_call
from webmill.infra.executor.base import SOON, Attempt, I, O, Outcome, Outcomes, Pause, TaskDone, TaskSource
from webmill.infra.supervisor import ProcessGroup

log = logging.getLogger(__name__)

POLL_INTERVAL = 1.0


def open_pool(_url: str, *, workers: int | None) -> PoolExecutor:
    return PoolExecutor(workers=workers)


class PoolExecutor:
    def __init__(self, *, workers: int | None = None, limits: ChildLimits = ChildLimits()) -> None:  # noqa: B008 - it is frozen
        """`limits` hold for each task; one that exceeds them is not tried again."""
        self._workers = workers or available_cores()
        self._limits = limits

    def run(self, function: Callable[[I], O], items: Iterable[I | Pause], *, attempts: int = 3) -> Outcomes[I, O]:
        job = ChildJob(pickle.dumps(function), self._limits)
        with closing(PoolRun[I, O](job, items, workers=self._workers, attempts=attempts)) as run:
            yield from run.outcomes()

    def close(self) -> None:
        """Do nothing: children live no longer than their run."""


def available_cores() -> int:
    """Return how many cores we may use: fewer than the machine has, in a container or under taskset."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class PoolRun(Generic[I, O]):
    """One run: its children, and the item that each of them works on."""

    def __init__(self, job: ChildJob, items: Iterable[I | Pause], *, workers: int, attempts: int) -> None:
        self._job = job
        self._source = TaskSource(items)
        self._workers = workers
        self._attempts = attempts
        self._children: ProcessGroup[Child] = ProcessGroup()
        self._busy: dict[Child, Attempt[I]] = {}
        self._idle: list[Child] = []

    def outcomes(self) -> Iterator[Outcome[I, O]]:
        yield from self._assign()
        while self._busy or self._source.paused:
            for child in self._children.wait(SOON if self._source.paused else POLL_INTERVAL):
                yield from self._settle(child)
            # Only now, with all outcomes at hand given out: `items` may take its time.
            yield from self._assign()

    def close(self) -> None:
        """Kill the children that still work, and let the others leave."""
        for child in self._busy:
            child.kill()
        self._children.stop(GRACE)

    def _assign(self) -> Iterator[Outcome[I, O]]:
        while len(self._busy) < self._workers and (attempt := self._source.take()):
            try:
                call = pack_call(attempt.item)
            except Exception as error:  # noqa: BLE001 - pickle raises whatever the item's own code raises
                yield attempt.failed(f"the item cannot be sent to a process: {type(error).__name__}: {error}")
                continue
            child = self._idle.pop() if self._idle else self._children.add(Child(self._job, PICKLED))
            self._busy[child] = attempt
            child.send(call)

    def _settle(self, child: Child) -> Iterator[Outcome[I, O]]:
        if child not in self._busy:  # it has nothing to say: it died while it was idle
            self._idle.remove(child)
            self._children.reap(child)
            return
        answer = child.receive()
        if isinstance(answer, Ready):
            return
        attempt = self._busy.pop(child)
        if isinstance(answer, Death):
            self._children.reap(child)
            yield from self._on_death(attempt, answer)
            return
        self._idle.append(child)
        if output := child.recent_output():
            log.warning("a task wrote to its output", extra={"index": attempt.index, "pid": child.pid, "words": output})
        if isinstance(answer, Raised):
            yield attempt.raised(answer)
        else:
            yield TaskDone(attempt.index, attempt.item, answer.value)  # type: ignore[arg-type]  # what an O was pickled from

    def _on_death(self, attempt: Attempt[I], death: Death) -> Iterator[Outcome[I, O]]:
        log.warning("a worker died", extra={"index": attempt.index, "attempt": attempt.number, "reason": death.reason})
        if attempt.number < self._attempts and not death.over_limit:
            self._source.give_back(attempt)
        else:
            yield attempt.failed(f"the worker {death.reason}")
