"""SQLite files that somebody else may have made: what lies in them is data, and nothing of it runs.

`connect` is the only way to a file in webmill. It switches off what a schema can make SQLite do, as
https://sqlite.org/security.html advises for untrusted files. `refuse_active_schema` refuses a file with anything that
we never make, before a statement uses one of its names, `refuse_other_tables` one whose tables are not as we make them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any

import apsw

from webmill.errors import BadInput
from webmill.infra.sqlite_checksums import checksum_vfs

MAX_VALUE = 256 << 20  # bytes of one value or row; the longest of ours is a message
DISTRUST = {
    apsw.SQLITE_DBCONFIG_DEFENSIVE: 1,  # no writes to the schema, nor to tables behind virtual ones
    apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA: 0,  # no functions with effects in what the file says of its tables
    apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER: 0,
    apsw.SQLITE_DBCONFIG_ENABLE_VIEW: 0,
}
ACTIVE = """
    SELECT type, name FROM sqlite_schema WHERE type IN ('view', 'trigger')
    UNION ALL
    SELECT 'virtual table', name FROM sqlite_schema WHERE type = 'table' AND rootpage = 0
    UNION ALL
    SELECT 'computed column', entry.name || '.' || field.name
        FROM sqlite_schema AS entry, pragma_table_xinfo(entry.name) AS field
        WHERE entry.type = 'table' AND entry.rootpage > 0 AND field.hidden
    LIMIT 1
"""

TABLES = "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite@_%' ESCAPE '@'"

Run = Callable[..., list[tuple[Any, ...]]]


def connect(address: str, *, flags: int = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE) -> apsw.Connection:
    """Open an SQLite file that is not trusted."""
    connection = apsw.Connection(address, flags=flags, vfs=checksum_vfs())
    for switch, value in DISTRUST.items():
        connection.config(switch, value)
    connection.limit(apsw.SQLITE_LIMIT_LENGTH, MAX_VALUE)
    connection.execute("PRAGMA cell_size_check=ON").fetchall()
    return connection


def refuse_active_schema(run: Run, path: Path) -> None:
    """Refuse a file with anything but plain tables and their indexes.

    A view could stand in place of a table, and a virtual table would be read by the parser of its module, from bytes
    that are not ours. Functions in constraints, defaults and indexes are left to `connect`.
    """
    for kind, name in run(ACTIVE):
        message = f"has a {kind} ({str(name)[:80]!r}), which webmill never makes"
        raise BadInput(message, reason="corrupt", source=str(path))


def refuse_other_tables(run: Run, steps: tuple[str, ...], path: Path) -> None:
    """Refuse a file that has other tables, columns or constraints than those that `steps` make: ours, and damaged or
    made to look like ours.
    """
    found = {str(name): normalise(sql) for name, sql in run(TABLES)}
    wanted = made_by(steps)
    if found != wanted:
        name = min(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
        message = f"its table or index {name[:80]!r} is not as webmill makes it"
        raise BadInput(message, reason="corrupt", source=str(path))


@lru_cache(maxsize=64)
def made_by(steps: tuple[str, ...]) -> dict[str, str]:
    """Return the tables and indexes that these steps make, each with its statement."""
    with closing(apsw.Connection(":memory:")) as connection:
        for step in steps:
            connection.execute(step).fetchall()
        return {str(name): normalise(sql) for name, sql in connection.execute(TABLES)}


def normalise(statement: object) -> str:
    """Return a statement with single spaces: how steps are laid out in our source says nothing."""
    return " ".join(str(statement).split())
