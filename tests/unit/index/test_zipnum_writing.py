"""Writing ZipNum: the same bytes whatever the machinery, and an index or none at every moment."""

from __future__ import annotations

import gzip
import os
import random
import signal
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.matrix import record
from tests.unit.index.samples import any_lines, capture, cut_into, flat, write
from tests.unit.index.zipnum_samples import build, make_lines, opened
from webmill.errors import BadInput, Conflict, NotFound
from webmill.formats.cdx.zipnum import MAX_BLOCK, ZipnumBlock, decode_block, parse_summary_line
from webmill.index.cdxj.merge import MergeRange, merge_range, plan_ranges
from webmill.index.lines import MAX_LINE
from webmill.index.lookup.indexes import flatten
from webmill.index.order import urlkey
from webmill.index.zipnum.blocks import BLOCK_BYTES
from webmill.index.zipnum.verify import verify
from webmill.index.zipnum.writer import (
    ShardTarget,
    ZipNumShard,
    publish,
    rebuilding,
    write_index,
    write_shard,
    write_shards,
)
from webmill.infra.executor.base import TaskDone
from webmill.infra.executor.inline import InlineExecutor
from webmill.infra.executor.pool import PoolExecutor

LINES = make_lines(3000)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


def rows(folder: Path) -> list[ZipnumBlock]:
    lines = (folder / "cluster.idx").read_bytes().splitlines()
    return [parse_summary_line(line, line_number=number) for number, line in enumerate(lines, start=1)]


def test_fault_2_4_5_the_fifth_column_is_the_running_number_across_shards(tmp_path: Path) -> None:
    shards = build(tmp_path, LINES, shard_size=5000)
    assert len(shards) > 5
    assert [row.number for row in rows(tmp_path)] == list(range(1, -(-3000 // 7) + 1))


def test_fault_2_4_6_a_single_shard_is_named_alike_in_summary_locations_and_folder(tmp_path: Path) -> None:
    build(tmp_path, LINES)
    assert sorted(files(tmp_path)) == ["cdx-00000.gz", "cluster.idx", "cluster.idx.crc32", "cluster.loc"]
    assert {row.shard for row in rows(tmp_path)} == {"cdx-00000.gz"}
    assert (tmp_path / "cluster.loc").read_bytes() == b"cdx-00000.gz\tcdx-00000.gz\n"


def test_fault_2_4_7_flatten_needs_no_locations(tmp_path: Path) -> None:
    build(tmp_path, LINES, shard_size=5000)
    (tmp_path / "cluster.loc").unlink()
    assert flat(flatten(opened(tmp_path))) == LINES


def test_the_summary_reads_as_common_crawls(tmp_path: Path) -> None:
    build(tmp_path, LINES, block=3000)
    first = LINES[0].split(b" ")
    size = (tmp_path / "cdx-00000.gz").stat().st_size
    assert (tmp_path / "cluster.idx").read_bytes() == b"%b %b\tcdx-00000.gz\t0\t%d\t1\n" % (first[0], first[1], size)


def test_shards_are_gzip_files_and_blocks_are_members_that_tile_them(tmp_path: Path) -> None:
    shards = build(tmp_path, LINES, shard_size=5000)
    assert b"".join(gzip.decompress((tmp_path / shard.name).read_bytes()) for shard in shards) == b"".join(LINES)
    for shard in shards:
        data, end = (tmp_path / shard.name).read_bytes(), 0
        for block in shard.blocks:
            assert block.offset == end
            end += block.length
            assert decode_block(data[block.offset : end]).startswith(block.key)
        assert end == len(data) == shard.size


@settings(deadline=None, max_examples=60)
@given(any_lines.map(sorted), st.integers(1, 5), st.integers(1, 200), st.integers(1, 9))
def test_flattening_what_was_written_gives_it_back(lines: list[bytes], block: int, size: int, batch: int) -> None:
    lines = [b"k" + line for line in lines]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_index(cut_into(lines, batch), folder, lines=block, shard_size=size, threads=1 + batch % 2)
        assert flat(flatten(opened(folder))) == lines


@pytest.mark.parametrize(("threads", "batch"), [(1, 1), (1, 5000), (3, 13), (8, 512)])
def test_the_bytes_do_not_depend_on_threads_or_batches(tmp_path: Path, threads: int, batch: int) -> None:
    build(tmp_path / "a", LINES, shard_size=5000)
    write_index(cut_into(LINES, batch), tmp_path / "b", lines=7, shard_size=5000, threads=threads)
    assert files(tmp_path / "a") == files(tmp_path / "b")


def write_range(task: tuple[ShardTarget, int, MergeRange]) -> ZipNumShard:
    target, number, part = task
    return write_shard(merge_range(part), target, number=number, lines=7)


def test_ranges_written_by_processes_make_the_same_index_as_by_one(tmp_path: Path) -> None:
    paths = [write(tmp_path / str(number), LINES[number::3]) for number in range(3)]
    ranges = plan_ranges(paths, parts=4)
    assert len(ranges) == 4
    for name, executor in (("one", InlineExecutor()), ("pool", PoolExecutor(workers=2))):
        with rebuilding(tmp_path / name) as target:
            tasks = [(target, number, part) for number, part in enumerate(ranges)]
            outcomes = list(executor.run(write_range, tasks))
            shards = {outcome.index: outcome.value for outcome in outcomes if isinstance(outcome, TaskDone)}
            publish(target, [shards[number] for number in range(len(ranges))])
    assert files(tmp_path / "one") == files(tmp_path / "pool")
    assert flat(flatten(opened(tmp_path / "one"))) == LINES


def test_shards_end_between_two_urlkeys_where_there_are_two(tmp_path: Path) -> None:
    shards = build(tmp_path, LINES, block=20, shard_size=3000)
    assert len(shards) > 5
    straddling = [b for a, b in pairwise(shards) if urlkey(a.last) == urlkey(b.first)]
    assert all(shard.size >= 3000 for shard in shards[:-1])
    for before, shard in pairwise(shards):
        assert shard not in straddling or before.size >= 6000


def test_one_endless_urlkey_does_not_make_one_endless_shard(tmp_path: Path) -> None:
    lines = [capture("com,a)/", f"{20000000000000 + number}") for number in range(2000)]
    shards = build(tmp_path, lines, block=10, shard_size=1000)
    assert len(shards) > 3
    assert max(shard.size for shard in shards) < 3000
    assert flat(flatten(opened(tmp_path))) == lines


def test_huge_lines_make_smaller_blocks_not_unreadable_ones(tmp_path: Path) -> None:
    dice = random.Random(1)
    lines = [capture(f"com,a)/{number:03d}", digest=dice.randbytes(200_000).hex()) for number in range(100)]
    for batch in (1, 100):
        write_index(cut_into(lines, batch), tmp_path / str(batch))
        assert flat(flatten(opened(tmp_path / str(batch)))) == lines
    assert len(rows(tmp_path / "1")) == 3
    assert files(tmp_path / "1") == files(tmp_path / "100")


def test_no_lines_make_an_index_of_no_lines(tmp_path: Path) -> None:
    assert write_index([], tmp_path) == []
    found = files(tmp_path)
    assert found.pop("cluster.idx.crc32")
    assert found == {"cluster.idx": b"", "cluster.loc": b""}
    assert flat(flatten(opened(tmp_path))) == []


def test_an_empty_range_leaves_no_file(tmp_path: Path) -> None:
    with rebuilding(tmp_path) as target:
        shards = [write_shard([], target, number=0), write_shard([LINES[:5]], target, number=1)]
        publish(target, shards)
    assert sorted(files(tmp_path)) == ["cdx-00001.gz", "cluster.idx", "cluster.idx.crc32", "cluster.loc"]


def test_unsorted_lines_are_named_and_nothing_is_published(tmp_path: Path) -> None:
    build(tmp_path, LINES[:50])
    before = files(tmp_path)
    with pytest.raises(BadInput, match=r"big.cdxj:102.*unsorted"):
        write_index([LINES[100:201], [LINES[5]]], tmp_path, lines=7, source="big.cdxj")
    assert files(tmp_path) == before


def test_shards_in_the_wrong_order_are_not_published(tmp_path: Path) -> None:
    with rebuilding(tmp_path) as target:
        shards = [write_shard([LINES[50:60]], target, number=0), write_shard([LINES[:50]], target, number=1)]
        with pytest.raises(BadInput, match="unsorted"):
            publish(target, shards)
    assert not (tmp_path / "cluster.idx").exists()


def test_shards_that_were_lost_or_changed_are_not_published(tmp_path: Path) -> None:
    with rebuilding(tmp_path) as target:
        shard = write_shard([LINES[:50]], target, number=0)
        (tmp_path / shard.name).write_bytes(b"x")
        with pytest.raises(Conflict):
            publish(target, [shard])
        (tmp_path / shard.name).unlink()
        with pytest.raises(NotFound):
            publish(target, [shard])


@pytest.mark.parametrize("line", [b"com,a\tb)/ 20240101000000 {}\n", b"\n", b"k" * 70_000 + b" 20240101000000 {}\n"])
def test_a_line_that_no_summary_can_name_is_refused(tmp_path: Path, line: bytes) -> None:
    with pytest.raises(BadInput, match="bad_key"):
        write_index([[line]], tmp_path)
    assert files(tmp_path) == {}


# --- replacing ------------------------------------------------------------------------------------------------------


def rebuild_at(folder: Path, lines: list[bytes], now: float) -> None:
    with rebuilding(folder) as target:
        shards = [*write_shards(cut_into(lines, 50), target, lines=7, shard_size=2000, threads=1)]
        publish(target, shards, clock=lambda: now)


def test_a_rebuild_keeps_the_shards_that_were_replaced_within_an_hour_and_removes_older_ones(tmp_path: Path) -> None:
    minutes = [0, 10, 20, 69, 71, 90, 400, 401]  # of each rebuild; one replaces the shards of the one before it
    alive = [{0}, {0, 1}, {0, 1, 2}, {0, 1, 2, 3}, {1, 2, 3, 4}, {2, 3, 4, 5}, {5, 6}, {5, 6, 7}]
    seen: list[set[str]] = []
    for number, minute in enumerate(minutes):
        lines = make_lines(300, seed=number)
        rebuild_at(tmp_path, lines, 1e9 + 60 * minute)
        seen.append({row.shard for row in rows(tmp_path)})
        on_disk = {name for name in files(tmp_path) if name.endswith(".gz")}
        assert on_disk == set().union(*(seen[one] for one in alive[number])), number
        named = {line.split(b"\t")[0].decode() for line in (tmp_path / "cluster.loc").read_bytes().splitlines()}
        assert named == seen[-1]
        assert flat(flatten(opened(tmp_path))) == lines
        assert {finding.severity for finding in verify(tmp_path)} <= {"note"}
    assert seen[0] == {f"cdx-{number:05d}.gz" for number in range(len(seen[0]))}
    assert not seen[1] & seen[2]


def test_a_slow_reader_is_not_cut_off_by_rebuilds(tmp_path: Path) -> None:
    lines = make_lines(2000, seed=1)
    rebuild_at(tmp_path, lines, 1e9)
    reading = flatten(opened(tmp_path))
    found = [*next(reading)]
    for number in range(2, 6):
        rebuild_at(tmp_path, make_lines(300, seed=number), 1e9 + number)
    assert found + flat(reading) == lines


def test_what_was_replaced_takes_no_more_room_than_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webmill.index.zipnum.writer.LEAST_ROOM", 0)
    sizes = []
    for number in range(12):
        rebuild_at(tmp_path, make_lines(300, seed=number), 1e9 + number)
        sizes.append(sum(row.length for row in rows(tmp_path)))
        on_disk = sum(len(data) for name, data in files(tmp_path).items() if name.endswith(".gz"))
        assert on_disk <= 2 * sizes[-1] + (sizes[-2] if number else 0)
        assert flat(flatten(opened(tmp_path))) == make_lines(300, seed=number)


def test_a_clock_that_was_set_back_removes_nothing_that_was_just_replaced(tmp_path: Path) -> None:
    for number, now in enumerate((1e9, 1e9 + 5000, 1e9 - 5000)):
        rebuild_at(tmp_path, make_lines(300, seed=number), now)
    assert len({name for name in files(tmp_path) if name.startswith("cdx-00000")}) == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="takes two users")
def test_who_shares_the_folder_can_replace_the_index_of_another_user() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rebuild_at(folder, make_lines(300, seed=1), 1e9)
        for path in (folder, *folder.iterdir()):
            path.chmod(0o777)
        os.seteuid(65534)
        try:
            rebuild_at(folder, make_lines(300, seed=2), 1e9 + 1)
            assert flat(flatten(opened(folder))) == make_lines(300, seed=2)
        finally:
            os.seteuid(0)


def test_an_unchanged_shard_keeps_its_name_and_is_not_written_again(tmp_path: Path) -> None:
    half = len(LINES) // 2

    def rebuild(second: list[bytes]) -> list[ZipNumShard]:
        with rebuilding(tmp_path, naming="stamped") as target:
            shards = [write_shard([LINES[:half]], target, number=0), write_shard([second], target, number=1)]
            publish(target, shards)
        return shards

    old = rebuild(LINES[half:])
    before = (tmp_path / old[0].name).stat()
    new = rebuild(LINES[half + 1 :])
    assert new[0] == old[0]
    assert new[1].name != old[1].name
    after = (tmp_path / new[0].name).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_damaged_shard_of_the_right_name_and_size_is_written_again(tmp_path: Path) -> None:
    with rebuilding(tmp_path, naming="stamped") as target:
        shard = write_shard([LINES], target, number=0)
        good = (tmp_path / shard.name).read_bytes()
        (tmp_path / shard.name).write_bytes(bytes(len(good)))
        assert write_shard([LINES], target, number=0) == shard
    assert (tmp_path / shard.name).read_bytes() == good


def test_the_index_does_not_depend_on_what_was_there_before(tmp_path: Path) -> None:
    for seed in (5, 6):
        write_index([make_lines(300, seed=seed)], tmp_path / "old", lines=7, naming="stamped")
    for folder in ("old", "new"):
        write_index([LINES], tmp_path / folder, lines=7, shard_size=5000, naming="stamped")
    old, new = files(tmp_path / "old"), files(tmp_path / "new")
    assert {name: old[name] for name in new} == new


def test_other_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    for name in ("cdx-1.gz", "notes.txt", "cdx-00000.gz.bak"):
        (tmp_path / name).write_bytes(b"mine")
    build(tmp_path, LINES[:10])
    build(tmp_path, LINES[:20])
    build(tmp_path, LINES[:30])
    assert {name for name, data in files(tmp_path).items() if data == b"mine"} == {
        "cdx-1.gz",
        "notes.txt",
        "cdx-00000.gz.bak",
    }


def test_two_rebuilds_of_one_folder_exclude_each_other(tmp_path: Path) -> None:
    with rebuilding(tmp_path), pytest.raises(Conflict), rebuilding(tmp_path):
        pass
    with rebuilding(tmp_path):
        pass


KILLED_AT = """
import os, sys
from pathlib import Path
from webmill.infra import atomic
from webmill.index.zipnum import writer as zipnum
from webmill.index.lines import read_batches

left = int(sys.argv[3])
replace = atomic.os.replace

def counted(*args, **kwargs):
    global left
    if left == 0:
        os.kill(os.getpid(), 9)
    left -= 1
    return replace(*args, **kwargs)

atomic.os.replace = counted
zipnum.write_index(read_batches(Path(sys.argv[1])), Path(sys.argv[2]), lines=7, shard_size=2000)
"""


@pytest.mark.crash
def test_killed_before_any_rename_a_reader_has_the_old_index_or_the_new_and_a_rerun_finishes(tmp_path: Path) -> None:
    old, new = make_lines(300, seed=8), make_lines(300, seed=9)
    flat_file = write(tmp_path / "new.cdxj", new)
    build(tmp_path / "whole", old, shard_size=2000)
    build(tmp_path / "whole", new, shard_size=2000)
    kills = promised = lost = twice = 0
    for point in range(100):
        folder = tmp_path / str(point)
        build(folder, old, shard_size=2000)
        command = [sys.executable, "-c", KILLED_AT, str(flat_file), str(folder), str(point)]
        code = subprocess.run(command, check=False).returncode
        assert code in (0, -signal.SIGKILL)
        seen = flat(flatten(opened(folder)))
        if code == 0:
            assert seen == new
            break
        kills += 1
        nearest = min((old, new), key=lambda lines: len(set(lines) ^ set(seen)))
        promised += len(nearest)
        lost += len(set(nearest) - set(seen))
        twice += len(seen) - len(set(seen))
        assert seen in (old, new)
        build(folder, new, shard_size=2000)
        assert flat(flatten(opened(folder))) == new
        assert not list(folder.glob(".webmill-tmp*"))
        index = {name: data for name, data in files(folder).items() if not name.endswith(".gz")}
        assert index.items() <= files(tmp_path / "whole").items()
    record(
        "ZipNum", "kill -9 before a durable call", injected=kills, acknowledged=promised, lost=lost, duplicated=twice
    )
    assert (lost, twice) == (0, 0)
    assert kills >= 6


def test_the_reader_of_blocks_takes_what_the_writer_may_write() -> None:
    assert BLOCK_BYTES + MAX_LINE < MAX_BLOCK


def test_write_shards_gives_each_shard_when_it_is_done(tmp_path: Path) -> None:
    with rebuilding(tmp_path) as target:
        first = next(write_shards(cut_into(LINES, 50), target, lines=7, shard_size=1000, threads=1))
        assert (tmp_path / first.name).stat().st_size == first.size
