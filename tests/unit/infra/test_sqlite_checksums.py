"""Every page of our SQLite files has a checksum: a flipped bit is an error that names the file, or changes nothing."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from webmill.errors import BadInput
from webmill.infra.sqlite import Database, Schema, open_read_only
from webmill.infra.sqlite_checksums import CHECKSUMMED, has_checksums, is_cut

ITEMS = Schema(tag=1234, steps=("CREATE TABLE item (name TEXT PRIMARY KEY, body TEXT) STRICT, WITHOUT ROWID",))
ALL = "SELECT * FROM item ORDER BY name"


def fill(database: Database) -> None:
    with database.write() as run:
        for number in range(300):
            run("INSERT INTO item VALUES (?, ?)", (f"name {number}", f"body {number} " * 4))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Database(tmp_path / "file.sqlite", schema=ITEMS) as database:
        fill(database)
    return tmp_path / "file.sqlite"


@pytest.fixture
def of_before(tmp_path: Path) -> Path:
    """A file as an earlier webmill has made it: without checksums."""
    path = tmp_path / "before.sqlite"
    with closing(apsw.Connection(str(path), vfs="unix")) as connection:
        connection.execute("PRAGMA journal_mode=wal; PRAGMA user_version=1; PRAGMA application_id=1234").fetchall()
        connection.execute(ITEMS.steps[0])
        connection.execute("INSERT INTO item VALUES ('a', 'b')")
    return path


def read_both_ways(path: Path) -> object:
    with open_read_only(path) as run:
        found = run(ALL)
    with Database(path, schema=ITEMS) as database:
        assert database.read(ALL) == found
    return found


def test_a_flipped_bit_is_an_error_that_names_the_file_or_changes_nothing(path: Path) -> None:
    whole, data = read_both_ways(path), path.read_bytes()
    dice, refused = random.Random(5), list[str]()
    for _ in range(200):
        bit = dice.randrange(8 * len(data))
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            assert read_both_ways(path) == whole, f"bit {bit} changed the answer"
        except BadInput as error:
            refused.append(str(error))
    assert len(refused) > 150
    assert all(str(path) in message for message in refused)


def test_a_file_that_was_cut_is_refused_wherever_it_was(path: Path) -> None:
    data = path.read_bytes()
    for length in [1, 15, 99, 100, 4095, *range(4096, len(data), 4096), len(data) - 1]:
        path.write_bytes(data[:length])
        for read in (lambda: open_read_only(path).__enter__(), lambda: Database(path, schema=ITEMS)):
            with pytest.raises(BadInput, match=r"file\.sqlite"):
                read()


def test_a_file_of_before_gets_checksums_when_it_is_opened_alone(of_before: Path) -> None:
    with open_read_only(of_before) as run:
        assert run(ALL) == [("a", "b")]
    assert not has_checksums(of_before)
    with Database(of_before, schema=ITEMS) as database:
        assert database.read(ALL) == [("a", "b")]
        assert database.journal == "wal"
        fill(database)
    assert has_checksums(of_before)
    assert len(read_both_ways(of_before)) == 301  # type: ignore[arg-type]


def test_a_file_of_before_that_another_process_uses_is_used_as_it_is(of_before: Path) -> None:
    with closing(apsw.Connection(str(of_before), vfs="unix")) as other:
        assert other.execute(ALL).fetchall() == [("a", "b")]
        with Database(of_before, schema=ITEMS) as database:
            fill(database)
        other.execute("INSERT INTO item VALUES ('c', 'd')")
    assert not has_checksums(of_before)
    assert len(read_both_ways(of_before)) == 302  # type: ignore[arg-type]
    assert has_checksums(of_before)


def test_an_earlier_webmill_takes_it_for_a_newer_one_and_does_not_write(path: Path) -> None:
    """It would leave wrong checksums behind. Its test was: is the version higher than the steps that I know?"""
    with closing(apsw.Connection(str(path), vfs="unix")) as earlier:
        assert earlier.execute("PRAGMA user_version").fetchall() == [(len(ITEMS.steps) + CHECKSUMMED,)]


def test_a_copy_has_checksums_too(path: Path, tmp_path: Path) -> None:
    with Database(path, schema=ITEMS) as database:
        database.copy_to(tmp_path / "copy.sqlite")
    assert has_checksums(tmp_path / "copy.sqlite")
    assert read_both_ways(tmp_path / "copy.sqlite") == read_both_ways(path)


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="needs /proc/locks")
def test_looking_at_a_file_keeps_the_locks_that_this_process_has_on_it(path: Path) -> None:
    """POSIX gives up all locks of a process on a file when it closes any descriptor of it."""

    def locks() -> list[str]:
        lines = (line.split() for line in Path("/proc/locks").read_text().splitlines())
        return [" ".join(line[1:]) for line in lines if any(word.endswith(f":{path.stat().st_ino}") for word in line)]

    with Database(path, schema=ITEMS) as database:
        database.read(ALL)
        before = locks()
        assert before
        assert has_checksums(path)
        assert not is_cut(path)
        assert locks() == before
