"""Lookup: what a linear scan finds, from every kind of index; an error with its place when something is wrong."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contracts.range_server import serving
from tests.unit.index.samples import any_lines, capture, cut_into, flat, write
from tests.unit.index.zipnum_samples import EVERYTHING, build, make_lines, make_queries, opened, read, scan
from webmill.errors import BadInput, Misconfigured, NotFound
from webmill.formats.cdx.cdxj import from_columns
from webmill.formats.cdx.query import KeyRange, key_range
from webmill.index.lookup.indexes import ZipNumIndex, flatten, open_index
from webmill.index.zipnum.writer import write_index
from webmill.infra.storage.http import HttpStorage
from webmill.infra.storage.memory import MemoryStorage

LINES = make_lines(4000)


@pytest.mark.parametrize("count", [400, pytest.param(3000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("shard_size", [1 << 30, 5000])
def test_many_queries_give_what_a_linear_scan_gives(tmp_path: Path, shard_size: int, count: int) -> None:
    build(tmp_path / "index", LINES, block=20, shard_size=shard_size)
    zipped, plain = open_index(tmp_path / "index"), open_index(write(tmp_path / "flat.cdxj", LINES))
    found = 0
    for url, kind in make_queries(LINES, count, seed=shard_size):
        wanted = key_range(url, kind)
        expected = scan(LINES, wanted)
        found += bool(expected)
        assert read(zipped, wanted) == expected, (url, kind)
        assert read(plain, wanted) == expected, (url, kind)
    assert found > count / 3


bounds = st.lists(st.sampled_from(b" !,)abz\x7f\xc3\xff"), max_size=6).map(bytes)


@settings(deadline=None, max_examples=80)
@given(any_lines.map(sorted), st.integers(1, 4), st.integers(1, 150), st.lists(st.tuples(bounds, bounds), max_size=8))
def test_i13_any_range_over_any_lines_equals_a_linear_scan(
    lines: list[bytes], block: int, shard_size: int, ranges: list[tuple[bytes, bytes]]
) -> None:
    """Repeats, equal keys across block borders, ranges before the first and behind the last line, inside of JSON."""
    lines = [b"a" + line for line in lines]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_index(cut_into(lines, 3), folder / "index", lines=block, shard_size=shard_size, threads=1)
        flat_file = write(folder / "flat", lines)
        for index in (open_index(folder / "index"), open_index(flat_file)):
            for start, end in [*ranges, *((b"a" + start, b"a" + end) for start, end in ranges)]:
                assert read(index, KeyRange(start, end)) == scan(lines, KeyRange(start, end))
        both = open_index(folder / "index", flat_file)
        assert read(both) == sorted(lines + lines)


def test_fault_2_4_8_blocks_that_begin_with_the_key_are_found_with_all_the_others(tmp_path: Path) -> None:
    key = "com,a)/"
    lines = [capture("com,0)/"), *(capture(key, f"{20200101000000 + n}") for n in range(50)), capture("com,b)/")]
    for block in range(1, 8):
        folder = tmp_path / str(block)
        build(folder, lines, block=block, shard_size=300)
        assert read(opened(folder), key_range("a.com")) == lines[1:-1]
        assert read(opened(folder)) == lines


def test_i13_a_range_that_begins_inside_of_the_json_is_found_over_blocks_of_equal_keys(tmp_path: Path) -> None:
    lines = [capture("com,a)/", "20240101000000", url=f"{number:03d}") for number in range(100)]
    build(tmp_path, lines)
    wanted = KeyRange(lines[33], lines[66])
    assert read(opened(tmp_path), wanted) == lines[33:66]


def test_fault_2_4_8_results_of_many_shards_come_in_order(tmp_path: Path) -> None:
    assert len(build(tmp_path, LINES, block=20, shard_size=2000)) > 10
    assert read(opened(tmp_path)) == LINES


def test_fault_2_4_9_a_folder_a_summary_and_its_fallback_places_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    build(folder, LINES)
    assert read(open_index(folder)) == read(open_index(folder / "cluster.idx")) == LINES
    (folder / "deep").mkdir()
    (folder / "cdx-00000.gz").rename(folder / "deep" / "moved.gz")
    (folder / "cluster.loc").write_bytes(b"cdx-00000.gz\tx-bad-path\tdeep/moved.gz\n")
    assert read(open_index(folder)) == LINES


def test_fault_2_4_9_an_index_is_read_over_http_ranges(tmp_path: Path) -> None:
    build(tmp_path / "cc-index" / "indexes", LINES, block=20, shard_size=5000)
    with serving() as server, HttpStorage(server.url, user_agent="webmill tests") as storage:
        paths = (path for path in tmp_path.rglob("c*.*") if path.is_file())
        server.values = {str(path.relative_to(tmp_path)): path.read_bytes() for path in paths}
        index = ZipNumIndex(storage, "cc-index/indexes/cluster.idx")
        for url, kind in make_queries(LINES, 20):
            assert read(index, key_range(url, kind)) == scan(LINES, key_range(url, kind))
        assert flat(flatten(index)) == LINES


def test_an_index_in_memory_and_one_on_disk_are_the_same_to_the_reader(tmp_path: Path) -> None:
    build(tmp_path, LINES, shard_size=5000)
    storage = MemoryStorage()
    for path in tmp_path.iterdir():
        if not path.name.startswith("."):
            storage.write(path.name, path)
    assert flat(flatten(ZipNumIndex(storage))) == LINES


def test_lines_of_the_old_format_are_found_too(tmp_path: Path) -> None:
    old = (
        "com,a)/{0} 20140126200624 http://a.com/{0} text/html 200 B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A - - 43 333 a.warc.gz"
    )
    lines = [old.format(number).encode() + b"\n" for number in range(10, 60)]
    build(tmp_path, lines)
    (found,) = read(opened(tmp_path), key_range("http://a.com/33"))
    assert found == (
        b'com,a)/33 20140126200624 {"url": "http://a.com/33", "mime": "text/html", "status": "200", '
        b'"digest": "B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A", "length": "43", "offset": "333", "filename": "a.warc.gz"}\n'
    )
    assert flat(flatten(opened(tmp_path))) == [from_columns(line) for line in lines]


def test_a_flat_file_without_final_newline_and_with_crlf(tmp_path: Path) -> None:
    index = open_index(write(tmp_path / "f", [b"a 1 {}\r\n", b"b 1 {}"]))
    assert read(index) == [b"a 1 {}\n", b"b 1 {}\n"]
    assert read(index, KeyRange(b"b", b"b!")) == [b"b 1 {}\n"]
    assert read(open_index(write(tmp_path / "empty", []))) == []


def test_an_unsorted_flat_file_is_noticed_where_it_is_read(tmp_path: Path) -> None:
    index = open_index(write(tmp_path / "f", [b"a 1 {}\n", b"c 1 {}\n", b"b 1 {}\n", b"d 1 {}\n"]))
    with pytest.raises(BadInput, match="unsorted"):
        read(index)


def test_what_cannot_be_searched_says_how_to_make_it_so(tmp_path: Path) -> None:
    (tmp_path / "f.gz").write_bytes(gzip.compress(b"a 1 {}\n"))
    with pytest.raises(Misconfigured, match="zipnum"):
        read(open_index(tmp_path / "f.gz"))
    with pytest.raises(NotFound):
        open_index(tmp_path / "nothing")
    with pytest.raises(NotFound, match=r"cluster\.idx"):
        open_index(tmp_path)
    for name in ("a.idx", "b.idx"):
        write(tmp_path / name, [])
    with pytest.raises(Misconfigured, match=r"a\.idx, b\.idx"):
        open_index(tmp_path)


def test_a_query_holds_few_lines_at_a_time(tmp_path: Path) -> None:
    build(tmp_path, LINES, block=50)
    assert max(len(batch) for batch in opened(tmp_path).batches(EVERYTHING)) == 50
