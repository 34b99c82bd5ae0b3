"""A folder with links, pipes, strangers, killed writers and other processes in it."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from tests.faults.matrix import record, seed
from tests.thoroughness import kills

from webmill.errors import BadInput, Conflict, NotFound, Unavailable
from webmill.infra.storage.base import Absent, Matches
from webmill.infra.storage.local import LocalStorage


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def storage(root: Path) -> LocalStorage:
    return LocalStorage(root)


def keys(storage: LocalStorage) -> list[str]:
    return [stat.key for stat in storage.list()]


def test_a_root_that_is_not_there_is_empty_until_written(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "new" / "root")
    assert keys(storage) == []
    storage.delete("k")
    assert storage.sweep() == 0
    with pytest.raises(NotFound):
        storage.read("k")
    assert not (tmp_path / "new").exists()
    storage.write("a/k", b"x")
    assert (tmp_path / "new/root/a/k").read_bytes() == b"x"


# --- links and other strangers ---------------------------------------------------------------------------------------


def test_links_are_never_followed(root: Path, storage: LocalStorage, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (root / "file").symlink_to(outside / "secret")
    (root / "folder").symlink_to(outside)
    (root / "inside").mkdir()
    (root / "inside/up").symlink_to("../..")
    (root / "loop").symlink_to("loop")
    for key in ("file", "folder/secret", "inside/up/outside/secret", "loop", "loop/x"):
        for look in (storage.stat, storage.read, storage.open):
            with pytest.raises(NotFound):
                look(key)
        storage.delete(key)
    for key in ("folder/new", "inside/up/new", "loop/x"):
        with pytest.raises(BadInput):
            storage.write(key, b"x")
    assert keys(storage) == []
    assert sorted(path.name for path in outside.iterdir()) == ["secret"]
    assert (outside / "secret").read_bytes() == b"secret"


def test_writing_over_a_link_replaces_the_link_not_its_target(
    root: Path, storage: LocalStorage, tmp_path: Path
) -> None:
    (tmp_path / "target").write_bytes(b"target")
    (root / "link").symlink_to(tmp_path / "target")
    with pytest.raises(Conflict):
        storage.write("link", b"new", condition=Absent())
    storage.write("link", b"new")
    assert (tmp_path / "target").read_bytes() == b"target"
    assert storage.read("link") == b"new"


def test_the_root_itself_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    LocalStorage(tmp_path / "alias").write("k", b"x")
    assert LocalStorage(root).read("k") == b"x"


def test_a_pipe_in_the_root_does_not_hang_us(root: Path, storage: LocalStorage) -> None:
    os.mkfifo(root / "pipe")
    with pytest.raises(NotFound):
        storage.read("pipe")
    assert keys(storage) == []


def test_names_that_no_key_can_have_are_told_and_not_listed(
    root: Path, storage: LocalStorage, caplog: pytest.LogCaptureFixture
) -> None:
    (root / "good").write_bytes(b"x")
    strangers = [b"new\nline", b"back\\slash"] + ([b"latin\xe9"] if sys.platform == "linux" else [])
    for name in strangers:
        (root / os.fsdecode(name)).write_bytes(b"x")
    assert keys(storage) == ["good"]
    assert len(caplog.records) == len(strangers)


def test_a_key_cannot_be_the_folder_of_another(storage: LocalStorage) -> None:
    storage.write("a/b", b"x")
    for key in ("a", "a/b/c"):
        with pytest.raises(BadInput) as caught:
            storage.write(key, b"x")
        assert caught.value.reason == "bad_path"
        storage.delete(key)
    assert keys(storage) == ["a/b"]


def test_a_file_cut_while_it_is_read_is_an_error(root: Path, storage: LocalStorage) -> None:
    storage.write("k", bytes(5 << 20))
    with storage.open("k") as stream:
        stream.read(10)
        os.truncate(root / "k", 100)
        with pytest.raises(Unavailable, match="truncated at byte"):
            stream.read()


def test_a_stream_goes_on_with_the_value_it_was_opened_on(storage: LocalStorage) -> None:
    storage.write("k", b"a" * (3 << 20))
    with storage.open("k") as stream:
        assert stream.read(1) == b"a"
        storage.write("k", b"b")
        storage.delete("k")
        assert stream.read() == b"a" * ((3 << 20) - 1)


# --- etags -----------------------------------------------------------------------------------------------------------


def test_an_etag_does_not_come_back_when_the_clock_stands_still(root: Path) -> None:
    """Same size, same time, and the inode of the value before last: only the order of times tells them apart."""
    storage = LocalStorage(root, now=lambda: 1_700_000_000_000_000_000)
    seen = {storage.write("k", b"0").etag}
    for turn in range(50):
        seen.add(storage.write("k", b"%d" % (turn % 10)).etag)
    assert len(seen) == 51


def test_an_etag_does_not_come_back_when_the_clock_goes_backwards(root: Path) -> None:
    times = iter([5_000_000_000, 4_000_000_000, 3_000_000_000])
    storage = LocalStorage(root, now=lambda: next(times))
    etags = [storage.write("k", b"x").etag for _ in range(3)]
    assert len(set(etags)) == 3
    with pytest.raises(Conflict):
        LocalStorage(root).write("k", b"y", condition=Matches(etags[0]))


def test_a_file_put_there_by_hand_has_an_etag_too(root: Path, storage: LocalStorage) -> None:
    (root / "k").write_bytes(b"by hand")
    os.utime(root / "k", (2**33, 2**33))
    stat = storage.stat("k")
    storage.write("k", b"by us", condition=Matches(stat.etag))
    with pytest.raises(Conflict):
        storage.write("k", b"again", condition=Matches(stat.etag))


# --- other processes -------------------------------------------------------------------------------------------------


def increment(root: Path, times: int) -> None:
    storage = LocalStorage(root)
    for _ in range(times):
        while True:
            etag = storage.stat("counter").etag
            try:
                value = int(storage.read("counter", etag=etag)) + 1
                storage.write("counter", str(value).encode(), condition=Matches(etag))
            except Conflict:
                continue
            break


def create_all(root: Path, name: str, count: int) -> list[int]:
    storage, won = LocalStorage(root), []
    for n in range(count):
        try:
            storage.write(f"race/{n}", name.encode(), condition=Absent())
        except Conflict:
            continue
        won.append(n)
    return won


def test_processes_lose_no_update_and_create_once(root: Path, storage: LocalStorage) -> None:
    storage.write("counter", b"0")
    names = ["a", "b", "c", "d"]
    with ProcessPoolExecutor(4, mp_context=multiprocessing.get_context("spawn")) as processes:
        counting = [processes.submit(increment, root, 25) for _ in names]
        for future in counting:
            future.result(100)
        won = [future.result(100) for future in [processes.submit(create_all, root, name, 40) for name in names]]
    assert storage.read("counter") == b"100"
    assert sorted(n for numbers in won for n in numbers) == list(range(40))
    for name, numbers in zip(names, won, strict=True):
        assert all(storage.read(f"race/{n}") == name.encode() for n in numbers)


WRITER = """
import sys
from pathlib import Path
from webmill.infra.storage.local import LocalStorage
storage, turn = LocalStorage(Path(sys.argv[1])), 0
while True:
    turn += 1
    storage.write(f"a/b/{turn % 5}", b"%d " % turn * (turn % 7 * 3000 + 1))
    print(turn, flush=True)
"""


@pytest.mark.crash
def test_a_writer_killed_anywhere_leaves_whole_values_and_nothing_listed(tmp_path: Path) -> None:
    promised = lost = 0
    dice = random.Random(seed(31))
    for number in range(kills(4)):
        root, turns = tmp_path / str(number), dice.randint(1, 15)
        with subprocess.Popen([sys.executable, "-c", WRITER, str(root)], stdout=subprocess.PIPE) as child:
            assert child.stdout
            acknowledged = [int(child.stdout.readline()) for _ in range(turns)]
            child.send_signal(signal.SIGKILL)
            acknowledged += [int(line) for line in child.stdout.read().split()]
        storage = LocalStorage(root)
        found = {stat.key: storage.read(stat.key).split() for stat in storage.list()}
        for words in found.values():
            turn = int(words[0])
            assert words == [words[0]] * (turn % 7 * 3000 + 1)
        promised += len(acknowledged)
        lost += sum(int(found.get(f"a/b/{turn % 5}", [b"0"])[0]) < turn for turn in acknowledged)
        storage.sweep()
        assert not list(root.rglob(".webmill-tmp-*"))
    record("durable files", "kill -9 at random", injected=kills(4), acknowledged=promised, lost=lost)
    assert lost == 0


HALF_WAY = """
import io, sys
from pathlib import Path
from webmill.infra.storage.local import LocalStorage
class Waiting(io.RawIOBase):
    def read(self, size=-1):
        print("reading", flush=True)
        return sys.stdin.buffer.read(1)
LocalStorage(Path(sys.argv[1])).write("a/b/k", Waiting())
"""


def test_what_is_being_written_is_never_listed_and_swept_only_when_its_writer_is_dead(
    root: Path, storage: LocalStorage
) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HALF_WAY, str(root)], stdin=pipe, stdout=pipe) as child:
        assert child.stdout
        assert child.stdout.readline() == b"reading\n"
        assert len(list(root.rglob(".webmill-tmp-*"))) == 1
        assert keys(storage) == []
        assert storage.sweep() == 0
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert keys(storage) == []
        assert storage.sweep() == 1
    assert not list(root.rglob(".webmill-tmp-*"))
