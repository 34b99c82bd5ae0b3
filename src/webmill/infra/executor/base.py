"""The executor seam: run one function over many items in other processes, with an outcome for every item.

    with closing(executor.run(task, items)) as outcomes:
        for outcome in outcomes:
            match outcome:
                case TaskDone(value=value): …
                case TaskFailed(item=item, reason=reason): …

Guarantees, kept by every backend (tests/contracts/test_executor.py)
- Every item taken from `items` gives exactly one outcome, in the order of completion; `index` is its place in `items`.
- An item that fails never stops the others. Errors of our tree come back as they were raised.
- A worker that dies hard (segfault, OOM kill, SIGKILL, lost node) costs only the item it held. That item is tried
  again, `attempts` times in all, then it is a TaskFailed with how the worker died. So a task may run more than once,
  even to its end. An exception is an answer: it is not tried again (retries with waits are for `retry` and the queue).
- Misconfigured is the exception to all this: nothing but the operator helps, so it is raised and everything stops.
- `items` is read in the caller's thread and only as far as there are workers: memory does not grow with its length.
  While it blocks for its next item, no outcome is handed out: a source that has to wait gives `PAUSE`, and is asked
  again soon.
- Closing the generator, or leaving it by an error, stops running tasks at once and leaves no process behind.

Inline keeps all but the hard death, which it shares.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from webmill.errors import Misconfigured, WebmillError
from webmill.infra.child_loop import Raised

I = TypeVar("I")  # noqa: E741 - an item
O = TypeVar("O")  # noqa: E741 - what becomes of it


class Pause(enum.Enum):
    PAUSE = "nothing now"


PAUSE: Final = Pause.PAUSE
SOON = 0.05  # seconds until a source that paused is asked again


class TaskDone(msgspec.Struct, Generic[I, O], frozen=True):
    index: int
    item: I
    value: O


class TaskFailed(msgspec.Struct, Generic[I], frozen=True):
    index: int
    item: I
    reason: str
    attempts: int
    error: WebmillError | None = None  # what the task raised, when it is of our tree
    trace: str = ""  # where it was raised, when it was raised


Outcome = TaskDone[I, O] | TaskFailed[I]
Outcomes = Generator[Outcome[I, O], None, None]


class Executor(Protocol):
    """`function` must be importable by name on the workers; functools.partial binds settings to it."""

    def run(self, function: Callable[[I], O], items: Iterable[I | Pause], *, attempts: int = 3) -> Outcomes[I, O]: ...

    def close(self) -> None: ...


class Attempt(msgspec.Struct, Generic[I], frozen=True):
    """One attempt to run the task of an item; `number` counts from 1."""

    index: int
    item: I
    number: int = 1

    def again(self) -> Attempt[I]:
        return Attempt(self.index, self.item, self.number + 1)

    def failed(self, reason: str) -> TaskFailed[I]:
        return TaskFailed(self.index, self.item, reason, self.number)

    def raised(self, raised: Raised) -> TaskFailed[I]:
        """Return the outcome of an exception; Misconfigured stops everything."""
        if isinstance(raised.error, Misconfigured):
            raise raised.error
        reason = str(raised.error) if raised.error else f"{raised.kind}: {raised.message}"
        return TaskFailed(self.index, self.item, reason, self.number, raised.error, raised.trace)


class TaskSource(Generic[I]):
    """The items of a run as attempts: those that were lost come first."""

    def __init__(self, items: Iterable[I | Pause]) -> None:
        self._items = iter(items)
        self._again: deque[Attempt[I]] = deque()
        self._count = 0
        self.paused = False  # it had no item the last time, and may have one soon

    def take(self) -> Attempt[I] | None:
        """Return the next thing to try. None: nothing is left, or the source has paused."""
        self.paused = False
        if self._again:
            return self._again.popleft()
        for item in self._items:
            if isinstance(item, Pause):
                self.paused = True
                return None
            self._count += 1
            return Attempt(self._count - 1, item)
        return None

    def give_back(self, attempt: Attempt[I]) -> None:
        """Try an item again whose worker was lost."""
        self._again.append(attempt.again())
