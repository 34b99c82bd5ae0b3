"""Which files a tool that takes files and folders works on."""

from __future__ import annotations

from pathlib import Path

import pytest

from webmill.errors import NotFound
from webmill.index.cdxj.inputs import find_inputs


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def names(folder: Path, found: list[Path]) -> list[str]:
    return [str(file.relative_to(folder)) for file in found]


def test_files_are_taken_as_they_are_named_and_folders_by_what_is_below_in_byte_order(tmp_path: Path) -> None:
    touch(tmp_path, "z", "in/b", "in/B", "in/deep/er/a", "in/é")
    found = find_inputs([tmp_path / "z", tmp_path / "in", tmp_path / "z"])
    assert names(tmp_path, found) == ["z", "in/B", "in/b", "in/deep/er/a", "in/é", "z"]


def test_unfinished_files_and_the_state_of_an_index_are_no_inputs(tmp_path: Path) -> None:
    touch(tmp_path, "a.cdxj", ".webmill-tmp-1-0", ".hidden/b.cdxj", "state.sqlite", "state.sqlite-wal")
    assert names(tmp_path, find_inputs([tmp_path])) == ["a.cdxj"]


def test_a_hidden_file_that_is_named_is_an_input(tmp_path: Path) -> None:
    touch(tmp_path, ".a", ".in/b")
    assert names(tmp_path, find_inputs([tmp_path / ".a", tmp_path / ".in"])) == [".a", ".in/b"]


def test_names_are_excluded_by_pattern(tmp_path: Path) -> None:
    touch(tmp_path, "a.cdxj", "b.tmp", "in/c.tmp", "in.tmp/d.cdxj")
    assert names(tmp_path, find_inputs([tmp_path], exclude=["*.tmp", "z*"])) == ["a.cdxj", "in.tmp/d.cdxj"]


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"no file or folder .*nowhere"):
        find_inputs([tmp_path, tmp_path / "nowhere"])


def test_no_files_at_all_are_an_error_that_names_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=f"no files in {tmp_path}"):
        find_inputs([tmp_path])
    touch(tmp_path, "a")
    with pytest.raises(NotFound, match="after the exclusions"):
        find_inputs([tmp_path], exclude=["a"])
