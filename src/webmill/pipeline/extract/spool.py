"""The rows of one batch, durable before the batch is acknowledged: OUT/spool/BATCH.jsonl.zst.

Two zstd frames: a line about the batch, then a line for each row. The same batch gives the same bytes whoever works it,
so a second worker changes nothing.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec
import zstandard

from webmill.commoncrawl.batch import batch_id, number_of
from webmill.errors import BadInput, NotFound
from webmill.infra.storage.base import Storage
from webmill.pipeline.extract.rows import Keep, Row

FOLDER = "spool/"
ENDING = ".jsonl.zst"
LEVEL = 3


class BatchFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the items of a batch: items = rows + filtered. `size` is that of the rows as JSON lines."""

    id: str
    items: int
    rows: int
    size: int
    extraction: dict[str, int]
    filtered: dict[str, int]


_facts = msgspec.json.Decoder(BatchFacts)
_rows = msgspec.json.Decoder(Row)


class Spooled(msgspec.Struct, frozen=True):
    facts: BatchFacts
    data: bytes


def spool(id_: str, rows: Iterable[Row], *, keep: Keep) -> Spooled:
    """Only compressed rows are held: what pages blow up to, they shrink to again."""
    extraction: Counter[str] = Counter()
    filtered: Counter[str] = Counter()
    packer, out, size = zstandard.ZstdCompressor(level=LEVEL).compressobj(), io.BytesIO(), 0
    for row in rows:
        if reason := keep.reason_against(row):
            filtered[reason] += 1
            continue
        extraction[row.extraction] += 1
        line = msgspec.json.encode(row) + b"\n"
        size += len(line)
        out.write(packer.compress(line))
    out.write(packer.flush())
    kept = extraction.total()
    facts = BatchFacts(
        id=id_,
        items=kept + filtered.total(),
        rows=kept,
        size=size,
        extraction=dict(sorted(extraction.items())),
        filtered=dict(sorted(filtered.items())),
    )
    first = zstandard.ZstdCompressor(level=LEVEL).compress(msgspec.json.encode(facts) + b"\n")
    return Spooled(facts, first + out.getvalue())


def key_of(id_: str) -> str:
    return f"{FOLDER}{id_}{ENDING}"


def is_spooled(storage: Storage, id_: str) -> bool:
    try:
        storage.stat(key_of(id_))
    except NotFound:
        return False
    return True


def spooled(storage: Storage) -> dict[str, list[int]]:
    """The numbers of the batches of each run that lie in the spool, in order."""
    runs: dict[str, list[int]] = {}
    for stat in storage.list(FOLDER):
        known = number_of(stat.key.removeprefix(FOLDER).removesuffix(ENDING))
        if known and stat.key == key_of(batch_id(*known)):
            runs.setdefault(known[0], []).append(known[1])
    return {run: sorted(numbers) for run, numbers in sorted(runs.items())}


def read_facts(storage: Storage, id_: str) -> BatchFacts:
    return _facts.decode(next(_lines(storage.read(key_of(id_)))))


def read_lines(storage: Storage, id_: str) -> Iterator[bytes]:
    lines = _lines(storage.read(key_of(id_)))
    next(lines)
    return lines


def row_of(line: bytes) -> Row:
    return _rows.decode(line)


def _lines(data: bytes) -> Iterator[bytes]:
    try:
        with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as stream:
            yield from io.BufferedReader(stream, 1 << 20)
    except zstandard.ZstdError as error:
        raise BadInput(f"a batch in the spool cannot be read: {error}", reason="bad_spool") from error
