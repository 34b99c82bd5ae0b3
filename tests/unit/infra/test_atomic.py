"""Durable writes: what a name shows during, after, and when things go wrong; with real processes, limits and faults."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.faults.matrix import record

from webmill.errors import BadInput, Conflict, NotFound, Unavailable
from webmill.infra.atomic import create_exclusive, make_folder, remove_stale_temps, write_bytes, writing


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_bytes_are_written_and_replaced(tmp_path: Path) -> None:
    for data in (b"first", b"", b"x" * 300_000):
        write_bytes(tmp_path / "f", data)
        assert (tmp_path / "f").read_bytes() == data
    assert names(tmp_path) == ["f"]


def test_the_old_bytes_stand_until_the_block_ends(tmp_path: Path) -> None:
    write_bytes(tmp_path / "f", b"old")
    with writing(tmp_path / "f") as file:
        file.write(b"n" * 200_000)
        file.flush()
        assert (tmp_path / "f").read_bytes() == b"old"
    assert (tmp_path / "f").read_bytes() == b"n" * 200_000


def write_half(path: Path, error: type[BaseException]) -> None:
    with writing(path) as file:
        file.write(b"half")
        raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_block_that_fails_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    write_bytes(tmp_path / "f", b"old")
    for name in ("f", "new"):
        with pytest.raises(error):
            write_half(tmp_path / name, error)
    assert names(tmp_path) == ["f"]
    assert (tmp_path / "f").read_bytes() == b"old"


def test_the_mode_is_that_of_any_new_file(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_bytes(tmp_path / "f", b"x")
        create_exclusive(tmp_path / "g", b"x")
    finally:
        os.umask(old)
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "fg"} == {0o640}


def test_a_name_is_created_once(tmp_path: Path) -> None:
    create_exclusive(tmp_path / "f", b"first")
    with pytest.raises(Conflict):
        create_exclusive(tmp_path / "f", b"second")
    assert (tmp_path / "f").read_bytes() == b"first"
    assert names(tmp_path) == ["f"]


def test_of_sixteen_creators_one_wins_and_its_bytes_are_whole(tmp_path: Path) -> None:
    gate = threading.Barrier(16)

    def create(number: int) -> bool:
        gate.wait(60)
        try:
            create_exclusive(tmp_path / "f", bytes([number]) * 100_000)
        except Conflict:
            assert len((tmp_path / "f").read_bytes()) == 100_000
            return False
        return True

    with ThreadPoolExecutor(16) as threads:
        won = list(threads.map(create, range(16)))
    assert won.count(True) == 1
    assert (tmp_path / "f").read_bytes() == bytes([won.index(True)]) * 100_000


def test_errors_are_told_by_what_can_be_done(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder" / "sub").mkdir(parents=True)
    with pytest.raises(NotFound):
        write_bytes(tmp_path / "nowhere" / "f", b"x")
    for wrong in ("file/f", "folder", "x" * 300):
        with pytest.raises(BadInput) as caught:
            write_bytes(tmp_path / wrong, b"x")
        assert caught.value.reason == "bad_path"
    assert names(tmp_path) == ["file", "folder"]


def test_folders_are_made_with_their_parents(tmp_path: Path) -> None:
    for _ in range(2):
        make_folder(tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").is_dir()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(BadInput):
        make_folder(tmp_path / "file" / "x")


# --- processes that die, disks that are full -------------------------------------------------------------------------

HALF_WAY = """
import sys
from pathlib import Path
from webmill.infra.atomic import writing
with writing(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print("half", flush=True)
    sys.stdin.read()
"""


@contextmanager
def half_way_writer(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HALF_WAY, str(path)], stdin=pipe, stdout=pipe) as child:
        assert child.stdout
        assert child.stdout.readline() == b"half\n"
        yield child


def test_temps_are_removed_when_their_owner_is_gone_and_not_before(tmp_path: Path) -> None:
    (tmp_path / "other.tmp").write_bytes(b"not ours")
    (tmp_path / ".webmill-tmp-x").write_bytes(b"not ours either")
    with half_way_writer(tmp_path / "f") as child:
        assert len(names(tmp_path)) == 3
        assert remove_stale_temps(tmp_path) == 0
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert len(names(tmp_path)) == 3
        assert remove_stale_temps(tmp_path) == 1
    assert names(tmp_path) == [".webmill-tmp-x", "other.tmp"]


@pytest.mark.skipif(sys.platform != "linux", reason="only /proc tells a zombie")
def test_a_temp_of_a_dead_owner_that_nobody_buried_is_removed(tmp_path: Path) -> None:
    with half_way_writer(tmp_path / "f") as child:
        child.send_signal(signal.SIGKILL)
        while b") Z" not in Path(f"/proc/{child.pid}/stat").read_bytes():
            pass  # it is dying; we do not wait() for it, so it stays a zombie
        assert remove_stale_temps(tmp_path) == 1


def test_a_temp_whose_owner_lives_in_another_container_is_kept(tmp_path: Path) -> None:
    """There its process id means nothing to us; its lock does."""
    with half_way_writer(tmp_path / "f") as child:
        (temp,) = tmp_path.iterdir()
        foreign = temp.rename(tmp_path / temp.name.replace(f"-{child.pid}-", "-2147483646-"))
        assert remove_stale_temps(tmp_path) == 0
        child.communicate(b"")
    assert child.returncode == 1  # its file was taken away: told, and nothing half is published
    assert names(tmp_path) == [foreign.name]
    assert remove_stale_temps(tmp_path) == 1


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from webmill.errors import Unavailable
from webmill.infra.atomic import write_bytes
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    write_bytes(Path(sys.argv[1]), b"x" * 150_000)
except Unavailable as error:
    print("unavailable", error)
write_bytes(Path(sys.argv[1] + ".small"), b"y" * 50_000)
"""


@pytest.mark.crash
def test_a_disk_that_takes_only_part_of_the_bytes_leaves_the_old_ones(tmp_path: Path) -> None:
    write_bytes(tmp_path / "f", b"old")
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path / "f")]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert printed.startswith("unavailable")
    wanted = {"f": b"old", "f.small": b"y" * 50_000}
    lost = sum((tmp_path / name).read_bytes() != data for name, data in wanted.items())
    record("durable files", "short write", injected=printed.count("unavailable"), acknowledged=len(wanted), lost=lost)
    assert lost == 0
    assert names(tmp_path) == ["f", "f.small"]


FAULTY = """
import sys
from pathlib import Path
from webmill.errors import WebmillError
from webmill.infra.atomic import create_exclusive, write_bytes
for write in (write_bytes, create_exclusive):
    try:
        write(Path(sys.argv[1]) / write.__name__, b"x" * 100_000)
        print("done")
    except WebmillError as error:
        print(type(error).__name__)
"""


def under_strace(folder: Path, inject: str) -> tuple[str, str]:
    if not shutil.which("strace"):
        pytest.skip("strace is not installed: the faults of a disk cannot be made")
    log = folder.parent / "strace.log"
    calls = "fsync,fdatasync,write,rename,renameat,renameat2,linkat,unlinkat"
    command = ["strace", "-f", "-o", str(log), "-e", f"trace={calls}", "-e", f"inject={inject}"]
    python = str(Path(sys.executable).resolve())
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run(
        [*command, python, "-c", FAULTY, str(folder)],
        check=False,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    if "PTRACE" in run.stderr or "ptrace" in run.stderr:
        pytest.skip(f"strace may not trace here: {run.stderr[:100]}")
    return run.stdout, log.read_text()


@pytest.mark.parametrize(
    ("fault", "reported"), [("EIO", "Unavailable"), ("ENOSPC", "Unavailable"), ("EROFS", "Misconfigured")]
)
def test_a_failed_sync_is_told_and_never_tried_again(tmp_path: Path, fault: str, reported: str) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    printed, log = under_strace(folder, f"fsync,fdatasync:error={fault}")
    assert printed.split() == [reported, reported]
    assert log.count("fsync(") == 2  # one for each write: none is repeated on the same file
    assert names(folder) == []


def test_a_failed_rename_or_link_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    printed, log = under_strace(folder, "rename,renameat,renameat2,linkat:error=ENOSPC")
    assert printed.split() == ["Unavailable", "Unavailable"]
    assert "INJECTED" in log
    assert names(folder) == []


def test_the_file_is_synced_before_it_gets_its_name_and_the_folder_after(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    printed, log = under_strace(folder, "fdatasync:error=EIO")  # not used: an honest run
    assert printed.split() == ["done", "done"]
    order = [
        word for line in log.splitlines() for word in ("fsync", "rename", "linkat", "unlinkat") if f" {word}" in line
    ]
    assert order[:3] == ["fsync", "rename", "fsync"]
    at = order.index("linkat")
    assert order[at - 1 : at + 3] == ["fsync", "linkat", "unlinkat", "fsync"]


def test_unavailable_is_what_a_vanished_temp_means(tmp_path: Path) -> None:
    def write_while_temps_vanish() -> None:
        with writing(tmp_path / "f") as file:
            file.write(b"x")
            for temp in tmp_path.iterdir():
                temp.unlink()

    with pytest.raises(Unavailable):
        write_while_temps_vanish()
    assert names(tmp_path) == []
