"""Follow the tasks of a run while they are in work: count their captures, and do what is due every second."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Self

from webmill.errors import WebmillError
from webmill.infra.ticker import Ticker
from webmill.pipeline.extract.plan import ExtractPlan
from webmill.pipeline.extract.receipts import Receipts
from webmill.pipeline.extract.tasks import Task
from webmill.pipeline.extract.totals import TaskTotals
from webmill.pipeline.extract.worker import open_receipts
from webmill.pipeline.progress import ProgressBar

log = logging.getLogger(__name__)

INTERVAL = 1.0  # second


class ExtractMonitor:
    """Counts captures in a thread, because the executor reports a task only when it has ended.

    `also` is called every second in that thread, `hear` with what each task made, `fail` when one failed.
    """

    def __init__(
        self,
        plan: ExtractPlan,
        counter: ProgressBar,
        *,
        also: Callable[[], None] = lambda: None,
        hear: Callable[[TaskTotals], None] = lambda _: None,
        fail: Callable[[], None] = lambda: None,
    ) -> None:
        self._plan, self._counter, self._also, self._hear, self._fail = plan, counter, also, hear, fail
        self._watched: dict[str, _TaskProgress] = {}
        self._lock = threading.Lock()
        self._ticker = Ticker(INTERVAL, self._update, name="monitor")

    def __enter__(self) -> Self:
        self._ticker.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._ticker.__exit__()

    def began(self, task: Task) -> None:
        with self._lock:
            self._watched[task.id] = _TaskProgress(open_receipts(self._plan, task) if task.files else None)

    def ended(self, task: Task, totals: TaskTotals | None) -> None:
        with self._lock:
            counted = self._watched.pop(task.id).captures
            self._counter.advance(max(0, (totals.captures if totals else 0) - counted))
        if totals:
            self._hear(totals)

    def failed(self) -> None:
        self._fail()

    def _update(self) -> None:
        with self._lock:
            for watched in self._watched.values():
                self._counter.advance(watched.count_new())
        try:
            self._also()
        except WebmillError as error:  # it is done again at the end, and then raised
            log.warning("what is done every second failed", extra={"why": str(error)})


class _TaskProgress:
    """The captures of a task that were counted so far. A batch has no receipts: it is counted when it ends."""

    def __init__(self, receipts: Receipts | None) -> None:
        self._receipts = receipts
        self._seen = 0
        self.captures = 0

    def count_new(self) -> int:
        """Return how many captures were done since the last call."""
        try:
            new = self._receipts.read_after(self._seen) if self._receipts else []
        except WebmillError:
            return 0  # the worker will meet it, too, and can do more about it
        self._seen += len(new)
        count = sum(receipt.captures for receipt in new)
        self.captures += count
        return count
