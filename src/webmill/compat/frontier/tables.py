"""The three tables of the crawler that kept its frontier in PostgreSQL, and what their rows mean here.

    visited_urls     url, crawled_timestamp, http_status_code; its content_storage_path, redirected_to_url are left
    frontier         url, domain, depth, added_timestamp
    domain_metadata  domain, robots_txt_content, robots_txt_expires_timestamp, is_manually_excluded,
                     last_scheduled_fetch_timestamp

Each is read in one order that is total but for rows that are equal, so that a place in it can be gone on from. The
order is that of bytes, whatever the database's language. Times are seconds since 1970, or timestamps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import msgspec

from webmill.compat.frontier.postgres import DatabaseSnapshot
from webmill.errors import Misconfigured

_NUMBERS = frozenset({"int2", "int4", "int8", "float4", "float8", "numeric"})
_TIMES = frozenset({"timestamp", "timestamptz"})


class SourceTable(msgspec.Struct, frozen=True):
    name: str
    key: tuple[str, ...]  # the order; the first columns of a row
    columns: tuple[str, ...]  # the others


VISITED = SourceTable("visited_urls", ("crawled_timestamp", "url"), ("http_status_code",))
FRONTIER = SourceTable("frontier", ("domain", "added_timestamp", "url"), ("depth",))
DOMAINS = SourceTable(
    "domain_metadata",
    ("domain",),
    (
        "robots_txt_content",
        "robots_txt_expires_timestamp",
        "is_manually_excluded",
        "last_scheduled_fetch_timestamp",
    ),
)


def query(table: SourceTable, database: DatabaseSnapshot, *, start: Sequence[str | float]) -> str:
    """From the row with this key on, all of them in their order: key first, then the other columns."""
    types = database.columns(table.name)
    missing = [column for column in (*table.key, *table.columns) if column not in types]
    if missing:
        message = f"the table {table.name} has no column {', '.join(missing)}: is this the crawler's database?"
        raise Misconfigured(message)
    key = [_key(column, types) for column in table.key]
    others = [_value(column, types) for column in table.columns]
    places = ", ".join(["%s"] * len(start))
    where = f" WHERE ({', '.join(key)}) >= ({places})" if start else ""
    return f'SELECT {", ".join([*key, *others])} FROM "{table.name}"{where} ORDER BY {", ".join(key)}'  # noqa: S608


def _key(column: str, types: Mapping[str, str]) -> str:
    value = _value(column, types)
    if types[column] in _NUMBERS | _TIMES:
        return f"coalesce({value}, 0)"
    return f"coalesce({value}::text, '') COLLATE \"C\""


def _value(column: str, types: Mapping[str, str]) -> str:
    if types[column] in _TIMES:
        return f'extract(epoch FROM "{column}")::float8'
    return f'"{column}"::float8' if types[column] in _NUMBERS else f'"{column}"'


def number(value: Any) -> float:
    """Of a column that may be empty, or hold PostgreSQL's `NaN` and `Infinity`."""
    return float(value) if isinstance(value, int | float) and isfinite(value) else 0.0
