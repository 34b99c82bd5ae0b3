"""What a failed rebuild leaves in the folder of an index: what was there before."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from webmill.index.zipnum.ranges import remove_shards_on_failure
from webmill.index.zipnum.writer import rebuilding


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith("-lock"))


def test_shards_and_drafts_of_a_block_that_raises_go_and_older_ones_stay(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    (tmp_path / "cdx-00000.gz").touch()
    with pytest.raises(KeyboardInterrupt):
        write_a_shard_and_fail(tmp_path, draft=f".webmill-tmp-{gone.pid}-{'0' * 16}")
    assert names(tmp_path) == ["cdx-00000.gz"]


def test_shards_of_a_block_that_ends_well_stay(tmp_path: Path) -> None:
    with rebuilding(tmp_path) as target, remove_shards_on_failure(target):
        (tmp_path / "cdx-00001.gz").touch()
    assert names(tmp_path) == ["cdx-00001.gz"]


def write_a_shard_and_fail(folder: Path, *, draft: str) -> None:
    with rebuilding(folder) as target, remove_shards_on_failure(target):
        (folder / "cdx-00001.gz").touch()
        (folder / draft).touch()  # as a task that was killed leaves it
        raise KeyboardInterrupt
