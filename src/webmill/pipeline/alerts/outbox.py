"""The outbox of a target: a queue in order, with how far the target has been told in the same file."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

import msgspec

from webmill.errors import Unavailable, WebmillError
from webmill.infra import atomic
from webmill.infra.notify.base import Notification
from webmill.infra.queue.base import DeadLetter, Delivery, Mark, Message, QueueStats
from webmill.infra.queue.sqlite import SqliteQueue
from webmill.infra.retry import BackoffPolicy, retrying
from webmill.pipeline.alerts.digests import TargetState
from webmill.pipeline.alerts.messages import render_message
from webmill.pipeline.alerts.targets import AlertTarget, outbox_file
from webmill.pipeline.alerts.types import AlertMessage

log = logging.getLogger(__name__)

STATE = "state"  # the mark of the queue that holds it
LEASE = 3600.0  # seconds; nobody else delivers meanwhile, and who was killed is noticed before
AT_ONCE = BackoffPolicy(
    attempts=3, first_wait=1.0, longest_wait=5.0, deadline=20.0
)  # a server that is down for a moment
LONGEST_WAIT = 6 * 3600.0  # seconds between two attempts

Send = Callable[[Notification], None]


class DeliveryReport(msgspec.Struct):
    """What became of the messages of a target. `reason`: of the last failure."""

    sent: int = 0
    failed: int = 0
    reason: str = ""


class TargetOutbox:
    """Opened by one process at a time: whoever delivers holds the lock of the folder (`run.py`)."""

    def __init__(
        self,
        root: Path,
        target: AlertTarget,
        *,
        attempts: int,
        retry_wait: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        file = outbox_file(root, target.key)
        atomic.make_folder(file.parent)
        self.target, self._clock = target, clock
        self._backoff = BackoffPolicy(
            first_wait=retry_wait, longest_wait=LONGEST_WAIT, longest_retry_after=LONGEST_WAIT
        )
        self._queue = SqliteQueue(file, max_attempts=attempts, lease=LEASE, in_order=True, clock=clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._queue.close()

    # --- what is to be told ---

    def state(self) -> TargetState | None:
        """Return how far the target was told; None before it was registered."""
        data = self._queue.mark(STATE)
        return msgspec.json.decode(data, type=TargetState) if data else None

    def register(self, version: str | None) -> None:
        """Begin to tell what changes after this version, unless the target is known."""
        if self.state() is None:
            self.put([], TargetState(version, self.target.shown))

    def put(self, messages: Iterable[Message], state: TargetState) -> int:
        """Keep the messages to be sent and the new state, or neither."""
        return self._queue.publish(messages, mark=Mark(STATE, msgspec.json.encode(state)))

    def put_early(self, messages: Iterable[Message]) -> int:
        """Keep some messages of a state that is still being made. Made again after a kill they have the same ids."""
        return self._queue.publish(messages)

    # --- what is sent ---

    def deliver(self, send: Send) -> DeliveryReport:
        """Send what waits, in order, up to the first failure. One that is given up does not hold the others back."""
        report = DeliveryReport()
        self._queue.release_leased()  # whoever was killed while sending one
        with self._queue.consume() as consumer:
            while delivery := consumer.receive(timeout=0):
                self._deliver_one(delivery, send, report)
        return report

    def _deliver_one(self, delivery: Delivery, send: Send, report: DeliveryReport) -> None:
        try:
            notification = render_message(delivery.body)
            retrying(lambda: send(notification), policy=AT_ONCE)
        except WebmillError as error:
            asked = error.retry_after if isinstance(error, Unavailable) else None
            wait = self._backoff.wait(delivery.attempts, retry_after=asked, random=random.uniform(0.5, 1.0))  # noqa: S311
            log.info("an alert was not delivered", extra={"to": self.target.shown, "why": str(error)})
            delivery.retry(str(error), delay=max(wait, 1e-3))
            report.failed += 1
            report.reason = str(error)
        else:
            delivery.ack()
            report.sent += 1

    def retry(self, ids: Iterable[str] | None = None) -> int:
        """Try again at once what waits for its next attempt, and what was given up; return how many were given up."""
        self._queue.end_delays()
        return self._queue.requeue(ids)

    # --- what there is ---

    def stats(self) -> QueueStats:
        return self._queue.stats()

    def dead_letters(self) -> list[DeadLetter]:
        return [*self._queue.dead_letters()]

    def next_due(self) -> float | None:
        """Return when something is to be done: an attempt to send, or a digest. None: nothing waits."""
        state = self.state()
        digests = [waiting.due(digest) for digest, waiting in state.pending.items()] if state else []
        attempt = self._queue.next_due()
        return min([*digests, *([attempt] if attempt is not None else [])], default=None)


def read_message(body: bytes) -> AlertMessage:
    return msgspec.json.decode(body, type=AlertMessage)
