"""One process at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from webmill.errors import Conflict, Misconfigured, NotFound, WebmillError
from webmill.infra import lock
from webmill.infra.files import RESERVED

HOLD = """
import sys
from pathlib import Path
from webmill.infra import lock
with lock.exclusive(Path(sys.argv[1]), "x", doing="testing"):
    print("held", flush=True)
    sys.stdin.read()
"""


def hold(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLD, str(folder)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout
    assert holder.stdout.readline() == "held\n"
    return holder


def test_a_lock_held_by_another_process_is_a_conflict_that_names_what_it_does(tmp_path: Path) -> None:
    with hold(tmp_path) as holder:
        with (
            pytest.raises(Conflict, match="another process is testing"),
            lock.exclusive(tmp_path, "x", doing="testing"),
        ):
            pass
        with lock.exclusive(tmp_path, "y", doing="something else"):
            pass
        holder.communicate("")
    with lock.exclusive(tmp_path, "x", doing="testing"):
        pass


def test_a_holder_that_is_killed_holds_it_no_more(tmp_path: Path) -> None:
    with hold(tmp_path) as holder:
        holder.kill()
        holder.wait()
        with lock.exclusive(tmp_path, "x", doing="testing"):
            pass


def test_it_is_not_inherited_by_children(tmp_path: Path) -> None:
    with lock.exclusive(tmp_path, "x", doing="testing"):
        child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    with lock.exclusive(tmp_path, "x", doing="testing"):
        pass
    child.communicate(b"")


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / ".webmill-x-lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WebmillError), lock.exclusive(tmp_path, "x", doing="testing"):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises((NotFound, Misconfigured), match="nothing"),
        lock.exclusive(tmp_path / "nothing", "x", doing="testing"),
    ):
        pass


def test_many_share_it_and_nobody_has_it_alone_meanwhile(tmp_path: Path) -> None:
    with (
        lock.shared(tmp_path, "x", doing="testing"),
        lock.shared(tmp_path, "x", doing="testing"),
        pytest.raises(Conflict),
        lock.exclusive(tmp_path, "x", doing="testing"),
    ):
        pass
    with (
        lock.exclusive(tmp_path, "x", doing="testing"),
        pytest.raises(Conflict),
        lock.shared(tmp_path, "x", doing="testing"),
    ):
        pass


def test_an_open_file_has_one_holder_until_it_is_unlocked(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as one, (tmp_path / "file").open("rb") as other:
        assert lock.try_lock(one)
        assert not lock.try_lock(other)
        assert not lock.try_lock(other.fileno(), patience=0.05)
        lock.unlock(one)
        lock.lock(other)
        assert not lock.try_lock(one)


def test_a_forked_process_shares_the_lock_and_unlocking_frees_it_for_both(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as one, (tmp_path / "file").open("rb") as other:
        assert lock.try_lock(one)
        holder = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, pass_fds=[one.fileno()]
        )
        lock.unlock(one)
        assert lock.try_lock(other)
        holder.communicate(b"")


def test_who_waits_for_a_lock_gets_it_when_its_holder_dies(tmp_path: Path) -> None:
    with hold(tmp_path) as holder, (tmp_path / f"{RESERVED}x-lock").open("rb") as file:
        assert not lock.try_lock(file)
        holder.kill()
        assert lock.try_lock(file, patience=100.0)
