"""Reading lines: whatever the bytes, bounded, numbered, nothing lost."""

from __future__ import annotations

import gzip
import io
import os
import threading
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.index.samples import flat
from webmill.errors import BadInput, Conflict, NotFound
from webmill.index.lines import BLOCK, in_batches, read_batches, read_lines, write_batches


class Trickle:
    """A stream that gives as little as it may."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self.data = io.BytesIO(data)
        self.sizes = sizes

    def read(self, size: int, /) -> bytes:
        return self.data.read(min(size, self.sizes.pop() if self.sizes else size))


def members(data: bytes, cuts: list[int]) -> bytes:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return b"".join(gzip.compress(data[start:end]) for start, end in pairwise(places))


text = st.lists(st.sampled_from([b"a", b"bb", b"\n", b"\r\n", b"\r", b"\0", b"\xff"])).map(b"".join)


@settings(deadline=None)
@given(text, st.lists(st.integers(1, 5)))
def test_lines_are_those_of_the_bytes_however_they_arrive(data: bytes, sizes: list[int]) -> None:
    expected = data.replace(b"\r\n", b"\n")
    expected += b"" if expected.endswith(b"\n") or not expected else b"\n"
    assert b"".join(flat(read_batches(Trickle(data, sizes)))) == expected


@settings(deadline=None)
@given(text.filter(bool), st.lists(st.integers(0, 100), max_size=3), st.integers(0, 3))
def test_all_members_of_a_gzip_file_are_read_and_padding_is_skipped(data: bytes, cuts: list[int], padding: int) -> None:
    packed = members(data, cuts) + b"\0" * padding
    assert flat(read_batches(io.BytesIO(packed))) == flat(read_batches(io.BytesIO(data)))


@settings(deadline=None)
@given(st.integers(1, 200))
def test_gzip_data_cut_anywhere_gives_an_error_or_fewer_lines(cut: int) -> None:
    packed = members(b"one line\n" * 100, [300, 600])
    lines: list[bytes] = []
    with suppress(BadInput):
        lines = flat(read_batches(io.BytesIO(packed[:cut])))
    assert len(lines) <= 100


def test_a_final_newline_that_is_missing_is_added() -> None:
    assert flat(read_batches(io.BytesIO(b"a\nb"))) == [b"a\n", b"b\n"]
    assert flat(in_batches([b"a\n", b"b"])) == [b"a\n", b"b\n"]


def test_a_line_over_the_limit_is_named_with_file_and_number(tmp_path: Path) -> None:
    path = tmp_path / "long.cdxj"
    path.write_bytes(b"short\n" + b"x" * (1 << 20) + b"\nshort\n")
    with pytest.raises(BadInput, match=r"long\.cdxj:2: .*line_too_long") as caught:
        flat(read_batches(path))
    assert caught.value.reason == "line_too_long"


def test_a_line_of_exactly_the_limit_is_read() -> None:
    assert len(flat(read_batches(io.BytesIO(b"x" * 9 + b"\ny\n"), max_line=10))) == 2
    with pytest.raises(BadInput, match="input:1"):
        flat(read_batches(io.BytesIO(b"x" * 10 + b"\ny\n"), max_line=10))


def test_a_gzip_bomb_without_newlines_stops_at_the_line_limit() -> None:
    with pytest.raises(BadInput, match="line_too_long"):
        flat(read_batches(io.BytesIO(gzip.compress(b"\0" * (64 << 20)))))


def test_garbage_behind_a_gzip_member_is_an_error() -> None:
    with pytest.raises(BadInput, match="bad_gzip"):
        flat(read_batches(io.BytesIO(gzip.compress(b"a\n") + b"garbage")))


def test_no_lines_come_from_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert flat(read_batches(tmp_path / "empty")) == []
    assert flat(read_batches(io.BytesIO(gzip.compress(b"")))) == []


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        list(read_lines(tmp_path / "none"))


def test_a_file_replaced_while_it_is_read_is_a_conflict(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    path.write_bytes(b"a\n" * BLOCK)
    other.write_bytes(b"b\n" * BLOCK)
    batches = read_batches(path)
    next(batches)
    other.rename(path)
    with pytest.raises(Conflict):
        flat(batches)


def test_a_pipe_is_read_as_a_file_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"line\n" * 100_000,))
    writer.start()
    assert len(flat(read_batches(pipe))) == 100_000
    writer.join()


def test_what_is_written_is_what_was_read() -> None:
    out = io.BytesIO()
    assert write_batches(read_batches(io.BytesIO(b"a\nb\nc\n")), out) == 3
    assert out.getvalue() == b"a\nb\nc\n"
