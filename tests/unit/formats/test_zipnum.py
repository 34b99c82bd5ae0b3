from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.errors import BadInput
from webmill.formats.cdx import zipnum
from webmill.formats.cdx.zipnum import ShardLocation, ZipnumBlock

LINES = [b'com,example)/%d 20240101000000 {"url": "http://example.com/%d"}\n' % (n, n) for n in range(300)]


def reason_of_block(data: bytes, **limits: int) -> str:
    with pytest.raises(BadInput) as refused:
        zipnum.decode_block(data, **limits)
    return refused.value.reason


def test_a_line_of_common_crawls_summary() -> None:
    line = b"0,124,148,146)/index.php 20240720133412\tcdx-00000.gz\t188224\t184406\t2\n"
    block = zipnum.parse_summary_line(line, line_number=1)
    assert block == ZipnumBlock(b"0,124,148,146)/index.php 20240720133412", "cdx-00000.gz", 188224, 184406, 2)
    assert zipnum.format_summary_line(block) == line


def test_the_running_number_may_be_missing_and_a_quote_is_a_byte() -> None:
    line = b'com,example)/?"a 20240101000000\tcdx "1".gz\t0\t10'
    block = zipnum.parse_summary_line(line, line_number=1)
    assert block == ZipnumBlock(b'com,example)/?"a 20240101000000', 'cdx "1".gz', 0, 10, None)
    assert zipnum.format_summary_line(block) == line + b"\n"


NAMES = st.text(min_size=1).filter(lambda text: text.isprintable())


@given(
    st.builds(
        ZipnumBlock,
        key=st.binary(min_size=1).filter(lambda key: not set(key) & set(b"\t\n\r")),
        shard=NAMES,
        offset=st.integers(0, 10**18 - 1),
        length=st.integers(1, 10**18 - 1),
        number=st.none() | st.integers(0, 10**18 - 1),
    )
)
@settings(deadline=None)
def test_summary_lines_read_back(block: ZipnumBlock) -> None:
    assert zipnum.parse_summary_line(zipnum.format_summary_line(block), line_number=1) == block


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"key",
        b"key\tcdx-00000.gz\t1",
        b"key\tcdx-00000.gz\t1\t2\t3\t4",
        b"key\tcdx-00000.gz\t-5\t2\t3",
        b"key\tcdx-00000.gz\t1\t0\t3",
        b"key\tcdx-00000.gz\t1\t1e3\t3",
        b"key\tcdx-00000.gz\t 1\t2\t3",
        b"key\tcdx-00000.gz\t1\t" + b"9" * 20 + b"\t3",
        b"key\t\t1\t2\t3",
        b"\tcdx-00000.gz\t1\t2\t3",
        b"key\t\xff\t1\t2\t3",
        b"k" * (zipnum.MAX_SUMMARY_LINE + 1),
    ],
    ids=lambda line: line[:40],
)
def test_a_bad_summary_line_is_refused_by_its_number(line: bytes) -> None:
    with pytest.raises(BadInput, match="line 17"):
        zipnum.parse_summary_line(line, line_number=17)


def test_locations_read_back() -> None:
    line = b"cdx-00000.gz\tx-bad\thttps://example.com/cdx-00000.gz\n"
    location = zipnum.parse_location(line, line_number=1)
    assert location == ShardLocation("cdx-00000.gz", ("x-bad", "https://example.com/cdx-00000.gz"))
    assert zipnum.format_location(location) == line


@pytest.mark.parametrize("line", [b"", b"name", b"name\t", b"\tpath", b"name\t\xff"])
def test_a_bad_location_is_refused_by_its_number(line: bytes) -> None:
    with pytest.raises(BadInput, match="line 3"):
        zipnum.parse_location(line, line_number=3)


def test_a_block_is_a_gzip_member_that_everybody_reads_and_that_never_changes() -> None:
    data = zipnum.encode_block(LINES)
    assert gzip.decompress(data) == zipnum.decode_block(data) == b"".join(LINES)
    assert zipnum.encode_block(LINES) == data
    assert data[4:8] == bytes(4)  # no time in it
    assert [line + b"\n" for line in zipnum.split_lines(zipnum.decode_block(data))] == LINES


def test_lines_end_at_line_feeds_only() -> None:
    assert zipnum.split_lines(b"a\rb\x0bc\xc2\x85d\ne") == [b"a\rb\x0bc\xc2\x85d", b"e"]
    assert zipnum.split_lines(b"") == []
    assert zipnum.split_lines(b"a\n\nb\n") == [b"a", b"", b"b"]


def test_a_block_cut_anywhere_is_refused() -> None:
    data = zipnum.encode_block(LINES)
    assert {reason_of_block(data[:cut]) for cut in range(len(data))} <= {"truncated", "bad_gzip"}


def test_a_flipped_bit_is_noticed_or_harmless() -> None:
    data = zipnum.encode_block(LINES)
    refused = 0
    for at in range(len(data)):
        try:
            text = zipnum.decode_block(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        except BadInput:
            refused += 1
        else:
            assert text == b"".join(LINES), at  # only fields of the header that nobody reads
    assert refused > len(data) - 10


def test_a_range_that_is_off_is_refused() -> None:
    data = zipnum.encode_block(LINES)
    assert reason_of_block(data[1:]) == "bad_gzip"
    assert reason_of_block(data + data) == "trailing"
    assert reason_of_block(data + b"\x00") == "trailing"


def test_a_bomb_stops_at_the_limit_and_takes_no_more_memory() -> None:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(squeeze.compress(bytes(1 << 20)) for _ in range(100)) + squeeze.flush()
    tracemalloc.start()
    try:
        assert reason_of_block(bomb, limit=1 << 20) == "block_too_large"
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()
    assert reason_of_block(bomb) == "block_too_large"


def test_a_block_as_large_as_the_limit_is_read() -> None:
    text = b"".join(LINES)
    assert zipnum.decode_block(zipnum.encode_block(LINES), limit=len(text)) == text
    assert reason_of_block(zipnum.encode_block(LINES), limit=len(text) - 1) == "block_too_large"
