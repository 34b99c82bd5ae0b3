"""Looking leaves no trace, whatever the writers are doing."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from webmill.errors import BadInput, NotFound
from webmill.infra import lock
from webmill.infra.lock import is_locked
from webmill.infra.queue.base import Message
from webmill.infra.queue.sqlite import SqliteQueue
from webmill.infra.queue.sqlite_reader import view_file
from webmill.infra.sqlite import open_read_only

KILLED = """
import os, sys
from pathlib import Path
from webmill.infra.queue.base import Message
from webmill.infra.queue.sqlite import SqliteQueue
queue = SqliteQueue(Path(sys.argv[1]))
queue.publish([Message("a", b"1"), Message("b", b"2")])
os._exit(0)
"""

LOOKING = """
import sys
from pathlib import Path
from webmill.infra.lock import is_locked
print("looking", flush=True)
while True:
    is_locked(Path(sys.argv[1]), "run")
"""


def files(folder: Path) -> dict[str, bytes]:
    """But for SQLite's index of its log, in which readers leave marks while a writer is there."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}


def waiting(file: Path) -> int:
    with view_file(file) as queue:
        return queue.stats().ready


def test_a_closed_file_is_read_without_a_trace(tmp_path: Path) -> None:
    with closing(SqliteQueue(tmp_path / "queue")) as queue:
        queue.publish([Message("a", b"1")])
    before = files(tmp_path)
    tmp_path.chmod(0o555)
    try:
        assert waiting(tmp_path / "queue") == 1
    finally:
        tmp_path.chmod(0o755)
    assert files(tmp_path) == before
    assert not (tmp_path / "queue-shm").exists()


def test_what_a_writer_has_just_written_is_seen(tmp_path: Path) -> None:
    with closing(SqliteQueue(tmp_path / "queue")) as queue:
        queue.publish([Message("a", b"1")])
        before = files(tmp_path)
        assert waiting(tmp_path / "queue") == 1
        assert files(tmp_path) == before


def test_the_results_of_very_many_tasks_are_not_held_at_once(tmp_path: Path) -> None:
    path, count, size = tmp_path / "queue", 3_500, 10_000
    with closing(SqliteQueue(path, remember=True)) as queue:
        queue.publish(Message(f"{number}", b"") for number in range(count))
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("UPDATE message SET state = 4, result = zeroblob(?) WHERE id != '7'", (size,))
    tracemalloc.start()
    try:
        with view_file(path) as view:
            found = sum(len(entry.result or b"") == size for entry in view.entries())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == count - 1
    assert peak < count * size / 2


def test_the_log_of_a_killed_writer_is_read_and_left(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "queue")], check=True, timeout=120)
    before = files(tmp_path)
    assert waiting(tmp_path / "queue") == 2
    assert files(tmp_path) == before
    with closing(SqliteQueue(tmp_path / "queue")) as queue:
        assert queue.stats().ready == 2


def test_a_file_that_is_none_of_ours_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        waiting(tmp_path / "none")
    (tmp_path / "garbage").write_bytes(os.urandom(5000))
    with pytest.raises(BadInput), open_read_only(tmp_path / "garbage") as read:
        read("SELECT 1 FROM message")
    (tmp_path / "empty").touch()
    with pytest.raises(BadInput):
        waiting(tmp_path / "empty")


def test_a_lock_is_seen_while_it_is_held_and_is_never_made(tmp_path: Path) -> None:
    assert not is_locked(tmp_path, "run")
    assert [*tmp_path.iterdir()] == []
    with lock.exclusive(tmp_path, "run", doing="testing"):
        assert is_locked(tmp_path, "run")
    assert not is_locked(tmp_path, "run")


def test_a_look_at_a_lock_is_no_reason_not_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "PEEK_TIME", 60.0)  # however busy this machine is
    command = [sys.executable, "-c", LOOKING, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as looker:
        try:
            assert looker.stdout
            looker.stdout.readline()
            for _ in range(5000):
                with lock.exclusive(tmp_path, "run", doing="testing"):
                    pass
        finally:
            looker.kill()


def test_a_file_may_have_any_name(tmp_path: Path) -> None:
    with closing(SqliteQueue(tmp_path / "queue")) as queue:
        queue.publish([Message("a", b"1")])
    file = tmp_path / os.fsdecode(b"a?b#%41 \xff")
    try:
        (tmp_path / "queue").rename(file)
    except OSError:
        pytest.skip("names are UTF-8 here")
    assert waiting(file) == 1
