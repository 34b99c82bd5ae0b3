"""Shards without a summary are somebody's: they are neither overwritten nor removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from webmill.errors import BadInput
from webmill.index.lookup.indexes import ZipNumIndex, flatten, open_index
from webmill.index.zipnum.writer import write_index

LINES = [b'com,a)/%04d 20200101000000 {"url": "http://a.com/"}\n' % number for number in range(50)]


def test_shards_without_a_summary_stay(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"cdx-0000{number}.gz").write_bytes(b"mine %d" % number)
    write_index([LINES], tmp_path, lines=10)
    assert [(tmp_path / f"cdx-0000{number}.gz").read_bytes() for number in range(3)] == [
        b"mine 0",
        b"mine 1",
        b"mine 2",
    ]
    index = open_index(tmp_path)
    assert isinstance(index, ZipNumIndex)
    assert [line for batch in flatten(index) for line in batch] == LINES


def test_a_write_that_fails_touches_no_shard_that_was_there(tmp_path: Path) -> None:
    (tmp_path / "cdx-00000.gz").write_bytes(b"mine")
    with pytest.raises(BadInput, match="unsorted"):
        write_index([LINES, LINES], tmp_path, lines=10, shard_size=1)
    assert (tmp_path / "cdx-00000.gz").read_bytes() == b"mine"
