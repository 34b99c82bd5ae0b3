"""The file of the SQLite queue, and how it is read without changing it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from webmill.errors import NotFound
from webmill.infra.address import scheme_of
from webmill.infra.queue.base import DeadLetter, QueueOptions, QueueStats
from webmill.infra.sqlite import Row, Run, Schema, open_read_only

READY, LEASED, DELAYED, BURIED, DONE = range(5)

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
FIRST_DEAD_LETTER = (
    "SELECT seq, id, body, last_error, attempts, first_error, last_error, due"
    " FROM message JOIN body USING (seq) WHERE state = 3 AND seq > ? ORDER BY seq LIMIT 1"
)
NEXT_DUE = "SELECT due FROM message WHERE state IN (0, 1, 2) ORDER BY seq LIMIT 1"
ENTRIES = "SELECT seq, id, state, attempts, last_error, changed, result FROM message WHERE seq > ? ORDER BY seq LIMIT ?"
AT_ONCE = 500  # entries in memory, twice


class TaskEntry(msgspec.Struct, frozen=True):
    """The state of a message. `reason` is the last failure, `changed` the time of the last event."""

    id: str
    state: Literal["ready", "leased", "delayed", "buried", "done"]
    attempts: int = 0
    reason: str = ""
    changed: float = 0.0
    result: bytes | None = None


STATE_NAMES: tuple[Literal["ready", "leased", "delayed", "buried", "done"], ...] = (
    "ready", "leased", "delayed", "buried", "done",
)  # fmt: skip


def view_sqlite(url: str, options: QueueOptions) -> AbstractContextManager[SqliteQueueReader]:
    return view_file(file_of(url, options))


@contextmanager
def view_file(file: Path) -> Iterator[SqliteQueueReader]:
    """Open a queue by reading alone: no file is created, and an expired lease still counts as leased."""
    if not file.is_file():
        raise NotFound(f"no queue {file}")
    with open_read_only(file) as read:
        yield SqliteQueueReader(read)


def file_of(url: str, options: QueueOptions) -> Path:
    return options.folder / scheme_of(url)[1]


class SqliteQueueReader:
    """A queue as its file says; it keeps one dead letter in memory at a time."""

    def __init__(self, read: Run) -> None:
        self._read = read

    def dead_letters(self) -> Iterator[DeadLetter]:
        return read_dead_letters(self._read)

    def stats(self) -> QueueStats:
        return stats_of(self._read(STATES))

    def entries(self) -> Iterator[TaskEntry]:
        """Yield the state of every message, in the order of publishing."""
        return read_entries(self._read)

    def mark(self, name: str) -> bytes | None:
        return read_mark(self._read, name)

    def next_due(self) -> float | None:
        return read_next_due(self._read)


def read_mark(read: Run, name: str) -> bytes | None:
    """Return the value last published under this name."""
    rows = read("SELECT value FROM mark WHERE name = ?", (name,))
    return rows[0][0] if rows else None


def read_next_due(read: Run) -> float | None:
    """Return when the first message that is not done or buried may be handed out; None if there is none."""
    rows = read(NEXT_DUE)
    return (rows[0][0] or 0.0) if rows else None


def read_entries(read: Run) -> Iterator[TaskEntry]:
    seq = -1
    while rows := read(ENTRIES, (seq, AT_ONCE)):
        for _, id_, number, attempts, reason, changed, result in rows:
            yield TaskEntry(id_, STATE_NAMES[number], attempts, reason, changed, result)
        seq = rows[-1][0]


def read_dead_letters(read: Run) -> Iterator[DeadLetter]:
    seq = -1
    while rows := read(FIRST_DEAD_LETTER, (seq,)):
        seq, *fields = rows[0]
        yield DeadLetter(*fields)


def stats_of(rows: list[Row]) -> QueueStats:
    count: dict[int, int] = dict(rows)
    return QueueStats(*(count.get(state, 0) for state in (READY, LEASED, DELAYED, BURIED, DONE)))
