"""The embedded queue: one SQLite file, many processes of one machine.

A duplicate id is suppressed while its message is in the queue, buried ones included. An acked id is forgotten, so that
work published again later is handed out again; or, in a queue that remembers (`remember=True`), it stays as done with
its result, and publishing it again changes nothing: such a queue is the list of all tasks of a job, and `entries` shows
them. `publish` is one transaction: all or none. A lease ends by the wall clock, `lease` seconds after it was taken or
extended; a clock that is set forward can end it early, and the token then keeps the old holder from settling. When the
clock is set back, leases and delays of before keep their length, counted from the moment when that is noticed.

A queue that is opened `in_order` hands out a message only when all before it are done or buried: one that waits for its
next attempt holds the others back. It is for one consumer at a time.

Publishing and settling are synced to the disk. Taking a lease is not: after a power cut no holder is alive, and the
message is simply ready again.
"""

from __future__ import annotations

import math
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from webmill.errors import Conflict
from webmill.infra import waiting
from webmill.infra.queue.base import (
    LEASE,
    MAX_ATTEMPTS,
    MAX_BYTES,
    DeadLetter,
    Mark,
    Message,
    QueueOptions,
    QueueStats,
    check_messages,
    clip_reason,
    lease_expired,
)
from webmill.infra.queue.sqlite_reader import (
    BURIED,
    DELAYED,
    READY,
    SCHEMA,
    STATES,
    TaskEntry,
    file_of,
    read_dead_letters,
    read_entries,
    read_mark,
    read_next_due,
    stats_of,
)
from webmill.infra.sqlite import Database, Run

REMEMBERS = "remembers"  # a mark of the queue itself
POLL = (0.002, 0.05)  # seconds between polls of an empty queue: from, to

CLAIM = (
    "UPDATE message SET state = 1, token = ?, due = ?, changed = ?, attempts = attempts + 1 WHERE seq IN"
    " (SELECT seq FROM message WHERE state = 0 ORDER BY seq LIMIT ?) RETURNING seq, id, attempts"
)
CLAIM_IN_ORDER = CLAIM.replace(
    "state = 0 ", "state = 0 AND seq < ifnull((SELECT min(seq) FROM message WHERE state IN (1, 2)), 9e18) "
)
FORGOTTEN = "UPDATE message SET state = 4, due = NULL"  # where it would be planned again, if nothing were known of it
REQUEUE = (
    "UPDATE message SET state = 0, due = NULL, attempts = 0, expired = 0, first_error = '', last_error = ''"
    " WHERE state = 3"
)


def open_sqlite(url: str, options: QueueOptions) -> SqliteQueue:
    return SqliteQueue(file_of(url, options), max_attempts=options.attempts, lease=options.lease)


class SqliteQueue:
    """Safe to share between threads; every process opens its own."""

    def __init__(
        self,
        path: Path | None,
        *,
        max_attempts: int = MAX_ATTEMPTS,
        max_bytes: int = MAX_BYTES,
        lease: float = LEASE,
        remember: bool = False,
        in_order: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._max_attempts = max_attempts
        self._max_bytes = max_bytes
        self._lease = lease
        self._claim = CLAIM_IN_ORDER if in_order else CLAIM
        self._clock = clock
        self._last_time = math.inf  # of the clock; nothing is known of the time before this process
        self._database = Database(path, schema=SCHEMA)
        self._remember = self.mark(REMEMBERS) is not None
        if remember and not self._remember:  # whoever opens the file later must not forget what is done
            self.publish([], mark=Mark(REMEMBERS, b""))
            self._remember = True

    def publish(self, messages: Iterable[Message], *, mark: Mark | None = None) -> int:
        accepted, new = check_messages(messages, max_bytes=self._max_bytes), 0
        with self._database.write() as run:
            for message in accepted:
                if rows := run(
                    "INSERT INTO message (id) VALUES (?) ON CONFLICT DO NOTHING RETURNING seq", (message.id,)
                ):
                    run("INSERT INTO body VALUES (?, ?)", (rows[0][0], message.body))
                    new += 1
            if mark:
                run("INSERT OR REPLACE INTO mark VALUES (?, ?)", (mark.name, mark.value))
        return new

    def mark(self, name: str) -> bytes | None:
        return read_mark(self._database.read, name)

    def entries(self) -> Iterator[TaskEntry]:
        """Yield the state of every message, in the order of publishing."""
        self._sweep_if_due()
        yield from read_entries(self._database.read)

    def end_leases(self) -> None:
        """Make all leased and delayed messages ready again, at their old places; a lease that ends so costs no attempt.

        For a caller who knows that no process works on the queue.
        """
        with self._database.write() as run:
            run(
                "UPDATE message SET due = NULL, token = NULL, attempts = max(0, attempts - (state = 1)), state = 0"
                " WHERE state IN (1, 2)"
            )

    def release_leased(self) -> None:
        """Make leased messages ready again; the attempt is counted. For a caller who knows that no process works on the
        queue: one that was killed has left them."""
        with self._database.write() as run:
            run("UPDATE message SET state = 0, due = NULL, token = NULL WHERE state = 1")

    def end_delays(self) -> None:
        """Make messages that wait for their next attempt ready now."""
        with self._database.write() as run:
            run("UPDATE message SET state = 0, due = NULL WHERE state = 2")

    def next_due(self) -> float | None:
        """Return when the first message that is not done or buried may be handed out; None if there is none."""
        return read_next_due(self._database.read)

    def consume(self, *, prefetch: int = 1) -> SqliteConsumer:
        return SqliteConsumer(self, prefetch=prefetch)

    def dead_letters(self) -> Iterator[DeadLetter]:
        """Yield the dead letters, one in memory at a time; what is buried meanwhile may or may not be among them."""
        self._sweep_if_due()
        yield from read_dead_letters(self._database.read)

    def requeue(self, ids: Iterable[str] | None = None) -> int:
        self._sweep_if_due()
        with self._database.write() as run:
            if ids is None:
                return len(run(REQUEUE + " RETURNING 1"))
            return sum(len(run(REQUEUE + " AND id = ? RETURNING 1", (id_,))) for id_ in ids)

    def drop(self, ids: Iterable[str]) -> int:
        self._sweep_if_due()
        with self._database.write() as run:
            forget = FORGOTTEN if self._remember else "DELETE FROM message"
            return sum(len(run(f"{forget} WHERE state = 3 AND id = ? RETURNING 1", (id_,))) for id_ in ids)

    def stats(self) -> QueueStats:
        self._sweep_if_due()
        return stats_of(self._database.read(STATES))

    def close(self) -> None:
        self._database.close()

    def forget_done(self, ids: Iterable[str] | None = None) -> None:
        """Forget what is done, or these of it, in a queue that remembers it, so that it can be published again."""
        with self._database.write() as run:
            if ids is None:
                run("DELETE FROM message WHERE state = 4")
            for id_ in ids or ():
                run("DELETE FROM message WHERE state = 4 AND id = ?", (id_,))

    # --- for the consumer and its deliveries ---

    def claim(self, count: int) -> list[SqliteDelivery]:
        """Lease up to `count` ready messages under one token."""
        if not self._has_work():
            return []  # an empty queue that is polled often is not locked each time
        lease = SqliteLease(secrets.randbits(62), until=self._clock() + self._lease)
        with self._database.write_relaxed() as run:
            self._sweep(run)
            rows = run(self._claim, (lease.token, lease.until, self._clock(), count))
            bodies = {seq: run("SELECT body FROM body WHERE seq = ?", (seq,))[0][0] for seq, _, _ in rows}
        return [SqliteDelivery(self, lease, seq, id_, bodies[seq], attempts) for seq, id_, attempts in sorted(rows)]

    def settle(self, delivery: SqliteDelivery, result: bytes) -> None:
        """Forget a message that is done, or keep it as done."""
        with self._database.write() as run:
            now = self._clock()
            fence = (delivery.seq, delivery.lease.token, now)
            if not self._remember:
                if not run("DELETE FROM message WHERE seq = ? AND token = ? AND due > ? RETURNING 1", fence):
                    raise lease_over_error(delivery)
                return
            if not run(
                "UPDATE message SET state = 4, due = NULL, token = NULL, last_error = '', changed = ?, result = ?"
                " WHERE seq = ? AND token = ? AND due > ? RETURNING 1",
                (now, result, *fence),
            ):
                raise lease_over_error(delivery)
            run("DELETE FROM body WHERE seq = ?", (delivery.seq,))

    def move(self, delivery: SqliteDelivery, state: int, *, reason: str, due: float) -> None:
        """Take a leased message to another state, with what went wrong."""
        reason = clip_reason(reason)
        with self._database.write() as run:
            if not run(
                "UPDATE message SET state = ?, due = ?, token = NULL, last_error = ?, changed = ?,"
                " first_error = iif(first_error = '', ?, first_error)"
                " WHERE seq = ? AND token = ? AND due > ? RETURNING 1",
                (state, due, reason, now := self._clock(), reason, delivery.seq, delivery.lease.token, now),
            ):
                raise lease_over_error(delivery)

    def retry(self, delivery: SqliteDelivery, reason: str, *, delay: float) -> None:
        state = BURIED if delivery.attempts >= self._max_attempts else DELAYED if delay > 0 else READY
        self.move(delivery, state, reason=reason, due=self._clock() + (delay if state == DELAYED else 0.0))

    def bury(self, delivery: SqliteDelivery, reason: str) -> None:
        self.move(delivery, BURIED, reason=reason, due=self._clock())

    def extend(self, delivery: SqliteDelivery) -> None:
        """Extend all that is leased under the same token, so that messages fetched ahead do not expire meanwhile."""
        now, lease = self._clock(), delivery.lease
        with self._database.write_relaxed() as run:
            extended = "UPDATE message SET due = ? WHERE state = 1 AND token = ? AND due > ? RETURNING seq"
            if (delivery.seq,) not in run(extended, (now + self._lease, lease.token, now)):
                raise lease_over_error(delivery)
        lease.until = now + self._lease

    def is_still_leased(self, delivery: SqliteDelivery) -> bool:
        """Return whether a prefetched message is still leased, extending a lease that is more than half over, or that
        cannot be judged since the clock was set back."""
        if self._lease / 2 < delivery.lease.until - self._clock() <= self._lease:
            return True
        try:
            self.extend(delivery)
        except Conflict:
            return False
        return True

    def give_back(self, deliveries: Iterable[SqliteDelivery]) -> None:
        with self._database.write_relaxed() as run:
            for delivery in deliveries:
                run(
                    "UPDATE message SET state = 0, due = NULL, token = NULL, attempts = attempts - 1"
                    " WHERE seq = ? AND token = ?",
                    (delivery.seq, delivery.lease.token),
                )

    # --- what time decides ---

    def _has_work(self) -> bool:
        ready = "SELECT 1 FROM message WHERE state = 0 LIMIT 1"
        return bool(self._database.read(ready)) or self._is_due()

    def _is_due(self) -> bool:
        now = self._clock()
        if now < self._last_time:
            self._keep_lengths(now)
        self._last_time = now
        due = "SELECT 1 FROM message WHERE state IN (1, 2) AND due <= ? LIMIT 1"
        return bool(self._database.read(due, (now,)))

    def _keep_lengths(self, now: float) -> None:
        """Let leases and delays that began in the future, by a clock that was set back since, begin now. Else what a
        dead worker had would wait until the clock is there again."""
        ahead = "FROM message WHERE state IN (1, 2) AND changed > ?"
        if self._database.read(f"SELECT 1 {ahead} LIMIT 1", (now,)):
            with self._database.write() as run:
                run(
                    "UPDATE message SET due = due - changed + ?, changed = ? WHERE state IN (1, 2) AND changed > ?",
                    (now, now, now),
                )

    def _sweep_if_due(self) -> None:
        if self._is_due():
            with self._database.write() as run:
                self._sweep(run)

    def _sweep(self, run: Run) -> None:
        """Make ready what was delayed long enough, and expired leases, or bury those that had their last attempt."""
        now = self._clock()
        overdue = "SELECT seq, state, attempts, expired FROM message WHERE state IN (1, 2) AND due <= ?"
        for seq, state, attempts, expired in run(overdue, (now,)):
            if state == DELAYED:
                run("UPDATE message SET state = 0, due = NULL WHERE seq = ?", (seq,))
                continue
            after, reason = (BURIED if attempts >= self._max_attempts else READY), lease_expired(expired + 1)
            run(
                "UPDATE message SET state = ?, due = ?, token = NULL, expired = expired + 1, last_error = ?,"
                " first_error = iif(first_error = '', ?, first_error) WHERE seq = ?",
                (after, now, reason, reason, seq),
            )


@dataclass
class SqliteLease:
    """The lease that the messages of one claim share."""

    token: int
    until: float


@dataclass(frozen=True)
class SqliteDelivery:
    queue: SqliteQueue
    lease: SqliteLease
    seq: int
    id: str
    body: bytes
    attempts: int

    def ack(self, result: bytes = b"") -> None:
        self.queue.settle(self, result)

    def retry(self, reason: str, *, delay: float = 0.0) -> None:
        self.queue.retry(self, reason, delay=delay)

    def bury(self, reason: str) -> None:
        self.queue.bury(self, reason)

    def extend(self) -> None:
        self.queue.extend(self)


class SqliteConsumer:
    def __init__(self, queue: SqliteQueue, *, prefetch: int) -> None:
        self._queue = queue
        self._prefetch = prefetch
        self._ahead: deque[SqliteDelivery] = deque()

    def receive(self, *, timeout: float) -> SqliteDelivery | None:
        while self._ahead:
            delivery = self._ahead.popleft()
            if self._queue.is_still_leased(delivery):
                return delivery
        self._ahead.extend(self._wait(timeout))
        return self._ahead.popleft() if self._ahead else None

    def close(self) -> None:
        self._queue.give_back(self._ahead)
        self._ahead.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait(self, timeout: float) -> list[SqliteDelivery]:
        """Poll until there is something, less often as time goes by: SQLite does not notify other processes."""
        deadline, pause = time.monotonic() + timeout, POLL[0]
        while not (found := self._queue.claim(self._prefetch)):
            left = deadline - time.monotonic()
            if left <= 0:
                break
            waiting.sleep(min(pause, left))
            pause = min(pause * 2, POLL[1])
        return found


def lease_over_error(delivery: SqliteDelivery) -> Conflict:
    return Conflict(
        f"the lease of message {delivery.id} is over: another worker may have it, so its output must not be published"
    )
