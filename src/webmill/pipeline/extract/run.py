"""Batcher and workers in one: from the index of a crawl to sealed parts, and then it ends.

The batcher runs in a thread beside the workers. The run is over when the batcher has published everything and every
batch is durable or buried; then what is left in the spool is sealed. Killed anywhere and run again, it goes on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

import msgspec

from webmill.commoncrawl.batch import number_of
from webmill.errors import WebmillError
from webmill.infra.queue.base import Queue
from webmill.pipeline.dispatch.batcher import Report as Dispatched
from webmill.pipeline.extract.output import Output
from webmill.pipeline.extract.sealing import total
from webmill.pipeline.extract.spool import spooled
from webmill.pipeline.extract.workers import Workers
from webmill.pipeline.hands import is_drained

PATIENCE = 60.0  # seconds that an empty queue may hide a batch which another worker holds

Dispatch = Callable[[Callable[[], None]], Dispatched]  # is given what to call now and then: it raises to stop


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What there is of a run, from its first start on. `missing`: batches that are neither sealed nor buried."""

    run: str
    batches: int
    parts: int
    captures: int
    rows: int
    extraction: dict[str, int]
    filtered: dict[str, int]
    buried: int
    missing: int
    rejected: int  # lines and blocks of the index
    rejected_file: str


def run_all(
    dispatch: Dispatch, workers: Workers, queue: Queue, output: Output, *, stop: threading.Event
) -> Summary | None:
    """None: it was stopped."""
    ending = threading.Event()
    batcher = _Batcher(dispatch, is_stopped=lambda: stop.is_set() or ending.is_set(), stop=stop)
    census = _Census(queue, output)
    batcher.start()
    try:
        workers.run(stop=stop, is_over=lambda: batcher.done is not None and census.is_over(batcher.done))
    finally:
        ending.set()
        batcher.join(PATIENCE)  # it may be waiting for an answer
    if batcher.error:
        raise batcher.error
    if stop.is_set() or batcher.done is None:
        return None
    output.finish(census.buried(batcher.done.run).__contains__)
    return summarise(batcher.done, output, buried=len(census.buried(batcher.done.run)))


def summarise(done: Dispatched, output: Output, *, buried: int) -> Summary:
    receipts = output.receipts([done.run])
    held = sum(receipt.batches for receipt in receipts)
    return Summary(
        run=done.run,
        batches=done.batches,
        parts=len(receipts),
        captures=sum(receipt.items for receipt in receipts),
        rows=sum(receipt.rows for receipt in receipts),
        extraction=total(receipt.extraction for receipt in receipts),
        filtered=total(receipt.filtered for receipt in receipts),
        buried=buried,
        missing=max(0, done.batches - held - buried),
        rejected=done.counts.rejected,
        rejected_file=done.rejected_file,
    )


class _Stopped(WebmillError):
    """Raised through the batcher to end it."""


class _Batcher(threading.Thread):
    """`done` is its report; when it fails, everything stops."""

    def __init__(self, dispatch: Dispatch, *, is_stopped: Callable[[], bool], stop: threading.Event) -> None:
        super().__init__(name="webmill-batcher", daemon=True)
        self._dispatch = dispatch
        self._is_stopped = is_stopped
        self._stop_all = stop
        self.done: Dispatched | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.done = self._dispatch(self._check)
        except _Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits for us
            self.error = error
            self._stop_all.set()

    def _check(self) -> None:
        if self._is_stopped():
            raise _Stopped("the batcher was told to stop")


class _Census:
    """Whether every batch of a run is accounted for: spooled, sealed or buried."""

    def __init__(self, queue: Queue, output: Output) -> None:
        self._queue = queue
        self._output = output
        self._empty_since: float | None = None
        self._turn = threading.Lock()

    def is_over(self, done: Dispatched) -> bool:
        with self._turn:
            if not is_drained(self._queue):
                self._empty_since = None
                return False
            self._empty_since = self._empty_since or time.monotonic()
            return self._is_complete(done) or time.monotonic() - self._empty_since > PATIENCE

    def buried(self, run: str) -> set[str]:
        return {letter.id for letter in self._queue.buried() if (number_of(letter.id) or ("", 0))[0] == run}

    def _is_complete(self, done: Dispatched) -> bool:
        receipts = self._output.receipts([done.run])
        outside = {*spooled(self._output.storage).get(done.run, ()), *numbers(self.buried(done.run))}
        outside = {number for number in outside if not any(receipt.holds(number) for receipt in receipts)}
        return sum(receipt.batches for receipt in receipts) + len(outside) >= done.batches


def numbers(ids: Iterable[str]) -> set[int]:
    return {known[1] for known in map(number_of, ids) if known}
