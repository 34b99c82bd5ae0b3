"""Members: their bounds are proven, whatever stands before, between and inside them."""

from __future__ import annotations

import gzip
import io
import random
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.formats.compression.gzip_members import DamagedMember, GzipMemberReader, inflate_prefix, inflate_whole
from webmill.formats.window import ByteWindow

MOST = 1 << 20


def window(data: bytes) -> ByteWindow:
    found = ByteWindow(io.BytesIO(data))
    found.has(1)
    return found


def read_all(reader: GzipMemberReader, *, step: int = 1000) -> bytes:
    return b"".join(iter(lambda: reader.read(step), b""))


def with_header_fields(data: bytes) -> bytes:
    """A member with FEXTRA, FNAME, FCOMMENT and FHCRC."""
    head = b"\x1f\x8b\x08\x1e\0\0\0\0\0\3" + b"\x04\x00abcd" + b"name\0" + b"comment\0"
    head += (zlib.crc32(head) & 0xFFFF).to_bytes(2, "little")
    compressor = zlib.compressobj(wbits=-15)
    trailer = zlib.crc32(data).to_bytes(4, "little") + len(data).to_bytes(4, "little")
    return head + compressor.compress(data) + compressor.flush() + trailer


@given(st.binary(max_size=2000), st.binary(max_size=50), st.sampled_from([0, 1, 6, 9]))
@settings(deadline=None)
def test_both_ways_find_the_same_end(body: bytes, after: bytes, level: int) -> None:
    member = gzip.compress(body, level)
    raw = window(member + after)
    assert read_all(GzipMemberReader(raw)) == body
    assert raw.position == len(member)
    raw = window(member + after)
    whole = inflate_whole(raw, most=MOST)
    assert whole is None or (bytes(whole) == body and raw.position == len(member))


def test_neighbours_are_inflated_at_once_one_by_one() -> None:
    bodies = [bytes([n]) * 1000 for n in range(5)]
    raw = window(b"".join(gzip.compress(body) for body in bodies))
    assert [inflate_whole(raw, most=MOST) for _ in bodies] == bodies
    assert not raw.has(1)


def test_magics_inside_a_member_do_not_end_it() -> None:
    body = b"\x1f\x8b\x08\x00" * 2 + random.Random(2).randbytes(3000)
    member = gzip.compress(body, 0)
    raw = window(member * 2)
    for _ in range(2):
        assert inflate_whole(raw, most=MOST) == body
    assert raw.position == 2 * len(member)


def test_a_nested_member_whose_length_was_forged_does_not_end_the_outer_one() -> None:
    """An incompressible body is stored as it is: a page may carry the length of its own record and then a member."""
    for size in range(300, 340):
        forged = size.to_bytes(4, "little") + gzip.compress(b"WARC/1.0 forged", 0)
        body = forged + random.Random(3).randbytes(size - len(forged))
        member = gzip.compress(body, 0)
        raw = window(member + gzip.compress(b"next"))
        assert inflate_whole(raw, most=MOST) == body
        assert raw.position == len(member)


def test_every_header_field_of_the_standard_is_read() -> None:
    member = with_header_fields(b"hello" * 100)
    assert inflate_whole(window(member), most=MOST) == b"hello" * 100
    assert read_all(GzipMemberReader(window(member))) == b"hello" * 100


def test_what_is_over_the_limit_is_left_to_the_stream() -> None:
    member = gzip.compress(bytes(5000))
    assert inflate_whole(window(member), most=4999) is None
    assert inflate_whole(window(member), most=5000) == bytes(5000)


@pytest.mark.parametrize(
    ("at", "reason"), [(-1, "bad_crc"), (-4, "bad_crc"), (-5, "bad_crc"), (-8, "bad_crc"), (2, "bad_gzip")]
)
def test_a_wrong_trailer_or_method_is_named(at: int, reason: str) -> None:
    member = bytearray(gzip.compress(b"hello"))
    member[at] ^= 0x40
    with pytest.raises(DamagedMember) as caught:
        read_all(GzipMemberReader(window(bytes(member))))
    assert caught.value.reason == reason
    assert inflate_whole(window(bytes(member)), most=MOST) is None


def test_a_member_cut_at_any_byte_is_truncated() -> None:
    member = gzip.compress(b"hello world" * 10)
    for cut in range(1, len(member)):
        with pytest.raises(DamagedMember) as caught:
            read_all(GzipMemberReader(window(member[:cut])))
        assert caught.value.reason == "truncated_member"
        assert inflate_whole(window(member[:cut]), most=MOST) is None


def test_a_look_at_the_beginning_moves_nothing() -> None:
    raw = window(gzip.compress(b"hello" * 1000))
    assert inflate_prefix(raw).startswith(b"hellohello")
    assert raw.position == 0
    assert inflate_prefix(window(b"\x1f\x8b\x08\x00 no member")) == b""
