"""Spooled batches to the files people read: OUT/RUN/part-FIRST-LAST.parquet (or .jsonl.zst), in the order of batches.

A part covers consecutive batch numbers and is closed by the batch that makes it large enough, so parts depend on the
batches alone, not on who worked them when. While batches are missing, only what lies before the first of them is
sealed. Batches that were buried are missing for good: at the end they are sealed over, and the part's receipt
(OUT/RUN/receipts/part-FIRST-LAST.json) lists them. When such a batch is worked after all, it becomes a part of its own.

    receipt ─▶ part ─▶ the batches leave the spool

Killed in between: a receipt without its part counts for nothing, and a batch that a part holds is removed from the
spool by whoever comes next. One sealer at a time.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec
import zstandard

from webmill.commoncrawl.batch import batch_id
from webmill.errors import Misconfigured
from webmill.infra.sinks.parquet import schema_of
from webmill.infra.storage.base import Storage
from webmill.pipeline.extract.rows import Row
from webmill.pipeline.extract.spool import LEVEL, BatchFacts, key_of, read_facts, read_lines, row_of, spooled

Format = Literal["parquet", "jsonl"]
ENDINGS: dict[Format, str] = {"parquet": ".parquet", "jsonl": ".jsonl.zst"}
FILE_SIZE = 128 << 20
ROW_GROUP = 16 << 20  # bytes of JSON in one row group

_RECEIPT = re.compile(r"([0-9a-f]{12})/receipts/part-(\d+)-(\d+)\.json")


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What a part holds. `missing` are numbers in its range that it does not: they were buried."""

    file: str
    first: int
    last: int
    missing: tuple[int, ...] = ()
    items: int = 0
    rows: int = 0
    size: int = 0
    extraction: dict[str, int] = {}
    filtered: dict[str, int] = {}

    @property
    def batches(self) -> int:
        return self.last - self.first + 1 - len(self.missing)

    def holds(self, number: int) -> bool:
        return self.first <= number <= self.last and number not in self.missing


class Piece(msgspec.Struct, frozen=True):
    """The batches of a part to be."""

    present: tuple[int, ...]
    missing: tuple[int, ...]


class Sealer:
    """`scratch` is a local folder for parts in the making; None: the system's."""

    def __init__(self, storage: Storage, *, form: Format, file_size: int = FILE_SIZE, scratch: Path | None) -> None:
        self._storage = storage
        self._form = form
        self._file_size = file_size
        self._scratch = scratch
        self._facts: dict[str, BatchFacts] = {}
        self._receipts: dict[str, Receipt] = {}

    def seal(self) -> list[Receipt]:
        """The parts that are complete by now."""
        return self._seal(lambda _: False, rest=False)

    def finish(self, is_lost: Callable[[str], bool]) -> list[Receipt]:
        """Everything, over the batches (by id) that are lost. It stops before one that is neither there nor lost."""
        return self._seal(is_lost, rest=True)

    def receipts(self, run: str) -> list[Receipt]:
        """Of the parts that are there, in order."""
        files = {stat.key for stat in self._storage.list(f"{run}/part-")}
        found = []
        for stat in self._storage.list(f"{run}/receipts/"):
            match = _RECEIPT.fullmatch(stat.key)
            if not match or f"{run}/{name_of(int(match[2]), int(match[3]))}{ENDINGS[self._form]}" not in files:
                continue
            receipt = self._receipts.get(stat.key)  # another thread may take it away again
            if receipt is None:
                receipt = self._receipts[stat.key] = msgspec.json.decode(self._storage.read(stat.key), type=Receipt)
            found.append(receipt)
        return sorted(found, key=lambda receipt: (receipt.first, receipt.last))

    def _seal(self, is_lost: Callable[[str], bool], *, rest: bool) -> list[Receipt]:
        made = []
        for run, numbers in spooled(self._storage).items():
            done = self.receipts(run)
            waiting = self._without_duplicates(run, numbers, done)
            following = 1 + max((receipt.last for receipt in done), default=0)
            late = [Piece((number,), ()) for number in waiting if number < following]
            ahead = [number for number in waiting if number >= following]
            pieces = self._pieces(run, ahead, following, is_lost=is_lost, rest=rest)
            made += [self._write(run, piece) for piece in (*late, *pieces)]
        return made

    def _without_duplicates(self, run: str, numbers: Iterable[int], done: list[Receipt]) -> list[int]:
        """A batch that a part holds was worked twice, or its sealer was killed before this line."""
        waiting = []
        last = max((receipt.last for receipt in done), default=0)
        for number in numbers:
            if number <= last and any(receipt.holds(number) for receipt in done):
                self._forget(run, [number])
            else:
                waiting.append(number)
        return waiting

    def _pieces(
        self, run: str, ahead: list[int], following: int, *, is_lost: Callable[[str], bool], rest: bool
    ) -> Iterator[Piece]:
        present: list[int] = []
        missing: list[int] = []
        size = 0
        for number in ahead:
            holes = range(following, number)
            if not all(is_lost(batch_id(run, hole)) for hole in holes):
                break
            missing += holes
            present.append(number)
            following = number + 1
            size += self._facts_of(run, number).size
            if size >= self._file_size:
                yield Piece(tuple(present), tuple(missing))
                present, missing, size = [], [], 0
        if present and rest:
            yield Piece(tuple(present), tuple(missing))

    def _facts_of(self, run: str, number: int) -> BatchFacts:
        id_ = batch_id(run, number)
        if id_ not in self._facts:
            self._facts[id_] = read_facts(self._storage, id_)
        return self._facts[id_]

    def _write(self, run: str, piece: Piece) -> Receipt:
        first, last = min(piece.present + piece.missing), piece.present[-1]
        name = name_of(first, last)
        key = f"{run}/{name}{ENDINGS[self._form]}"
        facts = [self._facts_of(run, number) for number in piece.present]
        receipt = Receipt(
            file=key,
            first=first,
            last=last,
            missing=piece.missing,
            items=sum(fact.items for fact in facts),
            rows=sum(fact.rows for fact in facts),
            size=sum(fact.size for fact in facts),
            extraction=total(fact.extraction for fact in facts),
            filtered=total(fact.filtered for fact in facts),
        )
        lines = (line for fact in facts for line in read_lines(self._storage, fact.id))
        with tempfile.TemporaryFile(dir=self._scratch) as file:
            (write_parquet if self._form == "parquet" else write_json_lines)(file, lines)
            file.seek(0)
            receipt_key = f"{run}/receipts/{name}.json"
            self._storage.write(receipt_key, msgspec.json.encode(receipt) + b"\n")
            self._storage.write(key, file)
        self._receipts.pop(receipt_key, None)  # an older one, whose part was never written
        self._forget(run, piece.present)
        return receipt

    def _forget(self, run: str, numbers: Iterable[int]) -> None:
        for number in numbers:
            id_ = batch_id(run, number)
            self._storage.delete(key_of(id_))
            self._facts.pop(id_, None)


def name_of(first: int, last: int) -> str:
    return f"part-{first:08d}-{last:08d}"


def total(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    added: Counter[str] = Counter()
    for count in counts:
        added.update(count)
    return dict(sorted(added.items()))


def write_json_lines(file: BinaryIO, lines: Iterable[bytes]) -> None:
    """One frame: not every reader of zstd looks behind the first."""
    with zstandard.ZstdCompressor(level=LEVEL).stream_writer(file, closefd=False) as out:
        for line in lines:
            out.write(line)


def write_parquet(file: BinaryIO, lines: Iterable[bytes]) -> None:
    arrow, parquet = pyarrow()
    schema = schema_of(Row)
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for group in groups(lines):
            rows = [msgspec.to_builtins(row_of(line)) for line in group]
            writer.write_table(arrow.Table.from_pylist(rows, schema=schema))


def groups(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    size = 0
    for line in lines:
        group.append(line)
        size += len(line)
        if size >= ROW_GROUP:
            yield group
            group, size = [], 0
    if group:
        yield group


def pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as missing:
        message = "Parquet needs an extra: pip install 'webmill[parquet]', or choose --format jsonl"
        raise Misconfigured(message) from missing
    return arrow, parquet
