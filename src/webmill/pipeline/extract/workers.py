"""Workers: batches from a queue, their captures from an archive, documents to an output.

    receive ─▶ fetch ─▶ read in a sandbox ─▶ spool, durable ─▶ ack        (and now and then: seal parts)

Several batches are worked at once, each by a thread with a sandboxed process of its own; downloads share their threads.
Killed anywhere, a batch is handed out again, and its rows are there once: the spool has one place for them.

A batch that cannot be worked now goes back with a growing delay; one that never can is buried with the reason. What
stops everything: an output that cannot be written, an archive that refuses us.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial

import msgspec

from webmill.commoncrawl.batch import batch_id
from webmill.commoncrawl.captures import Fetcher
from webmill.errors import BadInput, Conflict, Unavailable, WebmillError
from webmill.infra.child import Limits
from webmill.infra.metrics import Metrics
from webmill.infra.origin import Refused
from webmill.infra.queue.base import Delivery, Queue
from webmill.infra.retry import retrying
from webmill.infra.sandbox import Sandbox
from webmill.pipeline.extract import metrics as counters
from webmill.pipeline.extract.batch import BatchReader, named
from webmill.pipeline.extract.output import Output
from webmill.pipeline.extract.page import CHILD, FUNCTION, Reading
from webmill.pipeline.extract.spool import Spooled, is_spooled, key_of
from webmill.pipeline.hands import BROKER, Hands, Held, settle

log = logging.getLogger(__name__)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds."""

    processes: int = 1
    prefetch: int = 1
    beat: float = 15.0  # between two extensions of the leases at hand; a lease must be longer
    seal_every: float = 5.0
    first_delay: float = 10.0  # of a batch that goes back; doubled each time
    longest_delay: float = 600.0
    stop_when_refused: bool = True  # False: a breaker keeps us from asking on
    limits: Limits = CHILD  # of one page


class Report(msgspec.Struct, kw_only=True):
    """What this command did; other workers may have done the rest."""

    batches: int = 0
    items: int = 0
    rows: int = 0
    given_back: int = 0
    buried: int = 0
    extraction: Counter[str] = msgspec.field(default_factory=Counter)
    filtered: Counter[str] = msgspec.field(default_factory=Counter)


class Workers:
    def __init__(
        self,
        queue: Queue,
        fetcher: Fetcher,
        output: Output,
        options: Options,
        *,
        metrics: Metrics,
        advance: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._queue = queue
        self._fetcher = fetcher
        self._output = output
        self._options = options
        self._metrics = metrics
        self._advance = advance
        self._hands = Hands(beat=options.beat)
        self._mutex = threading.Lock()
        self._sealed = 0.0
        self.report = Report()

    def run(self, *, stop: threading.Event, is_over: Callable[[], bool]) -> Report:
        """Until `stop` is set (batches at hand are finished), or the queue gives nothing and `is_over` says so."""
        self._sealed = time.monotonic()
        work = partial(self._work, stop=stop, is_over=is_over)
        self._hands.run([work] * self._options.processes, glance=self._seal_now_and_then)
        return self.report

    def _seal_now_and_then(self) -> None:
        if self._output.folder and time.monotonic() - self._sealed >= self._options.seal_every:
            self._output.seal()
            self._sealed = time.monotonic()

    def _work(self, *, stop: threading.Event, is_over: Callable[[], bool]) -> None:
        with (
            Sandbox(FUNCTION, returns=Reading, limits=self._options.limits) as sandbox,
            self._queue.consume(prefetch=self._options.prefetch) as consumer,
        ):
            reader = BatchReader(self._fetcher, sandbox, self._output.shape, self._metrics)
            for delivery in self._hands.deliveries(consumer, stop=stop, is_over=is_over):
                with self._hands.holding(delivery) as held:
                    self._handle(held, reader)

    def _handle(self, held: Held, reader: BatchReader) -> None:
        delivery = held.delivery
        try:
            run, number = named(delivery.id, delivery.body)
            id_ = batch_id(run, number)
            if not self._is_done(delivery, run, number):
                made = reader.read(id_, delivery.body, checkpoint=held.check)
                held.confirm()
                self._store(made)
                self._note(made)
            settle(delivery.ack)
        except Conflict as lost:
            log.warning("a batch is in other hands by now", extra={"batch": delivery.id, "why": str(lost)})
        except BadInput as error:
            self._bury(delivery, str(error))
        except Unavailable as error:
            self._give_back(delivery, str(error), least=error.retry_after)
        except WebmillError as error:
            self._give_back(delivery, str(error))
            if self._options.stop_when_refused or not isinstance(error, Refused):
                raise
        except OutputFailed as failed:
            self._give_back(delivery, str(failed.error))
            raise failed.error from None
        except Exception as error:  # a mistake of ours must not stop other batches: it is told, and kept
            log.exception("a batch failed", extra={"batch": delivery.id})
            self._give_back(delivery, f"{error!r}\n{traceback.format_exc(limit=-5)}")

    def _is_done(self, delivery: Delivery, run: str, number: int) -> bool:
        """Its worker died between the spool and the ack; looked for in parts only when it was handed out before."""
        spooled = is_spooled(self._output.storage, batch_id(run, number))
        return spooled or (delivery.attempts > 1 and self._output.holds(run, number))

    def _store(self, made: Spooled) -> None:
        try:
            retrying(lambda: self._output.storage.write(key_of(made.facts.id), made.data), policy=BROKER)
        except WebmillError as error:
            self._metrics.count(counters.UPLOAD_ERRORS)
            raise OutputFailed(error) from error

    def _note(self, made: Spooled) -> None:
        facts = made.facts
        self._metrics.count(counters.BATCHES)
        self._metrics.count(counters.WRITTEN, facts.rows)
        self._metrics.count(counters.UPLOADED, len(made.data))
        with self._mutex:
            self.report.batches += 1
            self.report.items += facts.items
            self.report.rows += facts.rows
            self.report.extraction.update(facts.extraction)
            self.report.filtered.update(facts.filtered)
            self._advance(facts.items)

    def _give_back(self, delivery: Delivery, reason: str, *, least: float | None = None) -> None:
        delay = min(self._options.first_delay * 2.0 ** (delivery.attempts - 1), self._options.longest_delay)
        log.warning("a batch goes back", extra={"batch": delivery.id, "attempt": delivery.attempts, "why": reason})
        self._metrics.count(counters.BATCH_ERRORS)
        with self._mutex:
            self.report.given_back += 1
        settle(lambda: delivery.retry(reason, delay=max(delay, least or 0.0)))

    def _bury(self, delivery: Delivery, reason: str) -> None:
        log.warning("a batch is buried", extra={"batch": delivery.id, "why": reason})
        self._metrics.count(counters.BATCH_ERRORS)
        with self._mutex:
            self.report.buried += 1
        settle(lambda: delivery.bury(reason))


class OutputFailed(Exception):
    """`error` is why the output cannot be written."""

    def __init__(self, error: WebmillError) -> None:
        super().__init__(str(error))
        self.error = error
