"""Imports a frontier that another crawler kept in PostgreSQL: visited URLs, then waiting ones, then domains.

The reference's own migration marks every URL as seen, then passes them to code that skips seen URLs: none arrives. Here
a URL is known because it was added, in the same step.

Each shard stores its progress in the step that adds the rows: killed at any moment and run again, each row counts once.
Domains come last, so that waiting URLs of an excluded domain are kept, for when it is included again.
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
    """Yield the imports of the three tables, to be run in order. The crawl is created if there is none.

    A half imported crawl cannot be crawled: it has no list of seeds before all is imported.
    """
    atomic.make_folder(place.paths.path)
    with place.exclusively(doing="importing"):
        place.backend.settle_layout(place.paths, processes)
        with place.frontiers() as frontiers, place.host_schedule() as gates:
            clock = crawl_clock(gates, frontiers)
            waiting = WaitingRows(priority=priority, clock=clock)
            readings = VisitedRows(clock=clock), waiting, DomainRows(gates, clock=clock)
            rejected = place.paths.collection.rejected
            yield [TableImport(one, database, frontiers, rejected=rejected, again=again) for one in readings]
        if not place.paths.seeds.exists():
            atomic.write_bytes(place.paths.seeds, b"")


class ShardBatch(msgspec.Struct):
    """The rows of a batch that go to one shard, and the key after them. Rejected rows belong to the first shard."""

    key: Key
    same: int
    records: list[Any] = []
    bad: list[tuple[Row, str]] = []


class TableImport:
    """The import of one table. `frontiers` are all shards of the crawl, opened exclusively."""

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
        """Import the table; yield how many rows are done. Conflict if the table has changed meanwhile."""
        if self._is_again:
            for shard in range(len(self._frontiers)):  # or a kill would leave marks of two runs
                self._put(shard, ImportProgress(), [])
        if not all(mark.is_done for mark in self._marks):
            start = from_latin1_key(min(mark.key for mark in self._marks))  # the others pass over what they have
            sql = select_query(self.table, self._database, start=start)
            for rows in self._database.stream(sql, start, batch=batch):
                for shard, shard_batch in self._by_shard(rows).items():
                    self._import(shard, shard_batch)
                yield self.counts().rows
            for shard, mark in enumerate(self._marks):
                self._put(shard, msgspec.structs.replace(mark, is_done=True), [])
        self._verify()

    def _by_shard(self, rows: Sequence[Row]) -> dict[int, ShardBatch]:
        batches: dict[int, ShardBatch] = {}
        for row in rows:
            shard, record, reason = self._read(row)
            key = to_latin1_key(row[: len(self.table.key)])
            if self._was_done(shard, key):
                continue
            mark = self._marks[shard]
            batch = batches.setdefault(shard, ShardBatch(mark.key, mark.same))
            batch.same = batch.same + 1 if key == batch.key else 1
            batch.key = key
            if reason:
                batch.bad.append((row, reason))
            else:
                batch.records.append(record)
        return batches

    def _read(self, row: Row) -> tuple[int, Any, str]:
        try:
            record = self._reading.read(row)
            return shard_of(self._reading.url(record), len(self._frontiers)), record, ""
        except BadInput as error:
            return 0, None, error.reason

    def _was_done(self, shard: int, key: Key) -> bool:
        """Whether an earlier run imported the row. Of rows with equal keys, the first ones are done."""
        last, same = self._resumed[shard]
        if key == last and same:
            self._resumed[shard] = (last, same - 1)
            return True
        return key < last

    def _import(self, shard: int, batch: ShardBatch) -> None:
        if batch.bad:
            names = (*self.table.key, *self.table.columns)
            self.rejects.append(
                (dict(zip(names, printable_row(row), strict=True)), reason) for row, reason in batch.bad
            )
        refused = ImportCounts(rejected=Counter(reason for _, reason in batch.bad))
        mark = self._marks[shard]
        counts = sum_counts([mark.counts, refused])
        self._put(shard, msgspec.structs.replace(mark, key=batch.key, same=batch.same, counts=counts), batch.records)

    def _put(self, shard: int, mark: ImportProgress, records: Sequence[Any]) -> None:
        """Commit records and progress in one step. Its rows are counted afterwards, or by the next run after a kill."""
        frontier = self._frontiers[shard]
        before = known_urls(frontier) if self._reading.adds_urls else -len(records)
        mark = msgspec.structs.replace(mark, pending=len(records), before=before, rejects=self.rejects.size)
        committed = self._reading.commit(frontier, records, {self._note: encode_progress(mark)})
        known = known_urls(frontier) if self._reading.adds_urls else 0
        self._marks[shard] = mark.settled(known, excluded=committed.excluded)

    def _verify(self) -> None:
        rows, total = self.counts().rows, self.total()
        if rows != total:
            message = (
                f"the table {self.table.name} has {total:,} rows, but {rows:,} were read: it has changed meanwhile; "
            )
            advice = "stop its writer, then import with --from-scratch (URLs imported already count as known)"
            raise Conflict(message + advice)
