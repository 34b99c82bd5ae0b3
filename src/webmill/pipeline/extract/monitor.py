"""Beside a run: counts captures as they are done, and does what is due now and then."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Self

from webmill.errors import WebmillError
from webmill.pipeline.extract.plan import ExtractPlan
from webmill.pipeline.extract.receipts import Receipts
from webmill.pipeline.extract.tasks import Task
from webmill.pipeline.extract.totals import TaskTotals
from webmill.pipeline.extract.worker import open_receipts
from webmill.pipeline.progress import ProgressBar

log = logging.getLogger(__name__)

INTERVAL = 1.0  # second


class ExtractMonitor:
    """A thread: the one that runs tasks waits for the executor, which says nothing until a task has ended.

    `also` is called every second in that thread; `hear` is told what every task made, `fail` that one failed.
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
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_around, name="webmill-watcher", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

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

    def _look_around(self) -> None:
        while not self._over.wait(INTERVAL):
            with self._lock:
                for watched in self._watched.values():
                    self._counter.advance(watched.look())
            try:
                self._also()
            except WebmillError as error:  # it is done again at the end, and then raised
                log.warning("what is done now and then failed", extra={"why": str(error)})


class _TaskProgress:
    """A task at work. Batches are short: they are counted when they end."""

    def __init__(self, receipts: Receipts | None) -> None:
        self._receipts = receipts
        self._seen = 0
        self.captures = 0

    def look(self) -> int:
        """Return how many captures came since the last look."""
        try:
            new = self._receipts.read_after(self._seen) if self._receipts else []
        except WebmillError:
            return 0  # the worker will meet it, too, and can do more about it
        self._seen += len(new)
        count = sum(receipt.captures for receipt in new)
        self.captures += count
        return count
