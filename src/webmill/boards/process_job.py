"""Processes a job: read its board, store its notices as blobs, submit the fragment.

    job ─▶ known ─▶ read ─▶ blobs ─▶ fragment ─▶ (ack)

Everything may happen twice: blobs have the name of their content, and of two fragments the first counts.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping
from typing import Literal, Protocol

import msgspec

from webmill.boards.aggregator import failed_fragment, read_notes
from webmill.boards.board_list import Board
from webmill.boards.jobs import BoardJob
from webmill.boards.types import BoardResult, KnownNotice, Notice
from webmill.errors import BadInput, NotFound, Unavailable
from webmill.infra.storage.base import Readable, Storage
from webmill.publish import history, leases
from webmill.publish.blobs import SAMPLE, BlobCounts, BlobStore
from webmill.publish.fragments import Fragment, ItemNote, abandon_job, is_run_open, submit_fragment
from webmill.publish.manifest import read_version_index
from webmill.publish.shards import read_items
from webmill.publish.types import PublishedItem, Version

log = logging.getLogger(__name__)


class AnyBoardReader(Protocol):
    """`BoardReader`, or a fake of it."""

    def read(self, board: Board, *, known: Mapping[str, KnownNotice]) -> BoardResult: ...


class JobOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a job ended. `over`: the run had ended, or another worker was first. `given_up`: all attempts failed."""

    source: str
    result: Literal["done", "failed", "given_up", "over"]
    items: int = 0
    blobs: BlobCounts = msgspec.field(default_factory=BlobCounts)
    reason: str = ""


class PreviousSource(msgspec.Struct, frozen=True):
    """The items and notes of one source in the live version."""

    items: dict[str, PublishedItem] = {}
    notes: dict[str, ItemNote] = {}


class PreviousVersion:
    """The live version by source, for all threads of a worker; read again when it has changed.

    Held in memory: an estimated 1 KB for each item.
    """

    def __init__(self, storage: Readable) -> None:
        self._storage = storage
        self._lock = threading.Lock()
        self._version = ""
        self._sources: dict[str, PreviousSource] = {}

    def of(self, source: str) -> PreviousSource:
        with self._lock:
            try:
                live = history.live_version(self._storage)
            except NotFound:
                return PreviousSource()
            if live.version != self._version:
                self._sources, self._version = self._read(live), live.version
            return self._sources.get(source, PreviousSource())

    def _read(self, live: Version) -> dict[str, PreviousSource]:
        sources: dict[str, PreviousSource] = {}
        for source, notes in read_notes(self._storage, live).items():
            sources[source] = PreviousSource({}, {note.id: note for note in notes})
        for item in read_items(self._storage, read_version_index(self._storage, live)):
            sources.setdefault(item.source, PreviousSource({}, {})).items[item.id] = item
        return sources


def process_job(
    storage: Storage,
    job: BoardJob,
    *,
    reader: AnyBoardReader,
    previous: PreviousVersion,
    attempt: int = 1,
    is_last: bool = False,
    confirm: Callable[[], None] = lambda: None,
) -> JobOutcome:
    """Process a job. `Unavailable`: retry it later. Never when it `is_last`: then the job is abandoned.

    `confirm` is called before the fragment is submitted; it raises `Conflict` when another worker has the job.
    """
    source = job.board.source
    if not is_run_open(storage, job.run):
        return JobOutcome(source=source, result="over")
    leases.renew(storage, job.run)
    blobs = BlobStore(storage)
    past = previous.of(source)
    reading = reader.read(job.board, known=known_notices(past, blobs))
    if reading.failed and reading.retryable:
        reason = failure_reason(reading)
        if not is_last:
            raise Unavailable(reason)
        abandon_job(storage, job.run, failed_fragment(job, reason, attempts=attempt, problems=reading.problems))
        return JobOutcome(source=source, result="given_up", reason=reason)
    fragment = make_fragment(reading, past, blobs)
    blobs.sync_known()
    confirm()
    counts = is_run_open(storage, job.run) and submit_fragment(storage, job.run, fragment)
    result: Literal["done", "failed", "over"] = "over" if not counts else "failed" if reading.failed else "done"
    return JobOutcome(source=source, result=result, items=len(fragment.items), blobs=blobs.tally)


def known_notices(past: PreviousSource, blobs: BlobStore) -> dict[str, KnownNotice]:
    """Return the notices that need not be fetched again: their content is stored and whole."""
    return {id_: known_notice(item, past) for id_, item in past.items.items() if is_blob_sound(blobs, item.hash)}


def known_notice(item: PublishedItem, past: PreviousSource) -> KnownNotice:
    note = past.notes.get(item.id)
    date = str(item.metadata.get("date") or "")
    if not note or note.hash != item.hash:  # the note is about other content
        return KnownNotice(hash=item.hash, date=date)
    return KnownNotice(hash=item.hash, row=note.row, checked=note.checked, date=date)


def is_blob_sound(blobs: BlobStore, hash_: str) -> bool:
    """Whether a blob is stored. A sample is read: a known notice is not fetched, so nothing else would repair it."""
    try:
        if random.random() < SAMPLE:  # noqa: S311  no secret
            blobs.get(hash_)
    except (NotFound, BadInput):
        return False
    return blobs.exists(hash_)


def make_fragment(reading: BoardResult, past: PreviousSource, blobs: BlobStore) -> Fragment:
    items, notes = [], []
    for notice in reading.items:
        item = store_notice(notice, reading.source, blobs)
        items.append(item)
        notes.append(ItemNote(item.id, item.hash, notice.row, notice.checked))
    beyond = [past.items[id_] for id_ in reading.beyond if id_ in past.items]
    items += [msgspec.structs.replace(item, stale_since=None) for item in beyond]
    notes += [past.notes[id_] for id_ in (*reading.beyond, *reading.kept) if id_ in past.notes]
    return Fragment(
        job=reading.source,
        items=tuple(items),
        problems=reading.problems,
        kept=reading.kept,
        failed=reading.failed,
        notes=tuple(notes),
        blobs=blobs.tally,
        counts={**reading.counts, "unchanged": sum(is_unchanged(item, past) for item in items)},
    )


def is_unchanged(item: PublishedItem, past: PreviousSource) -> bool:
    return item.id in past.items and past.items[item.id].hash == item.hash


def store_notice(notice: Notice, source: str, blobs: BlobStore) -> PublishedItem:
    hash_ = notice.hash if notice.content is None else blobs.put(notice.content)  # type: ignore[arg-type]
    return PublishedItem(notice.id, source, hash_, facets=notice.facets, metadata=notice.metadata)


def failure_reason(reading: BoardResult) -> str:
    return "; ".join(problem.message for problem in reading.problems[:3]) or "the board could not be read"
