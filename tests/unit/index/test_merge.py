"""Merging: the bytes of `LC_ALL=C sort -m`, with the order of the inputs checked."""

from __future__ import annotations

import gzip
import resource
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.index.samples import any_lines, capture, captures, cut_into, flat, run_sort, write
from webmill.errors import BadInput, NotFound
from webmill.index.cdxj.merge import FileRange, MergeRange, drop_repeats, merge, merge_batches, merge_range, plan_ranges
from webmill.index.lines import BLOCK
from webmill.index.order import ensure_byte_order, ensure_urlkey_order, urlkey


@contextmanager
def at_most_open(files: int) -> Iterator[None]:
    """More than are open already: other tests of this process may have left some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len([*Path("/dev/fd").iterdir()]) + files, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@settings(deadline=None)
@given(st.lists(any_lines.map(sorted), max_size=5), st.integers(1, 7))
def test_merging_batches_sorts_all_lines(inputs: list[list[bytes]], size: int) -> None:
    merged = flat(merge_batches([iter(cut_into(lines, size)) for lines in inputs]))
    assert merged == sorted(line for lines in inputs for line in lines)


@settings(deadline=None, max_examples=25)
@given(st.lists(any_lines.map(sorted), min_size=1, max_size=4))
def test_a_merge_gives_the_bytes_of_sort_m(inputs: list[list[bytes]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = [write(Path(folder) / str(number), lines) for number, lines in enumerate(inputs)]
        assert b"".join(flat(merge(paths))) == run_sort("-m", *paths)
        assert b"".join(flat(drop_repeats(merge(paths)))) == run_sort("-m", "-u", *paths)


def test_large_overlapping_and_disjoint_files_are_merged(tmp_path: Path) -> None:
    count = 3 * BLOCK // len(capture("com,site000000)/"))
    lines = [capture(f"com,site{number:06d})/") for number in range(4 * count)]
    parts = [lines[0 : 2 * count : 2], lines[1 : 2 * count : 2], lines[2 * count : 3 * count], lines[3 * count :]]
    paths = [write(tmp_path / str(number), part) for number, part in enumerate(parts)]
    assert flat(merge(reversed(paths))) == lines


def test_repeats_stay_and_drop_repeats_drops_only_equal_lines() -> None:
    lines = [b"a 1\n", b"a 1\n", b"a 2\n", b"b 1\n", b"b 1\n", b"b 1\n"]
    for size in range(1, 7):
        assert flat(drop_repeats(cut_into(lines, size))) == [b"a 1\n", b"a 2\n", b"b 1\n"]


def test_the_same_file_twice_gives_each_line_twice(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [b"a\n", b"b\n"])
    assert flat(merge([path, path])) == [b"a\n", b"a\n", b"b\n", b"b\n"]


def test_an_input_without_final_newline_is_not_glued_to_the_next_line(tmp_path: Path) -> None:
    first = write(tmp_path / "1", [b'com,a)/ 2020 {"n":"1"}'])
    second = write(tmp_path / "2", [b'com,b)/ 2020 {"n":"2"}\n'])
    assert flat(merge([first, second])) == [b'com,a)/ 2020 {"n":"1"}\n', b'com,b)/ 2020 {"n":"2"}\n']


def test_empty_files_crlf_gzip_and_bytes_outside_utf8_are_merged(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / "empty", []),
        write(tmp_path / "crlf", [b"a\r\n", b"c\r\n"]),
        write(tmp_path / "gz", [gzip.compress(b"b\n"), gzip.compress(b"d\n")]),
        write(tmp_path / "latin", [b"caf\xe9\n"]),
    ]
    assert flat(merge(paths)) == [b"a\n", b"b\n", b"c\n", b"caf\xe9\n", b"d\n"]
    assert flat(merge([])) == []


def test_an_unsorted_input_is_named_with_file_and_line_number(tmp_path: Path) -> None:
    good = write(tmp_path / "good", [b"a\n", b"z\n"])
    bad = write(tmp_path / "bad", [b"a\n", b"c\n", b"b\n"])
    with pytest.raises(BadInput, match=r"bad:3: ") as caught:
        flat(merge([good, bad]))
    assert caught.value.reason == "unsorted"


@settings(deadline=None)
@given(any_lines.filter(lambda lines: lines != sorted(lines)), st.integers(1, 5))
def test_the_first_line_out_of_order_is_the_one_named(lines: list[bytes], size: int) -> None:
    first = next(number for number in range(1, len(lines)) if lines[number] < lines[number - 1])
    with pytest.raises(BadInput, match=f"f:{first + 1}: "):
        flat(ensure_byte_order(cut_into(lines, size), source="f"))


@settings(deadline=None)
@given(st.lists(captures), st.integers(1, 5))
def test_urlkey_order_is_judged_by_urlkeys_alone(lines: list[bytes], size: int) -> None:
    keys = [urlkey(line) for line in lines]
    if keys == sorted(keys):
        assert flat(ensure_urlkey_order(cut_into(lines, size), source="f")) == lines
    else:
        first = next(number for number in range(1, len(keys)) if keys[number] < keys[number - 1])
        with pytest.raises(BadInput, match=f"f:{first + 1}: "):
            flat(ensure_urlkey_order(cut_into(lines, size), source="f"))


def test_a_missing_input_is_not_ignored(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        flat(merge([write(tmp_path / "a", [b"a\n"]), tmp_path / "none"]))


def test_more_inputs_than_open_files_are_allowed(tmp_path: Path) -> None:
    lines = [f"key{number:05d}\n".encode() for number in range(2000)]
    paths = [write(tmp_path / f"{number}", lines[number::200]) for number in range(200)]
    paths[7].write_bytes(gzip.compress(paths[7].read_bytes()))
    with at_most_open(30):
        assert flat(merge(paths)) == lines


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(captures, max_size=30).map(sorted), min_size=1, max_size=4), st.integers(1, 5))
def test_ranges_together_are_the_merge_and_cut_between_urlkeys(inputs: list[list[bytes]], parts: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = [write(Path(folder) / str(number), lines) for number, lines in enumerate(inputs)]
        outputs = [flat(merge_range(part)) for part in plan_ranges(paths, parts=parts)]
        assert len(outputs) <= parts
        assert [line for output in outputs for line in output] == sorted(line for lines in inputs for line in lines)
        keys = [{urlkey(line) for line in output} for output in outputs]
        assert sum(map(len, keys)) == len(set().union(*keys))


def test_ranges_are_of_about_equal_size(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / str(number), [capture(f"com,x)/{line:06d}") for line in range(number, 4000, 4)])
        for number in range(4)
    ]
    sizes = [sum(piece.end - piece.start for piece in part.pieces if piece.end) for part in plan_ranges(paths, parts=4)]
    assert len(sizes) == 4
    assert max(sizes) < 1.2 * min(sizes)


def test_a_file_without_final_newline_is_cut_like_any_other(tmp_path: Path) -> None:
    text = b"".join(capture(f"com,x)/{line:03d}") for line in range(100))
    path = write(tmp_path / "a", [text[:-1]])
    assert b"".join(flat(batch for part in plan_ranges([path], parts=3) for batch in merge_range(part))) == text


def test_gzip_inputs_make_a_single_range(tmp_path: Path) -> None:
    path = write(tmp_path / "a.gz", [gzip.compress(b"a 1\nb 1\nc 1\n")])
    (only,) = plan_ranges([path], parts=4)
    assert flat(merge_range(only)) == [b"a 1\n", b"b 1\n", b"c 1\n"]


def test_a_line_outside_its_range_is_an_error_with_its_line_number(tmp_path: Path) -> None:
    path = write(tmp_path / "f", [b"a 1\n", b"z 1\n", b"m 1\n", b"n 1\n"])
    low, high = MergeRange((FileRange(path, 0, 8),), high=b"m "), MergeRange((FileRange(path, 8, 16),), low=b"n ")
    for part, number in ((low, 2), (high, 3)):
        with pytest.raises(BadInput, match=f"f:{number}: .*unsorted"):
            flat(merge_range(part))


def test_an_unsorted_file_is_found_out_by_some_range_with_its_line_number(tmp_path: Path) -> None:
    lines = [capture(f"com,x)/{line:03d}") for line in range(100)]
    for place in (5, 50, 95):
        wrong = [*lines[:place], capture("com,a)/"), *lines[place:]]
        path = write(tmp_path / "wrong", wrong)
        with pytest.raises(BadInput, match=f"wrong:({place + 1}|{place + 2}): .*unsorted"):
            flat(batch for part in plan_ranges([path], parts=4) for batch in merge_range(part))
