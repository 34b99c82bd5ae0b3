"""The columnar index: sorted CDXJ lines as Parquet, with the columns of Common Crawl's `cc-index-table` (flat schema).

Names, types and nullability are those of its `cc-index-schema-flat.json`; `crawl` and `subset` are partitions there,
that is folders (`crawl=NAME/subset=warc/`), and so not in the file. `columns.py` makes the row of a capture.

A file is one sorted range of lines, in row groups of bounded size; the same lines give the same bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from webmill.errors import BadInput, Misconfigured
from webmill.index.columnar.columns import COLUMNS, Row, row_of
from webmill.index.lines import Batch
from webmill.index.order import ensure_byte_order
from webmill.infra.atomic import writing

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_PER_GROUP = 128 << 10  # about 100 MB of Arrow memory at a time, and what a query can skip
ROWS_AT_ONCE = 8 << 10  # as Python objects
COMPRESSION = "zstd"


class TableCounts(msgspec.Struct, frozen=True):
    """How many lines became rows, and how many were rejected, by reason."""

    rows: int
    rejected: Counter[str]


def write_parquet(
    batches: Iterable[Batch],
    path: Path,
    *,
    rows_per_group: int = ROWS_PER_GROUP,
    on_reject: Callable[[bytes, BadInput], None] | None = None,
    source: str = "input",
) -> TableCounts:
    """Write one file atomically. `BadInput` for unsorted input; a bad line is rejected and counted."""
    arrow, parquet = _pyarrow()
    schema = _schema(arrow)
    rejected: Counter[str] = Counter()
    rows = _rows(chain.from_iterable(ensure_byte_order(batches, source=source)), rejected, on_reject)
    options = {
        "compression": COMPRESSION,
        "sorting_columns": [parquet.SortingColumn(0)],
        "store_schema": False,  # Arrow's copy of the schema adds nothing to Parquet's
        "write_page_index": True,
        "write_page_checksum": True,
    }
    count = 0
    with writing(path) as file, parquet.ParquetWriter(file, schema, **options) as writer:
        while (group := _group(arrow, rows, schema, size=rows_per_group)).num_rows:
            writer.write_table(group, row_group_size=rows_per_group)
            count += group.num_rows
    return TableCounts(count, rejected)


def _rows(
    lines: Iterable[bytes], rejected: Counter[str], on_reject: Callable[[bytes, BadInput], None] | None
) -> Iterator[Row]:
    for line in lines:
        try:
            yield row_of(line)
        except BadInput as error:
            rejected[error.reason] += 1
            if on_reject:
                on_reject(line, error)


def _group(arrow: Any, rows: Iterator[Row], schema: pa.Schema, *, size: int) -> pa.Table:
    parts = []
    while size and (some := list(islice(rows, min(size, ROWS_AT_ONCE)))):
        columns = zip(*some, strict=True)
        arrays = [arrow.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)]
        parts.append(arrow.RecordBatch.from_arrays(arrays, schema=schema))
        size -= len(some)
    # In one piece: where pages end must not depend on where the parts did.
    return arrow.Table.from_batches(parts, schema=schema).combine_chunks()


def _schema(arrow: Any) -> pa.Schema:
    types = {
        "string": arrow.string(),
        "int": arrow.int32(),
        "short": arrow.int16(),
        "timestamp": arrow.timestamp("ms", tz="UTC"),
    }
    return arrow.schema([arrow.field(column.name, types[column.type], nullable=column.nullable) for column in COLUMNS])


def is_available() -> bool:
    """Whether pyarrow is installed, without importing it."""
    return find_spec("pyarrow") is not None


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as error:
        raise Misconfigured("the columnar index needs pyarrow: pip install 'webmill[parquet]'") from error
    return arrow, parquet
