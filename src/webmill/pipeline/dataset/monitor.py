"""Beside a run: counts the pages of running tasks by their receipts, and notices when the run shall stop."""

from __future__ import annotations

import logging
import signal
import threading
from pathlib import Path
from typing import Self

from webmill.errors import WebmillError
from webmill.pipeline.dataset.receipts import Receipts
from webmill.pipeline.watch import Counter

log = logging.getLogger(__name__)

EVERY = 1.0  # second


class Monitor:
    """A thread: the one that runs tasks waits for the executor, which says nothing until a task has ended."""

    def __init__(self, stop_file: Path, counter: Counter) -> None:
        self.stopping = False
        self._stop_file = stop_file
        self._counter = counter
        self._watched: dict[str, _Watched] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_around, name="dataset-monitor", daemon=True)
        self._runner = threading.current_thread()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def begin(self, task: str, receipts: Receipts) -> None:
        with self._lock:
            self._watched[task] = _Watched(receipts)

    def end(self, task: str, pages: int) -> None:
        with self._lock:
            counted = self._watched.pop(task).pages
            self._counter.advance(max(0, pages - counted))

    def wait(self, seconds: float) -> None:
        """Sleeps, unless the run shall stop."""
        self._over.wait(seconds)

    def _look_around(self) -> None:
        while not self._over.wait(EVERY):
            if self._stop_file.exists():
                self._stop()
                return
            with self._lock:
                for watched in self._watched.values():
                    self._counter.advance(watched.look())

    def _stop(self) -> None:
        log.info("asked to stop")
        self.stopping = True
        self._over.set()
        if self._runner is threading.main_thread():
            signal.pthread_kill(self._runner.ident or 0, signal.SIGINT)  # wakes it, wherever it waits


class _Watched:
    def __init__(self, receipts: Receipts) -> None:
        self._receipts = receipts
        self._seen = 0
        self.pages = 0

    def look(self) -> int:
        """How many pages came since the last look."""
        try:
            new = self._receipts.read_after(self._seen)
        except WebmillError:
            return 0  # the worker will meet it, too, and can do more about it
        self._seen += len(new)
        count = sum(receipt.pages for receipt in new)
        self.pages += count
        return count
