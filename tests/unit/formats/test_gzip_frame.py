"""The frame of a gzip member, as gzip tools write it."""

from __future__ import annotations

import gzip
import io
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.formats.compression.gzip_frame import TRAILER, GzipFrame, read_frame

DATA = b"some data" * 10
PLAIN = gzip.compress(DATA, mtime=0)
FIXED, REST = PLAIN[:10], PLAIN[10:]


def framed(flags: int, fields: bytes) -> bytes:
    return FIXED[:3] + bytes((flags,)) + FIXED[4:] + fields + REST


def named() -> bytes:
    out = io.BytesIO()
    with gzip.GzipFile(filename="name.warc", mode="wb", fileobj=out, mtime=0) as file:
        file.write(DATA)
    return out.getvalue()


@pytest.mark.parametrize(
    ("member", "header"),
    [
        (PLAIN, 10),
        (named(), 10 + len("name.warc") + 1),
        (framed(4, b"\x03\x00abc"), 15),
        (framed(16, b"comment\0"), 18),
        (framed(2, b"\x12\x34"), 12),
        (framed(2 + 4 + 8 + 16, b"\x01\x00xn\0c\0\x12\x34"), 19),
    ],
)
def test_the_header_ends_where_the_deflated_data_begin(member: bytes, header: int) -> None:
    assert read_frame(member, member[-TRAILER:]) == GzipFrame(header, zlib.crc32(DATA), len(DATA))
    assert zlib.decompress(member[header:-TRAILER], wbits=-15) == DATA


@given(st.binary(max_size=40), st.binary(max_size=10))
@settings(deadline=None)
def test_what_is_no_member_has_no_frame_and_nothing_breaks_it(start: bytes, trailer: bytes) -> None:
    read_frame(b"\x1f\x8b\x08" + start, trailer)
    assert read_frame(b"WARC" + start, trailer) is None
