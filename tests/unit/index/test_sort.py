"""External sort: byte order, bounded memory, nothing left behind."""

from __future__ import annotations

import resource
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.index.samples import any_lines, cut_into, flat, run_sort, write
from webmill.errors import BadInput, Misconfigured
from webmill.index.cdxj.sort import sort_lines
from webmill.index.lines import read_batches


def open_files(folder: Path) -> list[str]:
    """The files of a folder that this process has open, with a name or without."""
    links = [path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return [str(link) for link in links if str(link).startswith(f"{folder}/")]


@settings(deadline=None)
@given(any_lines, st.integers(1, 10), st.integers(1, 2000))
def test_sorted_lines_are_those_of_sorted(lines: list[bytes], size: int, memory: int) -> None:
    assert flat(sort_lines(cut_into(lines, size), memory=memory)) == sorted(lines)


@settings(deadline=None, max_examples=15)
@given(any_lines)
def test_sort_gives_the_bytes_of_sort(lines: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "a", lines)
        assert b"".join(flat(sort_lines(read_batches(path), memory=300))) == run_sort(path)


def test_what_fits_into_memory_writes_no_file(tmp_path: Path) -> None:
    batches = sort_lines(cut_into([b"b\n", b"a\n"], 1), folder=tmp_path)
    next(batches)
    assert open_files(tmp_path) == []
    batches.close()


def test_runs_are_gone_at_the_end_and_when_the_reader_stops(tmp_path: Path) -> None:
    lines = [b"%d\n" % number for number in range(1000)]
    batches = sort_lines(cut_into(lines, 10), memory=5000, folder=tmp_path)
    next(batches)
    assert len(open_files(tmp_path)) == 1
    assert list(tmp_path.iterdir()) == []  # not even while it sorts: a kill leaves nothing
    batches.close()
    assert open_files(tmp_path) == []
    assert len(flat(sort_lines(cut_into(lines, 10), memory=5000, folder=tmp_path))) == 1000
    assert list(tmp_path.iterdir()) == []


def test_runs_are_gone_when_the_input_breaks(tmp_path: Path) -> None:
    path = write(tmp_path / "in", [b"%d\n" % number for number in range(1000)] + [b"x" * 100])
    work = tmp_path / "work"
    work.mkdir()
    with pytest.raises(BadInput):
        flat(sort_lines(read_batches(path, max_line=64), memory=5000, folder=work))
    assert list(work.iterdir()) == []


def test_no_room_for_runs_is_an_error_that_names_the_folder_and_leaves_nothing(tmp_path: Path) -> None:
    """A limit on file sizes fails as a full disk does: first a write comes back short, the next one is an error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))
    try:
        with pytest.raises(Misconfigured, match=str(tmp_path)):
            flat(sort_lines(cut_into([b"x" * 99 + b"\n"] * 100, 10), memory=5000, folder=tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert list(tmp_path.iterdir()) == []
