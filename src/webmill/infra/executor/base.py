"""The executor seam: run one function over many items, somewhere else, and hear of every one of them.

    with closing(executor.run(task, items)) as outcomes:
        for outcome in outcomes:
            match outcome:
                case Done(value=value): …
                case Failed(item=item, reason=reason): …

Guarantees, kept by every backend (tests/contracts/test_executor.py)
- Every item taken from `items` gives exactly one outcome, in the order of completion; `index` is its place in `items`.
- An item that fails never stops the others. Errors of our tree come back as they were raised.
- A worker that dies hard (segfault, OOM kill, SIGKILL, lost node) costs only the item it held. That item is tried
  again, `attempts` times in all, then it is Failed with how the worker died. A task may therefore run more than once,
  even to its end. An exception is an answer: it is not tried again (waiting is `retry`'s craft, and the queue's).
- Misconfigured is the exception to all this: nothing but the operator helps, so it is raised and everything stops.
- `items` is read in the caller's thread and only as far as there are workers: memory does not grow with its length.
  While it blocks for its next item, no outcome is handed out: give it a source that ends rather than waits.
- Closing the generator, or leaving it by an error, stops running tasks at once and leaves no process behind.

Inline keeps all but the hard death, which it shares.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

import msgspec

from webmill.errors import Misconfigured, WebmillError
from webmill.infra.child_loop import Raised

I = TypeVar("I")  # noqa: E741 - an item
O = TypeVar("O")  # noqa: E741 - what becomes of it


class Done(msgspec.Struct, Generic[I, O], frozen=True):
    index: int
    item: I
    value: O


class Failed(msgspec.Struct, Generic[I], frozen=True):
    index: int
    item: I
    reason: str
    attempts: int
    error: WebmillError | None = None  # what the task raised, when it is of our tree
    trace: str = ""  # where it was raised, when it was raised


Outcome = Done[I, O] | Failed[I]
Outcomes = Generator[Outcome[I, O], None, None]


class Executor(Protocol):
    """`function` must be importable by name on the workers; functools.partial binds settings to it."""

    def run(self, function: Callable[[I], O], items: Iterable[I], *, attempts: int = 3) -> Outcomes[I, O]: ...

    def close(self) -> None: ...


def take(again: deque[Attempt[I]], items: Iterator[tuple[int, I]]) -> Attempt[I] | None:
    """The next thing to try: what was lost comes first. None: nothing is left."""
    if again:
        return again.popleft()
    for index, item in items:
        return Attempt(index, item)
    return None


class Attempt(msgspec.Struct, Generic[I], frozen=True):
    """An item on its way through a worker; `number` counts from 1."""

    index: int
    item: I
    number: int = 1

    def again(self) -> Attempt[I]:
        return Attempt(self.index, self.item, self.number + 1)

    def failed(self, reason: str) -> Failed[I]:
        return Failed(self.index, self.item, reason, self.number)

    def raised(self, raised: Raised) -> Failed[I]:
        """The one place where an exception becomes an outcome, or stops everything."""
        if isinstance(raised.error, Misconfigured):
            raise raised.error
        reason = str(raised.error) if raised.error else f"{raised.kind}: {raised.message}"
        return Failed(self.index, self.item, reason, self.number, raised.error, raised.trace)
