"""Which work is planned, running, done and failed: the memory of every restartable job, in one SQLite file.

    plan ─▶ planned ─▶ running ─▶ done
              ▲  ▲        ├─▶ failed(retryable) ─▶ planned, after a delay
              │  └────────┤   lease over
              │           └─▶ failed(not retryable), or too many attempts ─▶ failed, with the reason
              └───────────────────────────── redrive ──────────────────────────┘

Promises
- `plan` is idempotent: a task that is known stays as it is. The same id with another payload is a Conflict: ids must
  be derived from the input and the settings, so that a changed setting is another task and outputs never mix.
- A claim is fenced by its token: once its lease is over or it was settled, every call with it raises Conflict, and
  what was made under it must not be published.
- A task runs at most `max_attempts` times, also when it kills its worker each time; then it is failed with a reason.
- `done` and `failed` are on the disk when they return. Write the output first, then call `done`.
- The last two checkpoints of a task are kept, with a checksum: a damaged one is passed over, and that is logged.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from webmill.errors import BadInput, Conflict
from webmill.infra.looking import reading
from webmill.infra.queue.base import lease_expired, worded
from webmill.infra.sqlite import Database, Row, Run, Schema

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 5
MAX_BYTES = 16 * 1024 * 1024

State = Literal["planned", "running", "done", "failed"]

# `due` ends the lease of a running task, or the delay of a planned one. Payloads live apart: see queue/sqlite.py.
SCHEMA = Schema(
    tag=int.from_bytes(b"wmLe"),
    steps=(
        """
        CREATE TABLE task (
            seq INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            state TEXT NOT NULL DEFAULT 'planned',
            due REAL NOT NULL DEFAULT 0,
            token INTEGER,
            attempts INTEGER NOT NULL DEFAULT 0,
            expired INTEGER NOT NULL DEFAULT 0,
            worker TEXT NOT NULL DEFAULT '',
            reason TEXT NOT NULL DEFAULT '',
            result BLOB,
            changed REAL NOT NULL
        ) STRICT;
        CREATE INDEX task_due ON task (state, due, seq);
        CREATE TABLE payload (
            seq INTEGER PRIMARY KEY REFERENCES task (seq) ON DELETE CASCADE,
            payload BLOB NOT NULL
        ) STRICT;
        CREATE TABLE checkpoint (
            seq INTEGER NOT NULL REFERENCES task (seq) ON DELETE CASCADE,
            number INTEGER NOT NULL,
            data BLOB NOT NULL,
            checksum BLOB NOT NULL,
            PRIMARY KEY (seq, number)
        ) STRICT, WITHOUT ROWID;
        """,
    ),
)
STATES = "SELECT state, count(*) FROM task GROUP BY state"
RESULTS = (  # by the order of the table: an index would be sorted anew for each part
    "SELECT seq, result FROM task NOT INDEXED WHERE state = 'done' AND result IS NOT NULL AND seq > ?"
    " ORDER BY seq LIMIT ?"
)
AT_ONCE = 500  # results in memory, twice
PAYLOAD = "SELECT payload FROM task JOIN payload USING (seq) WHERE id = ?"
REDRIVE = (
    "UPDATE task SET state = 'planned', due = 0, attempts = 0, expired = 0, reason = '', changed = ?"
    " WHERE state = 'failed'"
)


class Task(msgspec.Struct, frozen=True):
    id: str
    payload: bytes


class Claim(msgspec.Struct, frozen=True):
    """One task in one worker's hands, with the last good checkpoint of whoever had it before."""

    task_id: str
    payload: bytes
    token: int
    attempt: int
    lease: float
    checkpoint: bytes | None


class Entry(msgspec.Struct, frozen=True):
    """What is known of a task. `reason` is the last failure, `changed` the time of the last event."""

    id: str
    state: State
    attempts: int
    worker: str
    reason: str
    result: bytes | None
    changed: float


class Counts(msgspec.Struct, frozen=True):
    planned: int
    running: int
    done: int
    failed: int


class Ledger:
    """Safe to share between threads; every process opens its own."""

    def __init__(
        self, path: Path | None, *, max_attempts: int = MAX_ATTEMPTS, clock: Callable[[], float] = time.time
    ) -> None:
        self._max_attempts = max_attempts
        self._clock = clock
        self._database = Database(path, schema=SCHEMA)

    def close(self) -> None:
        self._database.close()

    def verify(self) -> None:
        """BadInput (corrupt) when the file is damaged."""
        self._database.verify()

    def plan(self, tasks: Iterable[Task]) -> int:
        """All of them or none; how many were new."""
        new = 0
        with self._database.write() as run:
            for task in tasks:
                insert = "INSERT INTO task (id, changed) VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING seq"
                if rows := run(insert, (task.id, self._clock())):
                    run("INSERT INTO payload VALUES (?, ?)", (rows[0][0], task.payload))
                    new += 1
                elif run(PAYLOAD, (task.id,)) != [(task.payload,)]:
                    raise Conflict(f"task {task.id} is planned already, with another payload: a change needs a new id")
        return new

    def claim(self, worker: str, *, lease: float = 60.0) -> Claim | None:
        """The first task that is due, or None: none is planned, or all that are wait out a delay."""
        token, now = secrets.randbits(62), self._clock()
        if not self._database.read(
            "SELECT 1 FROM task WHERE state IN ('planned', 'running') AND due <= ? LIMIT 1", (now,)
        ):
            return None  # the file is not locked by those who only look
        with self._database.write_relaxed() as run:  # after a power cut nobody holds it: planned again is right
            self._sweep(run, now=now)
            rows = run(
                "UPDATE task SET state = 'running', token = ?, due = ?, worker = ?, changed = ?,"
                " attempts = attempts + 1 WHERE seq ="
                " (SELECT seq FROM task WHERE state = 'planned' AND due <= ? ORDER BY due, seq LIMIT 1)"
                " RETURNING seq, id, attempts",
                (token, now + lease, worker, now, now),
            )
            if not rows:
                return None
            seq, id_, attempt = rows[0]
            payload: bytes = run("SELECT payload FROM payload WHERE seq = ?", (seq,))[0][0]
            return Claim(id_, payload, token, attempt, lease, last_good(run, seq, task_id=id_))

    def renew(self, claim: Claim) -> None:
        """The lease starts anew."""
        with self._database.write_relaxed() as run:
            run("UPDATE task SET due = ? WHERE seq = ?", (self._clock() + claim.lease, self._held(run, claim)))

    def checkpoint(self, claim: Claim, data: bytes) -> None:
        """How far it got; the next claim of this task begins there. Also renews the lease."""
        if len(data) > MAX_BYTES:
            raise BadInput(f"a checkpoint of {len(data):,} bytes: keep it under {MAX_BYTES:,}", reason="too_large")
        with self._database.write() as run:
            seq = self._held(run, claim)
            last: int = run("SELECT coalesce(max(number), 0) FROM checkpoint WHERE seq = ?", (seq,))[0][0]
            checksum = checksum_of(claim.task_id, last + 1, data)
            run("INSERT INTO checkpoint VALUES (?, ?, ?, ?)", (seq, last + 1, data, checksum))
            run("DELETE FROM checkpoint WHERE seq = ? AND number < ?", (seq, last))
            run("UPDATE task SET due = ? WHERE seq = ?", (self._clock() + claim.lease, seq))

    def done(self, claim: Claim, result: bytes = b"") -> None:
        with self._database.write() as run:
            seq = self._held(run, claim)
            run("DELETE FROM checkpoint WHERE seq = ?", (seq,))
            run(
                "UPDATE task SET state = 'done', token = NULL, due = 0, reason = '', result = ?, changed = ?"
                " WHERE seq = ?",
                (result, self._clock(), seq),
            )

    def failed(self, claim: Claim, reason: str, *, retryable: bool, delay: float = 0.0) -> None:
        """Planned again after `delay` seconds when it may work later and has attempts left; else failed for good."""
        again = retryable and claim.attempt < self._max_attempts
        state, now = ("planned" if again else "failed"), self._clock()
        with self._database.write() as run:
            run(
                "UPDATE task SET state = ?, token = NULL, due = ?, reason = ?, changed = ? WHERE seq = ?",
                (state, now + delay, worded(reason), now, self._held(run, claim)),
            )

    def redrive(self, ids: Iterable[str] | None = None) -> int:
        """Give failed tasks (None: all) fresh attempts, from their last checkpoint; how many there were."""
        self._sweep_if_due()
        with self._database.write() as run:
            if ids is None:
                return len(run(REDRIVE + " RETURNING 1", (self._clock(),)))
            return sum(len(run(REDRIVE + " AND id = ? RETURNING 1", (self._clock(), id_))) for id_ in ids)

    def counts(self) -> Counts:
        self._sweep_if_due()
        return _counts(self._database.read(STATES))

    def entries(self, state: State | None = None) -> Iterator[Entry]:
        """In the order of planning; one in memory at a time."""
        self._sweep_if_due()
        seq = -1
        while rows := self._database.read(
            "SELECT seq, id, state, attempts, worker, reason, result, changed FROM task"
            " WHERE seq > ? AND state = coalesce(?, state) ORDER BY seq LIMIT 1",
            (seq, state),
        ):
            seq, *fields = rows[0]
            yield Entry(*fields)

    def find(self, task_id: str) -> Entry | None:
        self._sweep_if_due()
        rows = self._database.read(
            "SELECT id, state, attempts, worker, reason, result, changed FROM task WHERE id = ?", (task_id,)
        )
        return Entry(*rows[0]) if rows else None

    def _held(self, run: Run, claim: Claim) -> int:
        """The row of a claim that still holds."""
        rows = run("SELECT seq, token, due FROM task WHERE id = ?", (claim.task_id,))
        if not rows or rows[0][1] != claim.token or rows[0][2] <= self._clock():
            raise Conflict(f"the lease of task {claim.task_id} is over: leave its output unpublished")
        seq: int = rows[0][0]
        return seq

    def _sweep_if_due(self) -> None:
        now = self._clock()
        if self._database.read("SELECT 1 FROM task WHERE state = 'running' AND due <= ? LIMIT 1", (now,)):
            with self._database.write() as run:
                self._sweep(run, now=now)

    def _sweep(self, run: Run, *, now: float) -> None:
        """Leases that ran out: the task is offered again, or failed when that was the last try."""
        overdue = run("SELECT seq, attempts, expired + 1 FROM task WHERE state = 'running' AND due <= ?", (now,))
        for seq, attempts, expired in overdue:
            state = "failed" if attempts >= self._max_attempts else "planned"
            run(
                "UPDATE task SET state = ?, token = NULL, due = ?, expired = ?, reason = ?, changed = ? WHERE seq = ?",
                (state, now, expired, lease_expired(expired), now, seq),
            )


def peek(path: Path) -> Counts:
    """By reading alone: a lease that is over still counts as running."""
    with reading(path) as read:
        return _counts(read(STATES))


def peek_entries(path: Path, state: State, *, most: int) -> list[Entry]:
    """The first of those in this state, by reading alone."""
    fields = "id, state, attempts, worker, reason, result, changed"
    with reading(path) as read:
        rows = read(f"SELECT {fields} FROM task WHERE state = ? ORDER BY seq LIMIT ?", (state, most))  # noqa: S608
        return [Entry(*row) for row in rows]


def peek_results(path: Path) -> Generator[bytes, None, None]:
    """Of what is done, by reading alone; some at a time in memory. Close it, if not all are taken."""
    seq = -1
    with reading(path) as read:
        while rows := read(RESULTS, (seq, AT_ONCE)):
            yield from (result for _, result in rows)
            seq = rows[-1][0]


def _counts(rows: list[Row]) -> Counts:
    found: dict[str, int] = dict(rows)
    return Counts(**{state: found.get(state, 0) for state in Counts.__struct_fields__})


def last_good(run: Run, seq: int, *, task_id: str) -> bytes | None:
    rows: list[Row] = run("SELECT number, data, checksum FROM checkpoint WHERE seq = ? ORDER BY number DESC", (seq,))
    for number, data, checksum in rows:
        if checksum_of(task_id, number, data) == checksum:
            return bytes(data)
        log.warning("checkpoint_damaged", extra={"task": task_id, "number": number})
    return None


def checksum_of(task_id: str, number: int, data: bytes) -> bytes:
    """Over whose it is as well: a good checkpoint in the wrong place is no checkpoint."""
    return hashlib.blake2b(f"{number} {task_id}\n".encode() + data, digest_size=16).digest()
