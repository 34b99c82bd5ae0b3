"""Rows as Parquet, typed by the struct they are instances of; the same rows give the same bytes. Needs pyarrow.

Text, numbers, booleans, times (UTC) and bytes are columns of that type; lists and structs are nested; whatever has no
such shape (a dict, a choice of types) is JSON text.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from webmill.errors import BadInput, Misconfigured
from webmill.infra.sinks.base import SinkRow

ENDING = "parquet"
_KEPT = (datetime, bytes)


def encode(rows: Sequence[SinkRow], *, kind: type[msgspec.Struct], compression: str) -> bytes:
    arrow, parquet = pyarrow()
    schema = schema_of(kind)
    out = io.BytesIO()
    parquet.write_table(
        arrow.Table.from_arrays(columns_of([row.value for row in rows], kind), schema=schema),
        out,
        compression=compression,
        write_page_checksum=True,
    )
    return out.getvalue()


def check(row: SinkRow, *, kind: type[msgspec.Struct]) -> None:
    """BadInput: a value that its column cannot hold. A struct takes anything, whatever the types of its fields say."""
    try:
        plain = msgspec.to_builtins(row.value, builtin_types=_KEPT)
        msgspec.convert(plain, kind, builtin_types=_KEPT)  # also finds None where there is no place for it
        columns_of([row.value], kind)
    except (msgspec.ValidationError, TypeError, ValueError, OverflowError) as error:
        raise BadInput(str(error), reason="wrong_type") from error


def columns_of(rows: Sequence[object], kind: type[msgspec.Struct]) -> list[Any]:
    """Return the rows as one array for each column."""
    arrow, _ = pyarrow()
    values = [_plain(row, kind) for row in rows]
    return [arrow.array([value[field.name] for value in values], type=field.type) for field in schema_of(kind)]


@cache
def schema_of(kind: type[msgspec.Struct]) -> Any:
    arrow, _ = pyarrow()
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return arrow.schema([_field(arrow, field) for field in info.fields])


def _plain(value: object, kind: type[msgspec.Struct]) -> dict[str, Any]:
    if type(value) is not kind:
        message = f"a {type(value).__name__} among rows of {kind.__name__}"
        raise BadInput(message, reason="wrong_type")
    plain: dict[str, Any] = msgspec.to_builtins(value, builtin_types=_KEPT)
    for name in _json_columns(kind):
        plain[name] = None if plain[name] is None else msgspec.json.encode(plain[name]).decode()
    return plain


@cache
def _json_columns(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return tuple(field.encode_name for field in info.fields if _shape(field.type)[0] is None)


def _field(arrow: Any, field: inspect.Field) -> Any:
    shape, nullable = _shape(field.type)
    kind = arrow.string() if shape is None else _arrow_type(arrow, shape)
    return arrow.field(field.encode_name, kind, nullable=nullable)


def _shape(kind: inspect.Type) -> tuple[inspect.Type | None, bool]:
    """The type without None, or None when a column cannot have it; and whether None may stand there."""
    nullable = False
    if isinstance(kind, inspect.Metadata):  # a column that says what it is for
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        rest = [part for part in kind.types if not isinstance(part, inspect.NoneType)]
        nullable = len(rest) < len(kind.types)
        if len(rest) != 1:
            return None, nullable
        kind = rest[0]
    return (kind if _fits(kind) else None), nullable or isinstance(kind, inspect.AnyType)


_SCALARS: dict[type[inspect.Type], str] = {
    inspect.StrType: "string",
    inspect.IntType: "int64",
    inspect.FloatType: "float64",
    inspect.BoolType: "bool_",
    inspect.BytesType: "binary",
}


def _fits(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.ListType | inspect.VarTupleType):
        return _shape(kind.item_type)[0] is not None
    if isinstance(kind, inspect.StructType):
        return all(_shape(field.type)[0] is not None for field in kind.fields)
    return type(kind) in _SCALARS or isinstance(kind, inspect.DateTimeType)


def _arrow_type(arrow: Any, kind: inspect.Type) -> Any:
    if isinstance(kind, inspect.ListType | inspect.VarTupleType):
        item, nullable = _shape(kind.item_type)
        assert item is not None
        return arrow.list_(arrow.field("element", _arrow_type(arrow, item), nullable=nullable))
    if isinstance(kind, inspect.StructType):
        return arrow.struct([_field(arrow, field) for field in kind.fields])
    if isinstance(kind, inspect.DateTimeType):
        return arrow.timestamp("us", tz="UTC")
    return getattr(arrow, _SCALARS[type(kind)])()


def pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as error:
        raise Misconfigured(
            "Parquet needs an extra: pip install 'webmill[parquet]', or choose --format jsonl"
        ) from error
    return arrow, parquet
