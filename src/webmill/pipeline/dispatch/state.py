"""How far a batcher got, and what it keeps beside that: the rejects, and the digests it has seen.

    STATE/RUN/checkpoint.json   the place, when the queue cannot keep it
    STATE/RUN/rejected.jsonl    what could not be read, each with its reason and place
    STATE/RUN/digests.sqlite    what `--dedup digest` has seen

A place is a byte of the summary and what was counted up to it. The SQLite queue stores it in the transaction that
stores the batches: whatever is killed, both are there or neither. Beside RabbitMQ it is a file, written after the
broker confirmed: killed in between, a batcher publishes the last window again under the same ids.

Rejects and digests are synced before the place moves on, and what is in them from behind the place is forgotten when
a batcher goes on from it. So they are exact too.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from webmill.errors import BadInput, Misconfigured
from webmill.infra.atomic import make_folder, write_bytes
from webmill.infra.files import os_errors
from webmill.infra.queue.base import Mark, MarkingQueue, Message, Queue
from webmill.infra.sqlite import Database, Schema
from webmill.pipeline.dispatch.blocks import IndexReject

DIGESTS_SCHEMA = Schema(
    tag=int.from_bytes(b"wmDg"),
    steps=(
        """
        CREATE TABLE seen (digest TEXT PRIMARY KEY, place INTEGER NOT NULL) STRICT, WITHOUT ROWID;
        CREATE INDEX seen_place ON seen (place);
        """,
    ),
)


class BatcherCounts(msgspec.Struct, frozen=True):
    """Counts since the first run of this batcher."""

    blocks: int = 0
    lines: int = 0
    accepted: int = 0
    rejected: int = 0
    filtered: dict[str, int] = {}


class BatcherPosition(msgspec.Struct, frozen=True, kw_only=True):
    """How far a batcher got: all before `at` is published except `carry`, and `skip` captures after it."""

    index: str  # which state of the index this is about
    at: int = 0
    carry: msgspec.Raw = msgspec.Raw(b"[]")  # captures that did not fill a batch yet
    skip: int = 0
    batches: int = 0
    counts: BatcherCounts = BatcherCounts()
    reject_bytes: int = 0
    digests: int = 0
    finished: bool = False


_position_decoder = msgspec.json.Decoder(BatcherPosition)


def decode_position(data: bytes, *, source: str) -> BatcherPosition:
    try:
        return _position_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(
            f"not a checkpoint of ours: {error}; begin anew with --from-scratch", reason="corrupt", source=source
        ) from error


# --- the place ------------------------------------------------------------------------------------------------------


class Checkpoint(Protocol):
    def load(self) -> BatcherPosition | None: ...

    def publish(self, messages: Sequence[Message], place: BatcherPosition) -> None:
        """Publish batches and position. Both are durable on return."""


class QueueCheckpoint:
    """Keeps the position in the queue itself: batches and position are one transaction."""

    def __init__(self, queue: MarkingQueue, *, run: str) -> None:
        self._queue = queue
        self._name = f"batcher-{run}"

    def load(self) -> BatcherPosition | None:
        data = self._queue.mark(self._name)
        return decode_position(data, source=f"mark {self._name} of the queue") if data else None

    def publish(self, messages: Sequence[Message], place: BatcherPosition) -> None:
        self._queue.publish(messages, mark=Mark(self._name, msgspec.json.encode(place)))


class FileCheckpoint:
    """Keeps the position in a file, written after the batches: some may be published again."""

    def __init__(self, queue: Queue, path: Path) -> None:
        self._queue = queue
        self._path = path

    def load(self) -> BatcherPosition | None:
        try:
            return decode_position(self._path.read_bytes(), source=str(self._path))
        except FileNotFoundError:
            return None

    def publish(self, messages: Sequence[Message], place: BatcherPosition) -> None:
        if messages:
            self._queue.publish(messages)
        write_bytes(self._path, msgspec.json.encode(place))


# --- what is kept beside it -----------------------------------------------------------------------------------------


class BatcherFolder:
    """The folder of one run of a batcher."""

    def __init__(self, root: Path, *, run: str) -> None:
        self.folder = root / run
        self.rejected = self.folder / "rejected.jsonl"
        make_folder(self.folder)

    def checkpoint(self, queue: Queue, *, run: str) -> Checkpoint:
        if isinstance(queue, MarkingQueue):
            return QueueCheckpoint(queue, run=run)
        return FileCheckpoint(queue, self.folder / "checkpoint.json")

    def forget(self) -> None:
        """Begin anew."""
        shutil.rmtree(self.folder)
        make_folder(self.folder)


class RejectFile:
    """A file of rejects. It only grows; when a batcher goes on, what is beyond its position is cut off."""

    def __init__(self, path: Path, *, size: int) -> None:
        with os_errors(str(path)):
            self._file = path.open("ab")
            if self._file.seek(0, os.SEEK_END) < size:
                self._file.close()
                raise _out_of_step(path)
            self._file.truncate(size)
        self.size = size

    def add(self, rejects: Iterable[IndexReject]) -> None:
        data = b"".join(msgspec.json.encode(reject) + b"\n" for reject in rejects)
        if data:
            self._file.write(data)
            self._file.flush()
            os.fsync(self._file.fileno())
            self.size += len(data)

    def close(self) -> None:
        self._file.close()


class SeenDigests:
    """The digests seen so far, exactly, on disk: memory does not grow with their number."""

    def __init__(self, path: Path, *, at: int, count: int) -> None:
        self._database = Database(path, schema=DIGESTS_SCHEMA)
        with self._database.write() as run:
            run("DELETE FROM seen WHERE place >= ?", (at,))
            self.count = run("SELECT count(*) FROM seen")[0][0]
        if self.count != count:
            self._database.close()
            raise _out_of_step(path)

    def fresh(self, items: Sequence[bytes], digests: Sequence[str], *, place: int) -> list[bytes]:
        """Return the items whose digest is seen for the first time, and those that have none."""
        kept = []
        with self._database.write() as run:
            for item, digest in zip(items, digests, strict=True):
                if not digest or run(
                    "INSERT INTO seen VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING 1", (digest, place)
                ):
                    kept.append(item)
                    self.count += bool(digest)
        return kept

    def close(self) -> None:
        self._database.close()


def _out_of_step(path: Path) -> Misconfigured:
    return Misconfigured(f"{path} is not what the checkpoint knows of it: begin anew with --from-scratch")
