"""Run tasks in this process, one after the other: for tests, debuggers and very small work."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from webmill.infra import waiting
from webmill.infra.child_loop import flatten_error
from webmill.infra.executor.base import SOON, Attempt, I, O, Outcome, Outcomes, Pause, TaskDone, TaskSource


class InlineExecutor:
    def run(self, function: Callable[[I], O], items: Iterable[I | Pause], *, attempts: int = 3) -> Outcomes[I, O]:
        del attempts  # only a worker that dies is tried again, and the only worker is us
        source = TaskSource(items)
        while (attempt := source.take()) or source.paused:
            if attempt:
                yield settle(function, attempt)
            else:
                waiting.sleep(SOON)

    def close(self) -> None:
        pass


def settle(function: Callable[[I], O], attempt: Attempt[I]) -> Outcome[I, O]:
    try:
        return TaskDone(attempt.index, attempt.item, function(attempt.item))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - any failure is an outcome; Ctrl-C is not a failure
        return attempt.raised(flatten_error(error))


def open_inline(_url: str, *, workers: int | None) -> InlineExecutor:
    del workers
    return InlineExecutor()
