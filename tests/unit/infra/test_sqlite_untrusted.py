"""SQLite files of somebody else: nothing that lies in them runs, whatever it is called."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from webmill.errors import BadInput, WebmillError
from webmill.infra import sqlite, sqlite_untrusted
from webmill.infra.sqlite import Database, Schema, open_read_only

ITEMS = Schema(tag=1234, steps=("CREATE TABLE item (name TEXT PRIMARY KEY, body TEXT)",))
ALL = "SELECT name, body FROM item"
REAL = "CREATE TABLE real (name, body)"
ACTIVE = {
    "a view": (
        REAL,
        "CREATE VIEW item AS SELECT name, body FROM real",
    ),
    "a view that never ends": (
        "CREATE VIEW item AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS name FROM n",
    ),
    "a view with a function": ("CREATE VIEW item AS SELECT load_extension('./evil.so') AS name, 1 AS body",),
    "a trigger": (REAL, *ITEMS.steps, "CREATE TRIGGER t AFTER INSERT ON item BEGIN DELETE FROM real; END"),
    "a virtual table": ("CREATE VIRTUAL TABLE item USING fts5(name, body)",),
    "shadow tables that lie": (
        "CREATE VIRTUAL TABLE item USING fts5(name, body)",
        "INSERT INTO item VALUES ('a', 'b')",
        "UPDATE item_data SET block = x'ffffffffffffffff'",
    ),
    "an r-tree": ("CREATE VIRTUAL TABLE item USING rtree(name, body, c)",),
    "a computed column": ("CREATE TABLE item (name TEXT, body AS (zeroblob(900000000)))",),
    "a stored computed column": ("CREATE TABLE item (name TEXT, body TEXT AS (name || name) STORED)",),
}


def make(path: Path, *statements: str) -> Path:
    """Write a file as a stranger can, with the tag and version of ours."""
    with closing(apsw.Connection(str(path), vfs="unix")) as connection:
        connection.create_scalar_function("effect", lambda _: None)
        for statement in statements:
            connection.execute(statement).fetchall()
        connection.execute("PRAGMA user_version=1; PRAGMA application_id=1234").fetchall()
    return path


@pytest.mark.parametrize("statements", ACTIVE.values(), ids=ACTIVE.keys())
def test_a_file_with_more_than_plain_tables_is_refused_before_it_is_read(
    statements: tuple[str, ...], tmp_path: Path
) -> None:
    path = make(tmp_path / "theirs.sqlite", *statements)
    before = path.read_bytes()
    with pytest.raises(BadInput, match="which webmill never makes") as error, open_read_only(path) as run:
        run(ALL)
    assert error.value.source == str(path)
    with pytest.raises(BadInput, match="which webmill never makes"):
        Database(path, schema=ITEMS)
    assert path.read_bytes() == before


def test_a_file_of_plain_tables_is_read(tmp_path: Path) -> None:
    path = make(tmp_path / "ours.sqlite", *ITEMS.steps, "INSERT INTO item VALUES ('a', 'b')")
    with open_read_only(path) as run:
        assert run(ALL) == [("a", "b")]
    with Database(path, schema=ITEMS) as database:
        assert database.read(ALL) == [("a", "b")]


def test_functions_with_effects_do_not_run_in_constraints_defaults_and_indexes(tmp_path: Path) -> None:
    """Without the switch the function is called: the negative control."""
    path = make(
        tmp_path / "theirs.sqlite",
        *ITEMS.steps,
        "CREATE TABLE other (name TEXT CHECK (effect(name) IS NULL), body TEXT DEFAULT (effect('b')))",
    )
    called: list[object] = []
    insert = "INSERT INTO other (name) VALUES ('a')"
    with closing(apsw.Connection(str(path), vfs="unix")) as connection:
        connection.create_scalar_function("effect", called.append)
        connection.execute(insert)
    assert called
    called.clear()
    with closing(sqlite_untrusted.connect(str(path))) as connection:
        connection.create_scalar_function("effect", called.append)
        with pytest.raises(apsw.CorruptError, match="unsafe use of effect"):
            connection.execute(insert)
    assert not called


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TABLE item (name TEXT PRIMARY KEY, body TEXT CHECK (abs(random()) > 0))",),
        ("CREATE TABLE item (name PRIMARY KEY, body)",),
        (*ITEMS.steps, "CREATE TABLE other (name)"),
        (*ITEMS.steps, "CREATE UNIQUE INDEX once ON item (abs(1))"),
        ("CREATE TABLE other (name)",),
    ],
)
def test_a_file_whose_tables_are_not_as_webmill_makes_them_is_refused(
    statements: tuple[str, ...], tmp_path: Path
) -> None:
    path = make(tmp_path / "theirs.sqlite", *statements)
    with pytest.raises(BadInput, match="is not as webmill makes it"):
        Database(path, schema=ITEMS)
    later = Schema(tag=1234, steps=(*ITEMS.steps, "CREATE TABLE second (name)"))
    with pytest.raises(BadInput, match="is not as webmill makes it"):
        Database(path, schema=later)


def test_a_file_cannot_write_its_own_schema(tmp_path: Path) -> None:
    with Database(make(tmp_path / "ours.sqlite", *ITEMS.steps), schema=ITEMS) as database:
        database.read("PRAGMA writable_schema=ON")
        with pytest.raises(apsw.SQLError, match="may not be modified"), database.write() as run:
            run("UPDATE sqlite_schema SET sql = 'CREATE VIEW item AS SELECT 1'")


def test_cells_are_checked_and_values_are_bounded(tmp_path: Path) -> None:
    with Database(make(tmp_path / "ours.sqlite", *ITEMS.steps), schema=ITEMS) as database:
        assert database.read("PRAGMA cell_size_check") == [(1,)]
        with pytest.raises(WebmillError, match="too big"):
            database.read("SELECT length(randomblob(900000000))")


def test_there_is_one_way_to_an_sqlite_file() -> None:
    """Files are opened by `connect`, and by the check of checksums in memory."""
    package = Path(sqlite.__file__).parents[1]
    found = {
        file.name
        for file in package.rglob("*.py")
        if any(word in file.read_text() for word in ("apsw.Connection(", "sqlite3.connect("))
    }
    assert found == {"sqlite_untrusted.py", "sqlite_checksums.py"}
