"""Columns as Arrow and Parquet: read, joined and written so that the same columns give the same bytes."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from webmill.errors import BadInput, Misconfigured
from webmill.infra.files import as_webmill_error
from webmill.infra.sinks import parquet as document_rows
from webmill.model import Document

ROWS_PER_GROUP = 1 << 20


def read_table(path: Path, columns: Collection[str] | None = None, *, repair: str) -> Any:
    """Return a Parquet file of ours. `BadInput`: it is damaged, and what to do."""
    arrow, parquet = import_arrow()
    try:
        # Without a buffer before it: that is a thread's, and costs more than it saves of files that are read whole.
        with parquet.ParquetFile(path, page_checksum_verification=True, pre_buffer=False) as file:
            return file.read(list(columns) if columns is not None else None, use_threads=False)
    except (arrow.ArrowException, OSError, KeyError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise as_webmill_error(error, str(path)) from error
        raise BadInput(f"damaged: {error}; {repair}", reason="bad_attributes", source=str(path)) from error


def encode_table(columns: Mapping[str, Any], *, metadata: Mapping[str, str] | None = None) -> bytes:
    """Return a Parquet file of columns; the same columns give the same bytes."""
    arrow, parquet = import_arrow()
    table = arrow.table({name: arrow.array(values) for name, values in columns.items()})
    if metadata:
        table = table.replace_schema_metadata(dict(metadata))
    out = io.BytesIO()
    parquet.write_table(
        table, out, compression="zstd", row_group_size=ROWS_PER_GROUP, write_page_checksum=True, use_dictionary=False
    )
    return out.getvalue()


def column_array(name: str, values: Sequence[Any]) -> Any:
    """Return a column of documents, of its type also where no row has a value; one that documents do not have, of the
    type of its values."""
    arrow, _ = import_arrow()
    plain = [_plain_value(value) if isinstance(value, tuple) else value for value in values]
    return arrow.array(plain, type=document_types().get(name))


@cache
def document_types() -> dict[str, Any]:
    """Return the Arrow type of every column of documents."""
    return {field.name: field.type for field in document_rows.schema_of(Document)}


def _plain_value(value: tuple[Any, ...]) -> Any:
    return msgspec.to_builtins(value, builtin_types=(bytes, datetime))


def as_array(column: Any) -> Any:
    """Return a column of numbers as an array; NaN where there is none."""
    arrow, _ = import_arrow()
    kind = column.type
    if arrow.types.is_integer(kind) or arrow.types.is_floating(kind) or arrow.types.is_boolean(kind):
        return column.to_numpy() if isinstance(column, arrow.ChunkedArray) else column.to_numpy(zero_copy_only=False)
    return column.combine_chunks() if isinstance(column, arrow.ChunkedArray) else column


def join_columns(batches: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the columns of several batches one after the other."""
    arrow, _ = import_arrow()
    joined: dict[str, Any] = {}
    for name in batches[0] if batches else ():
        pieces = [batch[name] for batch in batches]
        if isinstance(pieces[0], np.ndarray):
            joined[name] = np.concatenate(pieces)
        else:
            joined[name] = arrow.concat_arrays([arrow.array(piece) for piece in pieces])
    return joined


def import_arrow() -> tuple[Any, Any]:
    """Return pyarrow and its Parquet. `Misconfigured`: it is not installed."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as missing:
        raise Misconfigured("a corpus needs an extra: pip install 'webmill[parquet]'") from missing
    return arrow, parquet
