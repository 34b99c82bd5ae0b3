"""Shards of a data set: documents written as Parquet, JSON lines, tar (WebDataset) or token ids.

The same documents give the same bytes: no times, no names of machines. A shard ends when its file has reached the size
that was asked for.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Protocol

import msgspec
import numpy as np
import zstandard

from webmill.curate.arrow import import_arrow
from webmill.curate.characters import Array

GROUP_BYTES = 32 << 20  # of text in a row group
GROUP_ROWS = 1 << 16
ROW_BYTES = GROUP_BYTES // GROUP_ROWS  # that a row counts beside its text
LEVEL = 3  # of zstd


class ShardEncoder(Protocol):
    """Writes tables of documents into one file."""

    def write(self, table: Any) -> None: ...

    def close(self) -> None: ...


OpenShard = Callable[[BinaryIO, int], ShardEncoder]  # the file, and the number of its first document


class ShardFormat(msgspec.Struct, frozen=True):
    """A format: the ending of its files, and how one is opened."""

    ending: str
    open: OpenShard


class ParquetShard:
    """Parquet with row groups of 32 MB of text, cut where the content says (`use_content_defined_chunking`): what is
    inserted changes the pages around it, and not all that follow."""

    def __init__(self, file: BinaryIO, _first: int) -> None:
        self._file = file
        self._writer: Any = None

    def write(self, table: Any) -> None:
        _, parquet = import_arrow()
        if self._writer is None:
            self._writer = parquet.ParquetWriter(
                self._file,
                table.schema,
                compression="zstd",
                compression_level=LEVEL,
                use_content_defined_chunking=True,
                write_page_checksum=True,
                write_page_index=True,
            )
        self._writer.write_table(table, row_group_size=GROUP_ROWS)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class JsonLinesShard:
    """JSON lines with the columns of documents, compressed with Zstandard."""

    def __init__(self, file: BinaryIO, _first: int) -> None:
        self._out = zstandard.ZstdCompressor(level=LEVEL).stream_writer(file, closefd=False)

    def write(self, table: Any) -> None:
        for row in table.to_pylist():
            self._out.write(msgspec.json.encode(row) + b"\n")

    def close(self) -> None:
        self._out.close()  # type: ignore[no-untyped-call]


class TarShard:
    """WebDataset: for each document NUMBER.txt with its text and NUMBER.json with its other columns."""

    def __init__(self, file: BinaryIO, first: int) -> None:
        self._tar = tarfile.open(fileobj=file, mode="w|", format=tarfile.USTAR_FORMAT)  # noqa: SIM115 - closed below
        self._number = first

    def write(self, table: Any) -> None:
        for row in table.to_pylist():
            text = row.pop("text") or ""
            self._add(f"{self._number:012}.json", msgspec.json.encode(row))
            self._add(f"{self._number:012}.txt", text.encode("utf-8", "surrogatepass"))
            self._number += 1

    def _add(self, name: str, data: bytes) -> None:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(data), 0o644
        self._tar.addfile(entry, io.BytesIO(data))

    def close(self) -> None:
        self._tar.close()


FORMATS = {
    "parquet": ShardFormat(".parquet", ParquetShard),
    "jsonl": ShardFormat(".jsonl.zst", JsonLinesShard),
    "webdataset": ShardFormat(".tar", TarShard),
}


def row_groups(tables: Iterator[Any], *, size: int = GROUP_BYTES) -> Iterator[Any]:
    """Yield the rows in tables of about `size` bytes of text, cut at the same rows however they come."""
    arrow, _ = import_arrow()
    waiting: list[Any] = []
    held = 0
    for table in tables:
        weights = np.cumsum(_text_bytes(table) + ROW_BYTES)
        first = 0
        while first < table.num_rows:
            before = weights[first - 1] if first else 0
            last = int(np.searchsorted(weights, before + size - held)) + 1
            waiting.append(table.slice(first, last - first))
            held += int(weights[min(last, table.num_rows) - 1] - before)
            first = last
            if held >= size:
                yield arrow.concat_tables(waiting).combine_chunks()
                waiting, held = [], 0
    if waiting:
        yield arrow.concat_tables(waiting).combine_chunks()


def _text_bytes(table: Any) -> Array:
    import_arrow()
    from pyarrow import compute

    lengths = compute.fill_null(compute.binary_length(table.column("text")), 0)
    return np.asarray(lengths.to_numpy(), np.int64)
