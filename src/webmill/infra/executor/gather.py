"""Run tasks of which all must succeed: return all results, or raise the first failure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

from webmill.errors import Unavailable
from webmill.infra.executor.base import Executor, I, O, TaskFailed


def run_all(
    executor: Executor, function: Callable[[I], O], items: Sequence[I], *, advance: Callable[[], None] = lambda: None
) -> list[O]:
    """Return the results in the order of the items. A failure is raised at once and stops the rest."""
    results: dict[int, O] = {}
    with closing(executor.run(function, items)) as outcomes:
        for outcome in outcomes:
            if isinstance(outcome, TaskFailed):
                raise outcome.error or Unavailable(f"part {outcome.index + 1} of {len(items)}: {outcome.reason}")
            results[outcome.index] = outcome.value
            advance()
    return [results[index] for index in range(len(items))]
