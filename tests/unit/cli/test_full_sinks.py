"""A stderr that takes no more is no reason to stop working (T07)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.index_samples import NAME, index_from_scratch, published, put, warc

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_where_nothing_can_be_said_the_work_is_done_all_the_same(tmp_path: Path) -> None:
    root = tmp_path / "c"
    put(root, "a.warc.gz", warc(1, 2, 3))
    put(root, "torn.warc.gz", warc(4, 5)[:-50])
    options = ("index", str(root), "--name", NAME, "--shards", "3", "--lines", "5")
    with FULL.open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "webmill", "-v", *options],
            stderr=full,
            env=os.environ | {"WEBMILL_EXECUTOR_URL": "inline"},
            check=False,
        )
    assert ended.returncode == 3  # of the torn archive, and not because nobody can hear of it
    assert published(root) == index_from_scratch(root, tmp_path / "elsewhere")
