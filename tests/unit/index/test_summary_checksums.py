"""A summary that has lost a bit or a piece is told by every lookup; no lookup finds fewer lines for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from webmill.errors import BadInput
from webmill.formats.cdx.query import KeyRange
from webmill.index.lookup.indexes import ZipNumIndex
from webmill.index.lookup.sorted_file import PAGE
from webmill.index.zipnum.verify import verify
from webmill.index.zipnum.writer import write_index
from webmill.infra.storage.local import LocalStorage

LINES = [b'com,example)/%04d 20240101000000 {"url": "http://example.com/%04d"}\n' % (n, n) for n in range(2000)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_index([LINES], tmp_path / "index", lines=1)
    assert (tmp_path / "index" / "cluster.idx").stat().st_size > 2 * PAGE
    return tmp_path / "index"


def look_up(folder: Path) -> list[bytes]:
    index = ZipNumIndex(LocalStorage(folder))
    found = [line for key in (b"com,example)/0003", b"com,example)/1717") for line in one(index, key)]
    return [*found, *index.lines(KeyRange(b"", b"\xff"))]


def one(index: ZipNumIndex, key: bytes) -> list[bytes]:
    return list(index.lines(KeyRange(key + b" ", key + b"!")))


def test_a_flipped_bit_hides_no_line(folder: Path) -> None:
    whole, summary = look_up(folder), folder / "cluster.idx"
    assert whole[2:] == LINES
    data = summary.read_bytes()
    for at in range(0, len(data), 997):
        summary.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(BadInput, match=r"cluster\.idx at byte .*does not have its checksum: `webmill index"):
            look_up(folder)
        assert "cluster.idx" in {finding.where for finding in verify(folder)}


def test_a_summary_that_is_cut_at_a_line_is_refused(folder: Path) -> None:
    summary = folder / "cluster.idx"
    data = summary.read_bytes()
    summary.write_bytes(data[: data.rindex(b"\n", 0, len(data) // 2) + 1])
    with pytest.raises(BadInput, match=r"cluster\.idx"):
        look_up(folder)


def test_an_index_that_others_have_made_has_no_checksums_and_is_read(folder: Path) -> None:
    (folder / "cluster.idx.crc32").unlink()
    assert look_up(folder)[2:] == LINES


def test_readers_of_the_index_before_are_not_alarmed_while_it_is_replaced(folder: Path) -> None:
    index = ZipNumIndex(LocalStorage(folder))
    first = index.lines(KeyRange(b"", b"\xff"))
    assert next(first) == LINES[0]
    write_index([LINES[:1000]], folder, lines=1)
    assert one(index, b"com,example)/0003") == [LINES[3]]
    assert list(index.lines(KeyRange(b"", b"\xff"))) == LINES[:1000]
    assert list(first) == LINES[1:]
