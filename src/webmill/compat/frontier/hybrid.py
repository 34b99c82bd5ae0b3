"""The frontier of the crawler that kept its state in Redis and its URLs in files, or both in Redis.

    visited:HASH   hash: url, status_code, fetched_at
    frontier:NAME  list of `url|depth` (its later version), the first one to be fetched at the right end
    domain:NAME    hash: robots_txt, robots_expires, is_excluded, next_fetch_time, frontier_offset
    FILES/HH/NAME.frontier   lines `url|depth|priority|added_timestamp`, or `url|depth`; fetched up to `frontier_offset`

Rows come as those of the tables in `rows`, so that both imports mean the same. A URL may have a `|` in it: a line is
read from its end. Its priority was always 1.0 and is left. Nothing is written there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from webmill.compat.frontier.postgres import Row
from webmill.compat.frontier.progress import ImportCounts, RejectedRows, printable_row, sum_counts
from webmill.compat.frontier.rows import DELAY, DomainRows, TableReader, VisitedRows, WaitingRows
from webmill.crawl.frontier.base import CommitResult, Frontier
from webmill.crawl.frontier.redis.server import RedisServer, as_pairs
from webmill.crawl.frontier_admin.crawl_frontier import CrawlFrontier, crawl_clock
from webmill.crawl.scheduler.inbox import shard_of
from webmill.errors import BadInput, Misconfigured
from webmill.infra import atomic
from webmill.infra.files import os_errors

BATCH = 1000
LONGEST_LINE = 1 << 16
_FOUR = re.compile(r"(.*)\|([0-9]{1,9})\|[0-9]+(?:\.[0-9]+)?\|([0-9]{9,}(?:\.[0-9]+)?)", re.DOTALL)
_TWO = re.compile(r"(.*)\|([0-9]{1,9})", re.DOTALL)


class HybridFrontier:
    """Reads what the crawler has left: in `redis`, in the folder `files`, or in both."""

    def __init__(self, redis: str | None, files: Path | None) -> None:
        self._server = RedisServer(redis) if redis else None
        self._files = files
        self.place = " and ".join([*([self._server.place] if self._server else []), *([str(files)] if files else [])])
        if files and not any(files.glob("*/*.frontier")):
            raise Misconfigured(f"{files} has no HH/DOMAIN.frontier: name the folder frontiers/ of the crawler")

    def close(self) -> None:
        if self._server:
            self._server.close()

    def visited(self) -> Iterator[Row]:
        for found in self._hashes("visited:*"):
            yield number(found.get("fetched_at")), found.get("url", ""), number(found.get("status_code"))

    def waiting(self) -> Iterator[Row]:
        """Yield the lines of all domains, those of one in their order."""
        for key in self._keys("frontier:*", kind="list"):
            name = key.removeprefix("frontier:")
            yield from (parse_line(line, domain=name) for line in self._list_backwards(key))
        for path in sorted(self._files.glob("*/*.frontier")) if self._files else ():
            yield from self._lines(path)

    def domains(self) -> Iterator[Row]:
        for key, found in self._named_hashes("domain:*"):
            last = number(found.get("next_fetch_time")) - DELAY
            excluded = float(found.get("is_excluded", "").lower() in ("1", "true"))
            robots, expires = found.get("robots_txt"), number(found.get("robots_expires"))
            yield key.removeprefix("domain:"), robots, expires, excluded, max(0.0, last)

    # --- Redis ---

    def _ask(self, *command: bytes | str | float) -> Any:
        assert self._server
        return self._server.ask(*command)

    def _keys(self, pattern: str, *, kind: str) -> Iterator[str]:
        cursor = 0
        while self._server:
            cursor, keys = self._ask("SCAN", cursor, "MATCH", pattern, "COUNT", BATCH, "TYPE", kind)
            yield from (key.decode("utf-8", "surrogateescape") for key in keys)
            cursor = int(cursor)
            if not cursor:
                return

    def _named_hashes(self, pattern: str) -> Iterator[tuple[str, dict[str, str]]]:
        for key in self._keys(pattern, kind="hash"):
            pairs = as_pairs(self._ask("HGETALL", key.encode("utf-8", "surrogateescape")))
            yield key, {text(name): text(value) for name, value in pairs}

    def _hashes(self, pattern: str) -> Iterator[dict[str, str]]:
        return (found for _, found in self._named_hashes(pattern))

    def _list_backwards(self, key: str) -> Iterator[str]:
        end = self._ask("LLEN", key.encode("utf-8", "surrogateescape"))
        while end > 0:
            start = max(0, end - BATCH)
            lines = self._ask("LRANGE", key.encode("utf-8", "surrogateescape"), start, end - 1)
            yield from map(text, reversed(lines))
            end = start

    # --- files ---

    def _lines(self, path: Path) -> Iterator[Row]:
        name = path.name.removesuffix(".frontier")
        with os_errors(str(path)), path.open("rb") as file:
            file.seek(self._offset(name, path))
            while line := file.readline(LONGEST_LINE):
                if line.strip():
                    yield parse_line(text(line.rstrip(b"\r\n")), domain=name)

    def _offset(self, name: str, path: Path) -> int:
        """Return up to where the file was fetched. 0 where no line begins there: visited URLs are known anyway."""
        found = self._ask("HGET", f"domain:{name}", "frontier_offset") if self._server else None
        offset = int(number(text(found))) if found else 0
        if not 0 < offset <= path.stat().st_size:
            return 0
        with path.open("rb") as file:
            file.seek(offset - 1)
            return offset if file.read(1) == b"\n" else 0


def parse_line(line: str, *, domain: str) -> Row:
    """Return a row of a waiting URL; one that is none has its text as the URL, and is rejected for it."""
    if found := _FOUR.fullmatch(line):
        return domain, number(found[3]), found[1], number(found[2])
    found = _TWO.fullmatch(line)
    return (domain, 0.0, found[1], number(found[2])) if found else (domain, 0.0, line, 0.0)


def text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def number(written: str | None) -> float:
    try:
        return float(written or 0)
    except ValueError:
        return 0.0


# --- the import ---


class RowsImport(msgspec.Struct):
    """The import of one kind of rows. Run again, it imports what is missing: rows from before count as known."""

    reading: TableReader
    rows: Iterable[Row]
    frontiers: Sequence[Frontier]
    rejects: RejectedRows

    def run(self) -> Iterator[ImportCounts]:
        """Import the rows; yield the counts so far."""
        counts = ImportCounts()
        source = iter(self.rows)
        while rows := list(islice(source, BATCH)):
            counts = sum_counts([counts, self._import(rows)])
            yield counts

    def _import(self, rows: Sequence[Row]) -> ImportCounts:
        by_shard: dict[int, list[Any]] = {}
        bad: list[tuple[Row, str]] = []
        for row in rows:
            try:
                record = self.reading.read(row)
                by_shard.setdefault(shard_of(self.reading.url(record), len(self.frontiers)), []).append(record)
            except BadInput as error:
                bad.append((row, error.reason))
        if bad:
            names = (*self.reading.table.key, *self.reading.table.columns)
            self.rejects.append((dict(zip(names, printable_row(row), strict=True)), reason) for row, reason in bad)
        done = [
            self._counts(self.reading.commit(self.frontiers[shard], records, {}), len(records))
            for shard, records in by_shard.items()
        ]
        return sum_counts([*done, ImportCounts(rejected=Counter(reason for _, reason in bad))])

    def _counts(self, result: CommitResult, records: int) -> ImportCounts:
        if not self.reading.adds_urls:
            return ImportCounts(imported=records)
        known = records - result.added - result.imported - result.excluded
        return ImportCounts(imported=result.added + result.imported, known=known, excluded=result.excluded)


@contextmanager
def open_hybrid_imports(
    place: CrawlFrontier, source: HybridFrontier, *, processes: int | None, priority: int
) -> Iterator[list[RowsImport]]:
    """Yield the imports of visits, waiting URLs and domains, to be run in order. A new crawl is created."""
    atomic.make_folder(place.paths.path)
    with place.exclusively(doing="importing"):
        place.backend.settle_layout(place.paths, processes)
        with place.frontiers() as frontiers, place.host_schedule() as schedule:
            clock = crawl_clock(schedule, frontiers)
            kinds: list[tuple[TableReader, Iterable[Row]]] = [
                (VisitedRows(clock=clock), source.visited()),
                (WaitingRows(priority=priority, clock=clock), source.waiting()),
                (DomainRows(schedule, clock=clock), source.domains()),
            ]
            folder = place.paths.collection.rejected
            yield [
                RowsImport(
                    reading, rows, frontiers, RejectedRows(folder / f"import-{reading.table.name}.jsonl", size=0)
                )
                for reading, rows in kinds
            ]
        if not place.paths.seeds.exists():
            atomic.write_bytes(place.paths.seeds, b"")
