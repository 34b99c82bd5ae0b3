"""`webmill index` with something in its way: the old index stays, and the message names the repair."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.matrix import record
from tests.pipeline.index_samples import (
    NAME,
    at_rest,
    collection_at,
    index,
    index_from_scratch,
    leftovers,
    lines_of,
    published,
    put,
    tables,
    warc,
    webmill,
)
from webmill.errors import Conflict, Misconfigured, NotFound, Unavailable
from webmill.infra import atomic, lock
from webmill.infra.executor.inline import InlineExecutor
from webmill.infra.executor.pool import PoolExecutor
from webmill.pipeline.index import IndexingOptions


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "c").mkdir()
    return tmp_path / "c"


def test_two_runs_at_once_are_refused(root: Path) -> None:
    put(root, "a.warc.gz", warc(1))
    index(root)
    with lock.exclusive(collection_at(root).cdxj, "index", doing="indexing"):
        with pytest.raises(Conflict, match="another process is indexing"):
            index(root)
        done = webmill("index", root, "--name", NAME)
    assert done.returncode == 1
    assert "another process is indexing" in done.stderr


def test_a_folder_that_is_not_there_is_named(root: Path) -> None:
    with pytest.raises(NotFound, match="no folder"):
        index(root / "nothing")


@pytest.mark.parametrize("harm", ["garbage", "cut", "newer"])
def test_a_state_that_cannot_be_used_is_named_with_its_repair(root: Path, harm: str) -> None:
    for number in range(60):
        put(root, f"{number}.warc.gz", warc(number))
    index(root)
    before = published(root)
    state = root / "cdxj" / "state.sqlite"
    if harm == "garbage":
        state.write_bytes(b"no database " * 1000)
    elif harm == "cut":
        os.truncate(state, state.stat().st_size // 2)
    else:
        import apsw

        connection = apsw.Connection(str(state))
        connection.execute("PRAGMA user_version=99")
        connection.close()
    with pytest.raises(Misconfigured, match=r"state\.sqlite.*--from-scratch"):
        index(root)
    assert published(root) == before
    index(root, IndexingOptions(shards=3, lines=5, from_scratch=True))
    assert published(root) == before


def test_an_empty_or_missing_state_costs_only_time(root: Path) -> None:
    put(root, "a.warc.gz", warc(1))
    index(root, clock=at_rest)
    before = published(root)
    (root / "cdxj" / "state.sqlite").write_bytes(b"")
    assert index(root, clock=at_rest).indexed == 1
    assert published(root) == before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, which fills up."""
    if os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("mounting needs root")
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", place], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    yield place
    subprocess.run(["umount", place], check=True)


def free_bytes(place: Path) -> int:
    status = os.statvfs(place)
    return status.f_bavail * status.f_bsize


def fill(disk: Path, *, room: int) -> None:
    (disk / "ballast").write_bytes(b"x" * max(0, free_bytes(disk) - room))


@pytest.mark.crash
@pytest.mark.parametrize("stage", ["CDXJ", "publishing", "publishing with processes"])
def test_a_full_disk_leaves_the_old_index_and_no_temporary_files(small_disk: Path, stage: str) -> None:
    """At every stage: each time there is a little more room, until there is enough."""
    root, elsewhere = small_disk / "c", small_disk.parent / "elsewhere"
    put(root, "a.warc.gz", warc(*range(40)))
    index(root)
    sets, lines = [tables_in(root)], [lines_of(root)]
    put(root, "b.warc.gz", warc(*range(41, 700)))
    expected = index_from_scratch(root, elsewhere)
    sets, lines = [*sets, tables_in(elsewhere)], [*lines, lines_of(elsewhere)]
    if stage != "CDXJ":  # which are made here, and nothing else
        rules = put(small_disk, "rules", b"^org\n")
        with pytest.raises(Misconfigured):
            index(root, IndexingOptions(shards=3, lines=5, blocklist=rules, max_removed_share=0.5), clock=at_rest)
    executor = PoolExecutor(workers=2) if "processes" in stage else InlineExecutor()
    failures, promised, lost = [], 0, 0
    for room in range(0, 1 << 20, (32 if "processes" in stage else 4) << 10):
        fill(small_disk, room=room)
        try:
            index(root, executor=executor, clock=at_rest)
            break
        except Unavailable as error:
            failures.append(str(error))
        finally:
            (small_disk / "ballast").unlink()
        found = Counter(lines_of(root))
        promised += found.total()
        lost += min((Counter(version) - found).total() for version in lines)
        assert lines_of(root) in lines
        assert tables_in(root) in sets
        assert leftovers(root) == []
    record("index", "full disk", injected=len(failures), acknowledged=promised, lost=lost)
    assert lost == 0
    assert published(root) == expected
    where = Counter(re.sub(r"[0-9a-f]{8,}|tmp-\S*", "#", failure.partition(".")[0][-60:]) for failure in failures)
    print(f"{len(failures)} failures: {where}")
    assert all("run the same command again" in failure for failure in failures)
    assert len(where) > 1, "only one stage was met"


def tables_in(root: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in tables(root).iterdir()}


def test_a_read_only_folder_is_named_with_its_repair(small_disk: Path) -> None:
    root = small_disk / "c"
    put(root, "a.warc.gz", warc(1))
    index(root)
    put(root, "b.warc.gz", warc(2))
    before = published(root)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(Misconfigured, match=rf"{os.strerror(errno.EROFS)}; mount it for writing"):
        index(root)
    assert published(root) == before


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_the_old_index_and_goes_on_where_it_was(root: Path, sign: signal.Signals) -> None:
    put(root, "old.warc.gz", warc(1))
    index(root)
    before = published(root)
    for number in range(30):
        put(root, f"{number:02d}.warc.gz", warc(*range(number, number + 300)))
    command = [sys.executable, "-m", "webmill", "index", str(root), "--name", NAME, "--jobs", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as run:
        while len(list(root.glob("cdxj/*.cdxj"))) < 3:
            assert run.poll() is None
        run.send_signal(sign)
        printed = run.communicate()[1]
    assert "Traceback" not in printed
    assert run.returncode == 130
    assert published(root) == before
    index(root)
    assert leftovers(root) == []
    assert published(root) == index_from_scratch(root, root.parent / "elsewhere")


def test_what_dead_workers_left_goes_although_their_ids_are_taken(root: Path) -> None:
    """By other processes, or by their zombies, which a container without an init keeps."""
    put(root, "a.warc.gz", warc(1))
    index(root)
    name = f".webmill-tmp-{os.getpid()}-0123456789abcdef"
    for folder in ("cdxj", f"cc-index/collections/{NAME}/indexes"):
        put(root, f"{folder}/{name}", b"half")
    put(root, "b.warc.gz", warc(2))
    index(root)
    assert leftovers(root) == []


def test_a_mistyped_name_publishes_nothing(root: Path) -> None:
    put(root, f"crawl-data/{NAME}/segments/1/warc/a.warc.gz", warc(1))
    index(root)
    before = published(root)
    done = webmill("index", root, "--name", "TYPO")
    assert done.returncode == 1
    assert f"no WARC files of a crawl TYPO in {root}: there are {NAME}" in done.stderr
    assert not (root / "crawl-data" / "TYPO").exists()
    assert published(root) == before


def test_tables_on_another_disk_are_refused_before_anything_is_published(root: Path, small_disk: Path) -> None:
    put(root, "a.warc.gz", warc(1))
    (root / "cc-index").mkdir()
    (root / "cc-index" / "table").symlink_to(small_disk)
    with pytest.raises(Misconfigured, match="on another disk"):
        index(root)
    assert not (collection_at(root).zipnum / "cluster.idx").exists()


def test_a_full_disk_is_no_fault_of_the_warc_that_is_derived(root: Path, small_disk: Path) -> None:
    source = put(root, "a.warc.gz", warc(*range(50)))
    fill(small_disk, room=0)
    done = webmill("derive", "all", source, "-o", small_disk)
    assert done.returncode == 1
    assert "rejected" not in done.stderr


def test_a_blocklist_that_can_be_read_only_once_is_refused(root: Path) -> None:
    put(root, "a.warc.gz", warc(1))
    os.mkfifo(root / "rules")
    with pytest.raises(Misconfigured, match="not a regular file"):
        index(root, IndexingOptions(blocklist=root / "rules"))


def test_a_list_that_another_is_writing_is_left_to_it(root: Path) -> None:
    put(root, "a.warc.gz", warc(1))
    index(root)
    place = collection_at(root).paths_file("wat")
    with atomic.writing(place) as draft:
        draft.write(b"x")
        put(root, "b.warc.gz", warc(2))
        index(root)
    assert place.read_bytes() == b"x"
