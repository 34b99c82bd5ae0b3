from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from webmill.errors import BadInput, Misconfigured, Unavailable
from webmill.infra.sqlite import Database, Schema, file_system_of, has_wal_reset_bug

ONE = Schema(tag=1234, steps=("CREATE TABLE item (id INTEGER PRIMARY KEY, body TEXT) STRICT",))
TWO = Schema(tag=1234, steps=(*ONE.steps, "ALTER TABLE item ADD COLUMN size INTEGER; UPDATE item SET size = 0"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file.sqlite"


def put(database: Database, *bodies: str) -> None:
    with database.write() as run:
        for body in bodies:
            run("INSERT INTO item (body) VALUES (?)", (body,))


def count(database: Database) -> int:
    number: int = database.read("SELECT count(*) FROM item")[0][0]
    return number


@pytest.mark.parametrize(
    ("version", "affected"),
    [
        ("3.6.23", False),
        ("3.7.0", True),
        ("3.40.1", True),
        ("3.44.5", True),
        ("3.44.6", False),
        ("3.45.0", True),
        ("3.50.6", True),
        ("3.50.7", False),
        ("3.51.0", True),
        ("3.51.2", True),
        ("3.51.3", False),
        ("3.54.1", False),
    ],
)
def test_versions_with_the_wal_reset_bug_are_known(version: str, affected: bool) -> None:
    assert has_wal_reset_bug(version) is affected


def test_the_library_we_ship_with_is_sound_and_writes_ahead(path: Path) -> None:
    with Database(path, schema=ONE) as database:
        assert database.journal == "wal"
        assert database.read("PRAGMA journal_mode") == [("wal",)]
        with database.write() as run:
            assert run("PRAGMA synchronous") == [(2,)]  # FULL
        assert database.read("PRAGMA foreign_keys") == [(1,)]


def test_an_affected_library_gets_the_rollback_journal(path: Path) -> None:
    with Database(path, schema=ONE, library="3.40.1") as database:
        put(database, "kept")
        assert database.read("PRAGMA journal_mode") == [("delete",)]
        with database.write_relaxed() as run:
            assert run("PRAGMA synchronous") == [(3,)]  # EXTRA: relaxed would not be safe here
    with Database(path, schema=ONE) as database:
        assert count(database) == 1


def test_a_block_that_raises_leaves_nothing(path: Path) -> None:
    with Database(path, schema=ONE) as database:
        with pytest.raises(TypeError):
            put(database, "lost", object())  # type: ignore[arg-type]
        assert count(database) == 0
        put(database, "kept")
        assert count(database) == 1


def test_an_older_file_is_lifted_and_a_newer_one_refused(path: Path) -> None:
    with Database(path, schema=ONE) as database:
        put(database, "old")
    with Database(path, schema=TWO) as database:
        assert database.read("SELECT body, size FROM item") == [("old", 0)]
    with pytest.raises(Misconfigured, match="newer webmill"):
        Database(path, schema=ONE)


def test_a_migration_that_fails_changes_nothing(path: Path) -> None:
    with Database(path, schema=ONE) as database:
        put(database, "old")
    broken = Schema(tag=1234, steps=(*ONE.steps, "CREATE TABLE half (x); INSERT INTO missing VALUES (1)"))
    with pytest.raises(apsw.SQLError):
        Database(path, schema=broken)
    with Database(path, schema=ONE) as database:
        assert count(database) == 1
        assert database.read("SELECT name FROM sqlite_schema WHERE name = 'half'") == []


def test_a_file_of_somebody_else_is_refused_and_left_alone(path: Path) -> None:
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE theirs (x)")
    other.close()
    with pytest.raises(Misconfigured, match="something else"):
        Database(path, schema=ONE)
    with pytest.raises(Misconfigured, match="something else"):
        Database(path, schema=Schema(tag=99, steps=ONE.steps))


def test_a_held_file_is_unavailable_after_a_while(path: Path) -> None:
    with Database(path, schema=ONE) as holder, Database(path, schema=ONE, patience=0.05) as other:
        with holder.write() as run:
            run("INSERT INTO item (body) VALUES ('mine')")
            with pytest.raises(Unavailable, match="another process"):
                put(other, "theirs")
            assert count(other) == 0  # readers go on
        put(other, "theirs")
        assert count(holder) == 2


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="folder must exist"):
        Database(tmp_path / "missing" / "file.sqlite", schema=ONE)


def test_garbage_is_reported_as_corrupt(path: Path) -> None:
    path.write_bytes(b"this is not a database, whatever its name says" * 100)
    with pytest.raises(BadInput) as error:
        Database(path, schema=ONE)
    assert (error.value.reason, error.value.source) == ("corrupt", str(path))


def test_a_damaged_page_is_found_by_verify(path: Path) -> None:
    with Database(path, schema=ONE) as database:
        put(database, *("x" * 1000 for _ in range(500)))
        database.verify()
    whole = bytearray(path.read_bytes())
    whole[8192:12288] = b"\xff" * 4096
    path.write_bytes(whole)
    with Database(path, schema=ONE) as database, pytest.raises(BadInput) as error:
        database.verify()
    assert error.value.reason == "corrupt"


@contextmanager
def no_file_over(size: int) -> Iterator[None]:
    """A disk that is full: writes past `size` fail."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_disk_that_takes_no_more_is_unavailable_and_nothing_is_lost(path: Path) -> None:
    with Database(path, schema=ONE) as database:
        put(database, "before")
        with no_file_over(200_000), pytest.raises(Unavailable):
            put(database, *("x" * 5000 for _ in range(200)))
        assert count(database) == 1
        put(database, "after")
        database.verify()
        assert count(database) == 2


def test_threads_share_one_connection(path: Path) -> None:
    with Database(path, schema=ONE) as database:
        threads = [threading.Thread(target=lambda: [put(database, "x") for _ in range(20)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert count(database) == 160


def open_and_put(path: Path) -> None:
    with Database(path, schema=ONE) as database:
        for _ in range(10):
            put(database, "x")


def test_processes_may_open_a_new_file_at_the_same_moment(path: Path) -> None:
    code = f"from tests.unit.infra.test_sqlite import *; open_and_put(Path({str(path)!r}))"
    children = [subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[3]) for _ in range(4)]
    assert [child.wait(60) for child in children] == [0, 0, 0, 0]
    with Database(path, schema=ONE) as database:
        assert count(database) == 40


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_refused_the_connection_and_the_file(path: Path) -> None:
    with Database(path, schema=ONE) as database:
        answers = multiprocessing.get_context("fork").SimpleQueue()
        child = multiprocessing.get_context("fork").Process(target=try_both, args=(database, path, answers))
        child.start()
        child.join()
        refused = [answers.get(), answers.get()]
        answers.close()
        put(database, "the parent goes on")
    assert all("spawn" in answer for answer in refused)


def try_both(database: Database, path: Path, answers: multiprocessing.queues.SimpleQueue[str]) -> None:
    for attempt in (lambda: count(database), lambda: Database(path, schema=ONE)):
        try:
            attempt()
            answers.put("went through")
        except Misconfigured as error:
            answers.put(str(error))


def test_use_after_close_is_said_plainly(path: Path) -> None:
    database = Database(path, schema=ONE)
    database.close()
    database.close()
    with pytest.raises(Misconfigured, match="closed"):
        count(database)


def test_without_a_path_it_lives_in_memory() -> None:
    with Database(None, schema=ONE) as database:
        put(database, "x")
        assert count(database) == 1
    with Database(None, schema=ONE) as database:
        assert count(database) == 0


def test_the_mount_of_a_path_is_the_longest_above_it() -> None:
    mounts = "a / ext4 rw 0 0\nb /data nfs4 rw 0 0\nc /data/my\\040disk ext4 rw 0 0\n"
    assert file_system_of(Path("/data/x/y"), mounts=mounts) == "nfs4"
    assert file_system_of(Path("/data/my disk/y"), mounts=mounts) == "ext4"
    assert file_system_of(Path("/database/y"), mounts=mounts) == "ext4"
