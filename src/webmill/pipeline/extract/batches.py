"""Batcher and workers in one: from the index of a crawl to sealed parts, and then it ends.

The batcher runs in a thread beside the workers. The run is over when the batcher has published everything and every
batch is durable or a dead letter; then what is left in the spool is sealed. Killed anywhere and run again, it goes on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import msgspec

from webmill.commoncrawl.batch import parse_batch_id
from webmill.errors import WebmillError
from webmill.infra.queue.base import Queue, is_drained
from webmill.pipeline.dispatch.batcher import BatcherReport as Dispatched
from webmill.pipeline.extract.engine import ExtractEngine
from webmill.pipeline.extract.output import ExtractOutput
from webmill.pipeline.extract.totals import add_counts

DRAIN_WAIT = 60.0  # seconds that an empty queue may hide a batch which another worker holds
SEAL_INTERVAL = 5.0  # seconds

RunBatcher = Callable[[Callable[[], None]], Dispatched]  # is given what to call now and then: it raises to stop


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What there is of a run, from its first start on. `missing`: batches that are neither sealed nor dead letters."""

    run: str
    batches: int
    parts: int
    captures: int
    rows: int
    outcomes: dict[str, int]
    left_out: dict[str, int]
    errors: int
    failed: int
    missing: int
    rejected: int  # lines and blocks of the index
    rejected_file: str


def run_batches(
    dispatch: RunBatcher, engine: ExtractEngine, queue: Queue, output: ExtractOutput, *, stop: threading.Event
) -> RunSummary | None:
    """Run batcher and workers until every batch is done or dead; None: it was stopped."""
    ending = threading.Event()
    batcher = _BatcherThread(dispatch, is_stopped=lambda: stop.is_set() or ending.is_set(), stop=stop)
    census = _CompletionCheck(queue, output)
    batcher.start()
    try:
        engine.run(stop=stop, is_over=lambda: batcher.done is not None and census.is_over(batcher.done))
    finally:
        ending.set()
        batcher.join(DRAIN_WAIT)  # it may be waiting for an answer
    if batcher.error:
        raise batcher.error
    if stop.is_set() or batcher.done is None:
        return None
    lost = census.dead_letters(batcher.done.run)
    output.finish(lost.__contains__)
    return summarise(batcher.done, output, failed=len(lost))


def summarise(done: Dispatched, output: ExtractOutput, *, failed: int) -> RunSummary:
    parts = output.parts(done.run)
    outcomes: dict[str, int] = {}
    left_out: dict[str, int] = {}
    for part in parts:
        add_counts(outcomes, part.outcomes)
        add_counts(left_out, part.left_out)
    return RunSummary(
        run=done.run,
        batches=done.batches,
        parts=len(parts),
        captures=sum(part.captures for part in parts),
        rows=sum(part.rows for part in parts),
        outcomes=dict(sorted(outcomes.items())),
        left_out=dict(sorted(left_out.items())),
        errors=sum(part.errors for part in parts),
        failed=failed,
        missing=max(0, done.batches - sum(part.batches for part in parts) - failed),
        rejected=done.counts.rejected,
        rejected_file=done.rejected_file,
    )


class PeriodicSealer:
    """Seals complete parts now and then while workers run, if the output is on this machine."""

    def __init__(self, output: ExtractOutput, *, every: float = SEAL_INTERVAL) -> None:
        self._output, self._every, self._last = output, every, time.monotonic()

    def __call__(self) -> None:
        if self._output.folder() and time.monotonic() - self._last >= self._every:
            self._output.seal()
            self._last = time.monotonic()


class _BatcherStopped(WebmillError):
    """Raised in the batcher to stop it."""


class _BatcherThread(threading.Thread):
    """`done` is its report; when it fails, everything stops."""

    def __init__(self, dispatch: RunBatcher, *, is_stopped: Callable[[], bool], stop: threading.Event) -> None:
        super().__init__(name="webmill-batcher", daemon=True)
        self._dispatch = dispatch
        self._is_stopped = is_stopped
        self._stop_all = stop
        self.done: Dispatched | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.done = self._dispatch(self._check)
        except _BatcherStopped:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits for us
            self.error = error
            self._stop_all.set()

    def _check(self) -> None:
        if self._is_stopped():
            raise _BatcherStopped("the batcher was stopped")


class _CompletionCheck:
    """Whether every batch of a run is accounted for: spooled, sealed or a dead letter."""

    def __init__(self, queue: Queue, output: ExtractOutput) -> None:
        self._queue = queue
        self._output = output
        self._empty_since: float | None = None

    def is_over(self, done: Dispatched) -> bool:
        if not is_drained(self._queue):
            self._empty_since = None
            return False
        self._empty_since = self._empty_since or time.monotonic()
        return self._is_complete(done) or time.monotonic() - self._empty_since > DRAIN_WAIT

    def dead_letters(self, run: str) -> set[str]:
        return {letter.id for letter in self._queue.dead_letters() if (parse_batch_id(letter.id) or ("", 0))[0] == run}

    def _is_complete(self, done: Dispatched) -> bool:
        parts = self._output.parts(done.run)
        dead = {known[1] for known in map(parse_batch_id, self.dead_letters(done.run)) if known}
        outside = {*self._output.spooled(done.run), *dead}
        outside = {number for number in outside if not any(part.holds(number) for part in parts)}
        return sum(part.batches for part in parts) + len(outside) >= done.batches
