"""Workers: batches from a queue, their captures from an archive, documents to an output.

    receive ─▶ fetch ─▶ read in a sandbox ─▶ spool, durable ─▶ ack        (and now and then: seal parts)

Several batches are worked at once, each by a thread; two of them share a sandboxed process, so that it reads pages of
the one while the other is received, fetched or stored. Downloads share their threads.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from webmill.commoncrawl.batch import batch_id
from webmill.commoncrawl.captures import Fetcher
from webmill.errors import BadInput, Conflict, Unavailable, WebmillError
from webmill.flows.extract import metrics as counters
from webmill.flows.extract.batch import BatchReader, named
from webmill.flows.extract.output import Output
from webmill.flows.extract.page import CHILD, FUNCTION, Reading
from webmill.flows.extract.spool import Spooled, is_spooled, key_of
from webmill.infra.child import Limits
from webmill.infra.metrics import Metrics
from webmill.infra.origin import Refused
from webmill.infra.queue.base import Consumer, Delivery, Queue
from webmill.infra.retry import Policy, retrying
from webmill.infra.sandbox import Sandbox

log = logging.getLogger(__name__)

GLANCE = 0.5  # seconds between two looks whether to stop
BROKER = Policy(attempts=6, first_wait=0.5, longest_wait=15.0)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds."""

    processes: int = 1
    hands: int = 1  # batches at once for each process: a second is fetched while the first is read
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
        self._held: set[Held] = set()
        self._mutex = threading.Lock()
        self._failure: BaseException | None = None
        self.report = Report()

    def run(self, *, stop: threading.Event, is_over: Callable[[], bool]) -> Report:
        """Until `stop` is set (batches at hand are finished), or the queue gives nothing and `is_over` says so."""
        options = self._options
        sandboxes = [Sandbox(FUNCTION, returns=Reading, limits=options.limits) for _ in range(options.processes)]
        hands = [
            threading.Thread(
                target=self._work, args=(sandbox, stop, is_over), name=f"webmill-hand-{number}", daemon=True
            )
            for number, sandbox in enumerate(sandboxes * options.hands)
        ]
        idle = threading.Event()
        keeper = threading.Thread(target=self._keep, args=(idle,), name="webmill-keeper", daemon=True)
        for thread in (*hands, keeper):
            thread.start()
        try:
            self._oversee(hands)
        except BaseException as error:
            self._failure = self._failure or error
            raise
        finally:
            for hand in hands:
                hand.join()
            for sandbox in sandboxes:
                sandbox.close()
            idle.set()
            keeper.join()
        if self._failure:
            raise self._failure
        return self.report

    def _oversee(self, hands: list[threading.Thread]) -> None:
        sealed = time.monotonic()
        while alive := [hand for hand in hands if hand.is_alive()]:
            alive[0].join(GLANCE)
            if self._output.folder and time.monotonic() - sealed >= self._options.seal_every:
                self._output.seal()
                sealed = time.monotonic()

    def _keep(self, idle: threading.Event) -> None:
        """Batches take long when the archive is slow or the rate is low: their leases must not run out."""
        while not idle.wait(self._options.beat):
            for held in list(self._held):
                held.extend()

    def _work(self, sandbox: Sandbox[Reading], stop: threading.Event, is_over: Callable[[], bool]) -> None:
        try:
            with self._queue.consume(prefetch=self._options.prefetch) as consumer:
                reader = BatchReader(self._fetcher, sandbox, self._output.shape, self._metrics)
                for delivery in self._deliveries(consumer, stop=stop, is_over=is_over):
                    with self._holding(delivery) as held:
                        self._handle(held, reader)
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits for us
            self._failure = self._failure or error  # and the other hands end after their batches

    def _deliveries(
        self, consumer: Consumer, *, stop: threading.Event, is_over: Callable[[], bool]
    ) -> Iterator[Delivery]:
        failures = 0
        while not stop.is_set() and not self._failure:
            try:
                delivery = consumer.receive(timeout=GLANCE)
                over = delivery is None and is_over()
                failures = 0
            except Unavailable as error:
                failures += 1
                log.warning("the queue is out of reach", extra={"why": str(error), "failures": failures})
                stop.wait(BROKER.wait(failures, retry_after=error.retry_after, random=1.0))
                continue
            if delivery:
                yield delivery
            elif over:
                return

    @contextmanager
    def _holding(self, delivery: Delivery) -> Iterator[Held]:
        held = Held(delivery)
        self._held.add(held)
        try:
            yield held
        finally:
            self._held.discard(held)

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


class Held:
    """A batch in our hands, as long as its lease lasts."""

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        self._lost: Conflict | None = None

    def extend(self) -> None:
        try:
            self.delivery.extend()
        except Conflict as error:
            self._lost = error
        except Unavailable:
            pass  # the next beat, or the confirmation, will tell

    def check(self) -> None:
        """Conflict: stop, somebody else has it."""
        if self._lost:
            raise self._lost

    def confirm(self) -> None:
        """Asks the queue itself: a process that was stopped for an hour does not know it."""
        self.check()
        retrying(self.delivery.extend, policy=BROKER)


def settle(action: Callable[[], None]) -> None:
    """Where it does not arrive, the lease runs out and the batch is handed out again: that changes nothing."""
    try:
        retrying(action, policy=BROKER)
    except (Conflict, Unavailable) as error:
        log.warning("a batch was not settled", extra={"why": str(error)})


def is_drained(queue: Queue) -> bool:
    """Nothing to hand out, now or later; a broker does not tell what other workers hold."""
    stats = queue.stats()
    return not (stats.ready or stats.leased or stats.delayed)
