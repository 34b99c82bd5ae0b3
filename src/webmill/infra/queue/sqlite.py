"""The embedded queue: one SQLite file, many processes of one machine.

A duplicate id is suppressed while its message is in the queue, buried ones included. An acked id is forgotten, so that
work published again later is handed out again; or, in a queue that remembers (`remember=True`), it stays as done with
its result, and publishing it again changes nothing: such a queue is the list of all tasks of a job, and `entries` shows
them. `publish` is one transaction: all or none. A lease ends by the wall clock, `lease` seconds after it was taken or
extended; a clock that jumps can end it early, and the token then keeps the old holder from settling.

Publishing and settling are synced to the disk. Taking a lease is not: after a power cut no holder is alive, and the
message is simply ready again.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import msgspec

from webmill.errors import Conflict, NotFound
from webmill.infra.address import scheme_of
from webmill.infra.queue.base import (
    LEASE,
    MAX_ATTEMPTS,
    MAX_BYTES,
    DeadLetter,
    Mark,
    Message,
    QueueOptions,
    QueueStats,
    checked,
    lease_expired,
    worded,
)
from webmill.infra.sqlite import Database, Row, Run, Schema, open_read_only

POLL = (0.002, 0.05)  # seconds between looks into an empty queue: from, to

READY, LEASED, DELAYED, BURIED, DONE = range(5)
REMEMBERS = "remembers"  # a mark of the queue itself

# Bodies live apart, as a change of state rewrites its whole row. `due` ends a lease or a delay; of a buried message
# it tells when. `token` is set while leased, and only then. `seq` is the order; a message keeps it through its retries.
SCHEMA = Schema(
    tag=int.from_bytes(b"wmQu"),
    steps=(
        """
        CREATE TABLE message (
            seq INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            state INTEGER NOT NULL DEFAULT 0,
            due REAL,
            token INTEGER,
            attempts INTEGER NOT NULL DEFAULT 0,
            expired INTEGER NOT NULL DEFAULT 0,
            first_error TEXT NOT NULL DEFAULT '',
            last_error TEXT NOT NULL DEFAULT ''
        ) STRICT;
        CREATE INDEX message_order ON message (state, seq);
        CREATE INDEX message_due ON message (due) WHERE state IN (1, 2);
        CREATE TABLE body (
            seq INTEGER PRIMARY KEY REFERENCES message (seq) ON DELETE CASCADE,
            body BLOB NOT NULL
        ) STRICT;
        """,
        "CREATE TABLE mark (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;",
        "ALTER TABLE message ADD COLUMN changed REAL NOT NULL DEFAULT 0; ALTER TABLE message ADD COLUMN result BLOB;",
    ),
)
STATES = "SELECT state, count(*) FROM message GROUP BY state"
FIRST_BURIED = (
    "SELECT seq, id, body, last_error, attempts, first_error, last_error, due"
    " FROM message JOIN body USING (seq) WHERE state = 3 AND seq > ? ORDER BY seq LIMIT 1"
)
ENTRIES = "SELECT seq, id, state, attempts, last_error, changed, result FROM message WHERE seq > ? ORDER BY seq LIMIT ?"
AT_ONCE = 500  # entries in memory, twice
FORGOTTEN = "UPDATE message SET state = 4, due = NULL"  # where it would be planned again, if nothing were known of it
REQUEUE = (
    "UPDATE message SET state = 0, due = NULL, attempts = 0, expired = 0, first_error = '', last_error = ''"
    " WHERE state = 3"
)


class TaskEntry(msgspec.Struct, frozen=True):
    """What a queue knows of a message. `reason` is the last failure, `changed` the time of the last event."""

    id: str
    state: Literal["ready", "leased", "delayed", "buried", "done"]
    attempts: int = 0
    reason: str = ""
    changed: float = 0.0
    result: bytes | None = None


STATE_NAMES: tuple[Literal["ready", "leased", "delayed", "buried", "done"], ...] = (
    "ready", "leased", "delayed", "buried", "done",
)  # fmt: skip


def open_sqlite(url: str, options: QueueOptions) -> SqliteQueue:
    return SqliteQueue(file_of(url, options), max_attempts=options.attempts, lease=options.lease)


def view_sqlite(url: str, options: QueueOptions) -> AbstractContextManager[SqliteQueueReader]:
    return viewed_file(file_of(url, options))


@contextmanager
def viewed_file(file: Path) -> Iterator[SqliteQueueReader]:
    """Look by reading alone: no file is made, and a lease that is over still counts as leased."""
    if not file.is_file():
        raise NotFound(f"no queue {file}")
    with open_read_only(file) as read:
        yield SqliteQueueReader(read)


def file_of(url: str, options: QueueOptions) -> Path:
    return options.folder / scheme_of(url)[1]


class SqliteQueueReader:
    """What one sees who reads the file; one buried message in memory at a time."""

    def __init__(self, read: Run) -> None:
        self._read = read

    def buried(self) -> Iterator[DeadLetter]:
        return _buried(self._read)

    def stats(self) -> QueueStats:
        return _stats(self._read(STATES))

    def entries(self) -> Iterator[TaskEntry]:
        """Yield what is known of every message, in the order of publishing."""
        return _entries(self._read)


def _entries(read: Run) -> Iterator[TaskEntry]:
    seq = -1
    while rows := read(ENTRIES, (seq, AT_ONCE)):
        for _, id_, number, attempts, reason, changed, result in rows:
            yield TaskEntry(id_, STATE_NAMES[number], attempts, reason, changed, result)
        seq = rows[-1][0]


def _buried(read: Run) -> Iterator[DeadLetter]:
    seq = -1
    while rows := read(FIRST_BURIED, (seq,)):
        seq, *fields = rows[0]
        yield DeadLetter(*fields)


def _stats(rows: list[Row]) -> QueueStats:
    count: dict[int, int] = dict(rows)
    return QueueStats(*(count.get(state, 0) for state in (READY, LEASED, DELAYED, BURIED, DONE)))


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
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._max_attempts = max_attempts
        self._max_bytes = max_bytes
        self._lease = lease
        self._clock = clock
        self._database = Database(path, schema=SCHEMA)
        self._remember = self.mark(REMEMBERS) is not None
        if remember and not self._remember:  # whoever opens the file later must not forget what is done
            self.publish([], mark=Mark(REMEMBERS, b""))
            self._remember = True

    def publish(self, messages: Iterable[Message], *, mark: Mark | None = None) -> int:
        accepted, new = checked(messages, max_bytes=self._max_bytes), 0
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
        rows = self._database.read("SELECT value FROM mark WHERE name = ?", (name,))
        return rows[0][0] if rows else None

    def entries(self) -> Iterator[TaskEntry]:
        """Yield what is known of every message, in the order of publishing."""
        self._sweep_if_due()
        yield from _entries(self._database.read)

    def end_leases(self) -> None:
        """For a caller who knows that no holder lives: what they held is ready again, at its old place, and being held
        by a process that was killed costs no attempt. So is what was to be tried later, by whatever clock.
        """
        with self._database.write() as run:
            run(
                "UPDATE message SET due = NULL, token = NULL, attempts = max(0, attempts - (state = 1)), state = 0"
                " WHERE state IN (1, 2)"
            )

    def consume(self, *, prefetch: int = 1) -> SqliteConsumer:
        return SqliteConsumer(self, prefetch=prefetch)

    def buried(self) -> Iterator[DeadLetter]:
        """One message in memory at a time; what is buried meanwhile may or may not be told."""
        self._sweep_if_due()
        yield from _buried(self._database.read)

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
        return _stats(self._database.read(STATES))

    def close(self) -> None:
        self._database.close()

    # --- for the consumer and its deliveries ---

    def claim(self, count: int) -> list[SqliteDelivery]:
        """Lease up to `count` ready messages under one token."""
        if not self._has_work():
            return []  # an empty queue that is looked at often is not locked each time
        lease = Lease(secrets.randbits(62), until=self._clock() + self._lease)
        with self._database.write_relaxed() as run:
            self._sweep(run)
            rows = run(
                "UPDATE message SET state = 1, token = ?, due = ?, changed = ?, attempts = attempts + 1 WHERE seq IN"
                " (SELECT seq FROM message WHERE state = 0 ORDER BY seq LIMIT ?) RETURNING seq, id, attempts",
                (lease.token, lease.until, self._clock(), count),
            )
            bodies = {seq: run("SELECT body FROM body WHERE seq = ?", (seq,))[0][0] for seq, _, _ in rows}
        return [SqliteDelivery(self, lease, seq, id_, bodies[seq], attempts) for seq, id_, attempts in sorted(rows)]

    def settle(self, delivery: SqliteDelivery, result: bytes) -> None:
        """Forget a message that is done, or note that it is."""
        with self._database.write() as run:
            now = self._clock()
            fence = (delivery.seq, delivery.lease.token, now)
            if not self._remember:
                if not run("DELETE FROM message WHERE seq = ? AND token = ? AND due > ? RETURNING 1", fence):
                    raise over(delivery)
                return
            if not run(
                "UPDATE message SET state = 4, due = NULL, token = NULL, last_error = '', changed = ?, result = ?"
                " WHERE seq = ? AND token = ? AND due > ? RETURNING 1",
                (now, result, *fence),
            ):
                raise over(delivery)
            run("DELETE FROM body WHERE seq = ?", (delivery.seq,))

    def move(self, delivery: SqliteDelivery, state: int, *, reason: str, due: float) -> None:
        """Take a leased message to another state, with what went wrong."""
        reason = worded(reason)
        with self._database.write() as run:
            if not run(
                "UPDATE message SET state = ?, due = ?, token = NULL, last_error = ?, changed = ?,"
                " first_error = iif(first_error = '', ?, first_error)"
                " WHERE seq = ? AND token = ? AND due > ? RETURNING 1",
                (state, due, reason, now := self._clock(), reason, delivery.seq, delivery.lease.token, now),
            ):
                raise over(delivery)

    def retry(self, delivery: SqliteDelivery, reason: str, *, delay: float) -> None:
        state = BURIED if delivery.attempts >= self._max_attempts else DELAYED if delay > 0 else READY
        self.move(delivery, state, reason=reason, due=self._clock() + (delay if state == DELAYED else 0.0))

    def bury(self, delivery: SqliteDelivery, reason: str) -> None:
        self.move(delivery, BURIED, reason=reason, due=self._clock())

    def extend(self, delivery: SqliteDelivery) -> None:
        """All that is still held under the same token, so that what was fetched ahead does not run out behind it."""
        now, lease = self._clock(), delivery.lease
        with self._database.write_relaxed() as run:
            extended = "UPDATE message SET due = ? WHERE state = 1 AND token = ? AND due > ? RETURNING seq"
            if (delivery.seq,) not in run(extended, (now + self._lease, lease.token, now)):
                raise over(delivery)
        lease.until = now + self._lease

    def is_held(self, delivery: SqliteDelivery) -> bool:
        """Whether a delivery that waited its turn still has a good part of its lease; extended if need be."""
        if delivery.lease.until - self._clock() > self._lease / 2:
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
        due = "SELECT 1 FROM message WHERE state IN (1, 2) AND due <= ? LIMIT 1"
        return bool(self._database.read(due, (self._clock(),)))

    def _sweep_if_due(self) -> None:
        if self._is_due():
            with self._database.write() as run:
                self._sweep(run)

    def _sweep(self, run: Run) -> None:
        """Delays that ended become ready; so do leases that ran out, or they are buried when that was the last try."""
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
class Lease:
    """What the messages of one claim have in common."""

    token: int
    until: float


@dataclass(frozen=True)
class SqliteDelivery:
    queue: SqliteQueue
    lease: Lease
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
            if self._queue.is_held(delivery):
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
        """SQLite tells other processes nothing: we look, less often as time goes by."""
        deadline, pause = time.monotonic() + timeout, POLL[0]
        while not (found := self._queue.claim(self._prefetch)):
            left = deadline - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(pause, left))
            pause = min(pause * 2, POLL[1])
        return found


def over(delivery: SqliteDelivery) -> Conflict:
    return Conflict(
        f"the lease of message {delivery.id} is over: it may be in other hands, leave its output unpublished"
    )
