"""Files below a folder that is not ours alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from webmill.infra.tree import files_below, size_of


def names(folder: Path) -> list[str]:
    refused: list[OSError] = []
    found = sorted(
        Path(entry.path).relative_to(folder).as_posix() for entry in files_below(folder, refuse=refused.append)
    )
    assert not refused
    return found


def test_links_are_told_and_never_followed(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"12")
    (tmp_path / "a" / "around").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "out").symlink_to("/", target_is_directory=True)
    (tmp_path / "nowhere").symlink_to("gone")
    os.mkfifo(tmp_path / "pipe")
    assert names(tmp_path) == ["a/around", "a/b/file", "nowhere", "out", "pipe"]


def test_what_goes_away_meanwhile_is_passed_over(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(b"12")
    (tmp_path / "first").write_bytes(b"12")
    sizes = []
    for entry in files_below(tmp_path, refuse=pytest.fail):
        if entry.name == "first":
            (tmp_path / "first").unlink()
        if (tmp_path / "b").exists():
            (tmp_path / "b").rename(tmp_path.with_name("elsewhere"))
        sizes.append(size_of(entry))
    assert set(sizes) <= {0, 2}
    assert names(tmp_path) == ["a/file", "c/file"]
    assert names(tmp_path / "never") == names(tmp_path / "a" / "file") == []


def test_what_cannot_be_looked_into_is_refused_and_the_rest_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By the length of its path, which is a limit for every user."""
    (tmp_path / "file").write_bytes(b"12")
    here = os.open(tmp_path, os.O_RDONLY)
    try:
        for _ in range(30):
            os.mkdir("x" * 200, dir_fd=here)
            deeper = os.open("x" * 200, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = deeper
    finally:
        os.close(here)
    refused: list[OSError] = []
    assert [entry.name for entry in files_below(tmp_path, refuse=refused.append)] == ["file"]
    assert [error.strerror for error in refused] == ["File name too long"]
    assert [entry.name for entry in files_below(tmp_path)] == ["file"]
    assert "cannot read a folder" in caplog.text
