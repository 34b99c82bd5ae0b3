"""Batches in the spool to the files people read: OUT/RUN/part-FIRST-LAST.parquet (or .jsonl.zst), in their order.

A part covers consecutive batch numbers and is closed by the batch that makes it large enough, so parts depend on the
batches alone, not on who worked them when. While batches are missing, only what lies before the first of them is
sealed. Dead letters are missing for good: at the end they are sealed over, and the part's record
(STATE/sealed/RUN/part-FIRST-LAST.json) lists them. When such a batch is worked after all, it becomes a part of its own.

    record ─▶ part ─▶ the batches leave the spool

Killed in between: a record without its part counts for nothing, and a batch that a part holds is removed from the
spool by whoever comes next. One sealer at a time.
"""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import zstandard

from webmill.commoncrawl.batch import batch_id
from webmill.errors import BadInput
from webmill.infra.sinks.parquet import columns_of, pyarrow, schema_of
from webmill.infra.storage.base import Storage
from webmill.pipeline.extract.plan import FILE_SIZE, Format
from webmill.pipeline.extract.receipts import FOLDER, Receipts
from webmill.pipeline.extract.totals import TaskTotals, add_counts, add_up_receipts

ENDINGS: dict[Format, str] = {"parquet": ".parquet", "jsonl": ".jsonl.zst"}
ROW_GROUP_BYTES = 16 << 20  # bytes of JSON in one row group
ZSTD_LEVEL = 3
SPOOL, SEALED = "spool/", "sealed/"

_RECEIPT = re.compile(rf"{FOLDER}/([0-9a-f]{{12}})/(\d{{8,18}})-\d+\.json")
_SPOOLED = re.compile(r"spool/([0-9a-f]{12})-(\d{8,18})-\d+\.jsonl\.zst")
_SEALED = re.compile(r"sealed/([0-9a-f]{12})/part-(\d+)-(\d+)\.json")


class SealedPart(msgspec.Struct, frozen=True, kw_only=True):
    """What a part holds. `missing` are numbers in its range that it does not: they are dead letters."""

    file: str
    first: int
    last: int
    missing: tuple[int, ...] = ()
    captures: int = 0
    rows: int = 0
    errors: int = 0
    outcomes: dict[str, int] = {}
    left_out: dict[str, int] = {}

    @property
    def batches(self) -> int:
        return self.last - self.first + 1 - len(self.missing)

    def holds(self, number: int) -> bool:
        return self.first <= number <= self.last and number not in self.missing


class PartPlan(msgspec.Struct, frozen=True):
    """The batches of a part that is not written yet."""

    present: tuple[int, ...]
    missing: tuple[int, ...]


class SpooledBatch(msgspec.Struct, frozen=True):
    """A batch in the spool: its files there, in order, and what is known of it."""

    files: tuple[str, ...]
    size: int
    totals: TaskTotals


class Spool:
    """The batches of a state that are done and in no part yet."""

    def __init__(self, state: Storage) -> None:
        self._state = state
        self._known: dict[tuple[str, int], SpooledBatch] = {}

    def numbers(self) -> dict[str, list[int]]:
        """Return the numbers of each run that have a file or a receipt here, whole or not, in order."""
        runs: dict[str, set[int]] = {}
        for folder, pattern in ((f"{FOLDER}/", _RECEIPT), (SPOOL, _SPOOLED)):
            for stat in self._state.list(folder):
                if match := pattern.fullmatch(stat.key):
                    runs.setdefault(match[1], set()).add(int(match[2]))
        return {run: sorted(numbers) for run, numbers in sorted(runs.items())}

    def read(self, run: str, number: int) -> SpooledBatch | None:
        """Return what there is of a batch. None: it is not done yet."""
        known = self._known.get((run, number))  # another thread may forget it at any time
        if known is None:
            receipts = self._receipts(run, number).read()
            if not receipts or not receipts[-1].last:
                return None
            files = tuple(f"{SPOOL}{receipt.output.name}" for receipt in receipts if receipt.output)
            size = sum(receipt.bytes for receipt in receipts)
            known = self._known[run, number] = SpooledBatch(files, size, add_up_receipts(receipts))
        return known

    def forget(self, run: str, number: int) -> None:
        self._known.pop((run, number), None)
        for stat in list(self._state.list(f"{SPOOL}{batch_id(run, number)}-")):
            self._state.delete(stat.key)
        self._receipts(run, number).forget()

    def lines(self, spooled: SpooledBatch) -> Iterator[bytes]:
        for key in spooled.files:
            try:
                with zstandard.ZstdDecompressor().stream_reader(self._state.read(key)) as stream:
                    yield from io.BufferedReader(stream, 1 << 20)
            except zstandard.ZstdError as error:
                raise BadInput(f"a batch in the spool cannot be read: {error}", reason="bad_spool") from error

    def _receipts(self, run: str, number: int) -> Receipts:
        return Receipts(self._state, f"{run}/{number:08d}-", files=None, error_files=None)


class PartSealer:
    """`scratch` is a local folder for parts in the making; None: the system's. `row` is what parts hold."""

    def __init__(
        self,
        data: Storage,
        state: Storage,
        *,
        form: Format,
        row: type[msgspec.Struct],
        file_size: int = FILE_SIZE,
        scratch: Path | None,
    ) -> None:
        self._data, self._state = data, state
        self._form, self._row, self._file_size, self._scratch = form, row, file_size, scratch
        self._parts: dict[str, SealedPart] = {}
        self.spool = Spool(state)

    def seal(self) -> list[SealedPart]:
        """Seal the parts that are complete by now, and return them."""
        return self._seal(lambda _: False, rest=False)

    def finish(self, is_lost: Callable[[str], bool]) -> list[SealedPart]:
        """Seal everything, over the batches (by id) that are lost, as far as all others are there."""
        return self._seal(is_lost, rest=True)

    def parts(self, run: str) -> list[SealedPart]:
        """Return the parts of a run that are there, in order."""
        files = {stat.key for stat in self._data.list(f"{run}/part-")}
        found = []
        for stat in self._state.list(f"{SEALED}{run}/"):
            match = _SEALED.fullmatch(stat.key)
            if not match or f"{run}/{part_name(int(match[2]), int(match[3]))}{ENDINGS[self._form]}" not in files:
                continue
            part = self._parts.get(stat.key)  # another thread may take it away again
            if part is None:
                part = self._parts[stat.key] = msgspec.json.decode(self._state.read(stat.key), type=SealedPart)
            found.append(part)
        return sorted(found, key=lambda part: (part.first, part.last))

    def _seal(self, is_lost: Callable[[str], bool], *, rest: bool) -> list[SealedPart]:
        made = []
        for run, numbers in self.spool.numbers().items():
            done = self.parts(run)
            waiting = self._without_duplicates(run, numbers, done)
            following = 1 + max((part.last for part in done), default=0)
            late = [PartPlan((number,), ()) for number in waiting if number < following]
            ahead = [number for number in waiting if number >= following]
            pieces = self._pieces(run, ahead, following, is_lost=is_lost, rest=rest)
            made += [self._write(run, piece) for piece in (*late, *pieces)]
        return made

    def _without_duplicates(self, run: str, numbers: Iterable[int], done: list[SealedPart]) -> list[int]:
        """Return the numbers that are in no part. Others were done twice, or a sealer was killed before this line."""
        waiting = []
        last = max((part.last for part in done), default=0)
        for number in numbers:
            if number <= last and any(part.holds(number) for part in done):
                self.spool.forget(run, number)
            elif self.spool.read(run, number):
                waiting.append(number)
        return waiting

    def _pieces(
        self, run: str, ahead: list[int], following: int, *, is_lost: Callable[[str], bool], rest: bool
    ) -> Iterator[PartPlan]:
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
            size += self._spooled(run, number).size
            if size >= self._file_size:
                yield PartPlan(tuple(present), tuple(missing))
                present, missing, size = [], [], 0
        if present and rest:
            yield PartPlan(tuple(present), tuple(missing))

    def _spooled(self, run: str, number: int) -> SpooledBatch:
        spooled = self.spool.read(run, number)
        assert spooled  # only whole ones are in a piece
        return spooled

    def _write(self, run: str, piece: PartPlan) -> SealedPart:
        first, last = min(piece.present + piece.missing), piece.present[-1]
        name = part_name(first, last)
        batches = [self._spooled(run, number) for number in piece.present]
        part = describe_part(f"{run}/{name}{ENDINGS[self._form]}", first, last, piece.missing, batches)
        lines = (line for batch in batches for line in self.spool.lines(batch))
        with tempfile.TemporaryFile(dir=self._scratch) as file:
            if self._form == "parquet":
                write_parquet(file, lines, self._row)
            else:
                write_json_lines(file, lines)
            file.seek(0)
            key = f"{SEALED}{run}/{name}.json"
            self._state.write(key, msgspec.json.encode(part) + b"\n")
            self._data.write(part.file, file)
        self._parts.pop(key, None)  # an older one, whose part was never written
        for number in piece.present:
            self.spool.forget(run, number)
        return part


def describe_part(
    file: str, first: int, last: int, missing: tuple[int, ...], batches: list[SpooledBatch]
) -> SealedPart:
    outcomes: dict[str, int] = {}
    left_out: dict[str, int] = {}
    for batch in batches:
        add_counts(outcomes, batch.totals.outcomes)
        add_counts(left_out, batch.totals.left_out)
    return SealedPart(
        file=file,
        first=first,
        last=last,
        missing=missing,
        captures=sum(batch.totals.captures for batch in batches),
        rows=sum(batch.totals.documents for batch in batches),
        errors=sum(batch.totals.errors for batch in batches),
        outcomes=dict(sorted(outcomes.items())),
        left_out=dict(sorted(left_out.items())),
    )


def part_name(first: int, last: int) -> str:
    return f"part-{first:08d}-{last:08d}"


def write_json_lines(file: BinaryIO, lines: Iterable[bytes]) -> None:
    """Write one zstd frame: some readers ignore what follows the first."""
    with zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_checksum=True).stream_writer(file, closefd=False) as out:
        for line in lines:
            out.write(line)


def write_parquet(file: BinaryIO, lines: Iterable[bytes], kind: type[msgspec.Struct]) -> None:
    arrow, parquet = pyarrow()
    schema, decoder = schema_of(kind), msgspec.json.Decoder(kind)
    with parquet.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True) as writer:
        for group in row_groups(lines):
            arrays: list[Any] = columns_of([decoder.decode(line) for line in group], kind)
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))


def row_groups(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    size = 0
    for line in lines:
        group.append(line)
        size += len(line)
        if size >= ROW_GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
