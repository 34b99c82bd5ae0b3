"""A frontier that another crawler kept in PostgreSQL, into ours: visited first, then what waits, then the domains.

The reference's own migration marks every URL as seen, then hands them to the code that leaves out what was seen: none
arrives. Here a URL is known because it was added, in the same step.

How far it is, a shard notes in the step that carries the rows: killed at any moment and run again, each row counts
once. Domains come last, so that what waits of an excluded domain is kept, for the day it is included again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from webmill.compat.frontier.postgres import DatabaseSnapshot, Row
from webmill.compat.frontier.progress import (
    ImportCounts,
    ImportProgress,
    Key,
    RejectedRows,
    encode_progress,
    from_latin1_key,
    known_urls,
    printable_row,
    read_import_progress,
    sum_counts,
    to_latin1_key,
)
from webmill.compat.frontier.rows import DomainRows, TableReader, VisitedRows, WaitingRows, select_query
from webmill.crawl.frontier.base import Frontier
from webmill.crawl.frontier_admin.crawl_frontier import CrawlFrontier, crawl_clock
from webmill.crawl.scheduler.inbox import shard_of
from webmill.errors import BadInput, Conflict
from webmill.infra import atomic

BATCH = 10_000


@contextmanager
def open_imports(
    place: CrawlFrontier, database: DatabaseSnapshot, *, processes: int | None, priority: int, again: bool
) -> Iterator[list[TableImport]]:
    """The three tables, to be run one after the other. The crawl is made where there is none.

    One that a kill has left half imported does not go on by itself: it has no list of seeds before all is there.
    """
    options = place.options
    atomic.make_folder(options.folder.path)
    with place.exclusively(doing="importing"):
        place.backend.settle_layout(options, processes)
        with place.frontiers() as frontiers, place.host_schedule() as gates:
            clock = crawl_clock(gates, frontiers)
            waiting = WaitingRows(priority=priority, clock=clock)
            readings = VisitedRows(clock=clock), waiting, DomainRows(gates, clock=clock)
            rejected = options.folder.collection.rejected
            yield [TableImport(one, database, frontiers, rejected=rejected, again=again) for one in readings]
        if not options.folder.seeds.exists():
            atomic.write_bytes(options.folder.seeds, b"")


class ShardBatch(msgspec.Struct):
    """What of a batch goes to one shard, and its mark behind it. Refused rows belong to the first shard."""

    key: Key
    same: int
    things: list[Any] = []
    bad: list[tuple[Row, str]] = []


class TableImport:
    """Of one table. `frontiers` are all shards of the crawl; nobody else has them."""

    def __init__(
        self,
        reading: TableReader,
        database: DatabaseSnapshot,
        frontiers: Sequence[Frontier],
        *,
        rejected: Path,
        again: bool,
    ) -> None:
        self._reading, self._database, self._frontiers = reading, database, frontiers
        self.table = reading.table
        self._note = f"import {database.place} {self.table.name}"
        self._marks = [
            ImportProgress() if again else read_import_progress(frontier, self._note) for frontier in frontiers
        ]
        self._is_again = again
        self._resumed = [(mark.key, mark.same) for mark in self._marks]
        source = blake2b(database.place.encode(), digest_size=4).hexdigest()
        path = rejected / f"import-{source}-{self.table.name}.jsonl"
        self.rejects = RejectedRows(path, size=self._marks[0].rejects)

    def counts(self) -> ImportCounts:
        return sum_counts(mark.counts for mark in self._marks)

    def total(self) -> int:
        return self._database.count(self.table.name)

    def run(self, *, batch: int = BATCH) -> Iterator[int]:
        """How many rows are done, again and again. Conflict when they are not all that the table has in the end."""
        if self._is_again:
            for shard in range(len(self._frontiers)):  # or a kill would leave marks of two runs
                self._put(shard, ImportProgress(), [])
        if not all(mark.is_done for mark in self._marks):
            start = from_latin1_key(min(mark.key for mark in self._marks))  # the others pass over what they have
            sql = select_query(self.table, self._database, start=start)
            for rows in self._database.stream(sql, start, batch=batch):
                for shard, parcel in self._sorted(rows).items():
                    self._take(shard, parcel)
                yield self.counts().rows
            for shard, mark in enumerate(self._marks):
                self._put(shard, msgspec.structs.replace(mark, is_done=True), [])
        self._verify()

    def _sorted(self, rows: Sequence[Row]) -> dict[int, ShardBatch]:
        parcels: dict[int, ShardBatch] = {}
        for row in rows:
            shard, thing, reason = self._read(row)
            key = to_latin1_key(row[: len(self.table.key)])
            if self._was_done(shard, key):
                continue
            mark = self._marks[shard]
            parcel = parcels.setdefault(shard, ShardBatch(mark.key, mark.same))
            parcel.same = parcel.same + 1 if key == parcel.key else 1
            parcel.key = key
            if reason:
                parcel.bad.append((row, reason))
            else:
                parcel.things.append(thing)
        return parcels

    def _read(self, row: Row) -> tuple[int, Any, str]:
        try:
            thing = self._reading.read(row)
            return shard_of(self._reading.url(thing), len(self._frontiers)), thing, ""
        except BadInput as error:
            return 0, None, error.reason

    def _was_done(self, shard: int, key: Key) -> bool:
        """By an earlier run. Of rows with equal keys it is the first ones."""
        last, same = self._resumed[shard]
        if key == last and same:
            self._resumed[shard] = (last, same - 1)
            return True
        return key < last

    def _take(self, shard: int, parcel: ShardBatch) -> None:
        if parcel.bad:
            names = (*self.table.key, *self.table.columns)
            self.rejects.append(
                (dict(zip(names, printable_row(row), strict=True)), reason) for row, reason in parcel.bad
            )
        refused = ImportCounts(rejected=Counter(reason for _, reason in parcel.bad))
        mark = self._marks[shard]
        counts = sum_counts([mark.counts, refused])
        self._put(shard, msgspec.structs.replace(mark, key=parcel.key, same=parcel.same, counts=counts), parcel.things)

    def _put(self, shard: int, mark: ImportProgress, things: Sequence[Any]) -> None:
        """One step. What came of its rows is counted when it is there, or by whoever goes on after a kill."""
        frontier = self._frontiers[shard]
        before = known_urls(frontier) if self._reading.adds_urls else -len(things)
        mark = msgspec.structs.replace(mark, pending=len(things), before=before, rejects=self.rejects.size)
        committed = self._reading.take(frontier, things, {self._note: encode_progress(mark)})
        known = known_urls(frontier) if self._reading.adds_urls else 0
        self._marks[shard] = mark.settled(known, excluded=committed.excluded)

    def _verify(self) -> None:
        rows, total = self.counts().rows, self.total()
        if rows != total:
            message = f"the table {self.table.name} has {total:,} rows, {rows:,} were read: it has changed meanwhile; "
            advice = "stop what writes to it, then import with --from-scratch (what is there counts as known)"
            raise Conflict(message + advice)
