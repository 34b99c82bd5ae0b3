"""What the WARC reader hands out, and what it says of everything else."""

from __future__ import annotations

import io
import random

import pytest
import zstandard

from tests.unit.formats.framed import Trickle, damages, gz, items, numbers, record, records
from webmill.errors import BadInput
from webmill.formats.warc.head import WarcLimits
from webmill.formats.warc.reader import read_records
from webmill.formats.warc.single_record import open_block, read_record_at
from webmill.model import Damage, Headers, Record

ONE, TWO, THREE = record(1, b"first"), record(2, b"second\r\n\r\nline"), record(3, b"")
PLAIN = ONE + TWO + THREE
PER_RECORD = gz(ONE) + gz(TWO) + gz(THREE)


# --- whole files ----------------------------------------------------------------------------------------------------


def test_a_plain_file_gives_its_records_with_their_places() -> None:
    first, second, third = records(PLAIN)
    assert (first.content, second.content, third.content) == (b"first", b"second\r\n\r\nline", b"")
    assert [(r.offset, r.length) for r in (first, second, third)] == [
        (0, len(ONE)),
        (len(ONE), len(TWO)),
        (len(ONE + TWO), len(THREE)),
    ]
    assert damages(PLAIN) == []


def test_a_file_of_members_gives_its_records_with_their_places() -> None:
    places = [(r.offset, r.length) for r in records(PER_RECORD)]
    sizes = [len(gz(part)) for part in (ONE, TWO, THREE)]
    assert places == [(0, sizes[0]), (sizes[0], sizes[1]), (sizes[0] + sizes[1], sizes[2])]
    assert damages(PER_RECORD) == []


def test_records_of_one_member_share_its_offset_and_have_no_length_of_their_own() -> None:
    found = records(gz(PLAIN))
    assert [r.content for r in found] == [r.content for r in records(PLAIN)]
    assert {(r.offset, r.length) for r in found} == {(0, 0)}


def test_a_file_may_mix_everything() -> None:
    compressor = zstandard.ZstdCompressor(write_checksum=True)
    mixed = gz(ONE) + TWO + gz(ONE + THREE) + compressor.compress(TWO) + THREE
    assert numbers(mixed) == ["1", "2", "1", "3", "2", "3"]
    assert damages(mixed) == []


@pytest.mark.parametrize("data", [PLAIN, PER_RECORD, gz(PLAIN)], ids=["plain", "members", "whole"])
def test_a_socket_that_trickles_gives_the_same(data: bytes) -> None:
    assert list(read_records(Trickle(data))) == items(data)


def test_offsets_count_from_the_start_that_the_caller_names() -> None:
    first, second = (r for r in read_records(io.BytesIO(gz(TWO) + gz(THREE)), start=1000) if isinstance(r, Record))
    assert (first.offset, second.offset) == (1000, 1000 + len(gz(TWO)))


@pytest.mark.parametrize("data", [b"", b"\r\n\r\n", gz(b""), gz(b"") * 3 + gz(b"\r\n")])
def test_a_file_of_nothing_has_no_records_and_no_damage(data: bytes) -> None:
    assert items(data) == []


def test_fields_are_kept_in_order_with_case_repeats_and_bytes_as_they_are() -> None:
    extra = b"x-UPPER: a\r\nX-Upper: b\r\nX-Empty:\r\nX-Bytes: \xff\xc3\xa9\r\nX-Colons: a:b: c\r\n"
    [found] = records(record(1, b"", extra=extra))
    assert found.headers.get_all("X-UPPER") == ["a", "b"]
    assert found.headers.get("x-empty") == ""
    assert (found.headers.get("X-Bytes") or "").encode("utf-8", "surrogateescape") == b"\xff\xc3\xa9"
    assert found.headers.get("X-Colons") == "a:b: c"
    assert [name for name, _ in found.headers.pairs][-5:] == ["x-UPPER", "X-Upper", "X-Empty", "X-Bytes", "X-Colons"]


def test_properties_answer_for_the_well_known_fields() -> None:
    extra = b"WARC-Date: 2024-01-01T00:00:00Z\r\nContent-Type: text/plain\r\nWARC-IP-Address: ::1\r\n"
    [found] = records(record(7, b"abc", kind="response", extra=extra))
    assert (found.version, found.type, found.record_id) == ("WARC/1.0", "response", "<urn:uuid:7>")
    assert (found.target_uri, found.date) == ("http://site.example/7", "2024-01-01T00:00:00Z")
    assert (found.content_type, found.content_length, found.ip_address) == ("text/plain", 3, "::1")
    assert found.refers_to is found.concurrent_to is found.payload_digest is found.block_digest is None


@pytest.mark.parametrize("version", ["0.17", "0.18", "1.0", "1.1", "1.2", "2.0"])
def test_every_version_is_read(version: str) -> None:
    [found] = records(ONE.replace(b"WARC/1.0", b"WARC/" + version.encode()))
    assert found.version == f"WARC/{version}"


def test_lines_may_end_in_lf_alone() -> None:
    head, _, _ = ONE.partition(b"\r\n\r\n")
    lf = head.replace(b"\r\n", b"\n") + b"\n\nfirst\n\n"
    assert [r.content for r in records(lf * 3)] == [b"first"] * 3
    assert damages(lf * 3) == []


def test_folded_and_padded_fields_are_joined_and_trimmed() -> None:
    extra = b"X-Folded: one\r\n two\r\n\tthree  \r\nX-Padded :  v \t\r\n"
    [found] = records(record(1, b"", extra=extra))
    assert found.headers.get("X-Folded") == "one two three"
    assert found.headers.get("X-Padded") == "v"


def test_a_space_before_the_colon_is_no_part_of_the_name() -> None:
    assert records(record(1, b"", extra=b"X-Spaced : v\r\n"))[0].headers.get("X-Spaced") == "v"


def test_target_uris_lose_the_brackets_of_wget_and_keep_their_spaces() -> None:
    [bracketed] = records(ONE.replace(b"http://site.example/1", b"<http://site.example/a b>"))
    assert bracketed.target_uri == "http://site.example/a b"


def test_more_empty_lines_between_records_are_no_loss() -> None:
    assert items(ONE + b"\r\n\r\n" + TWO)[0] == items(ONE)[0]
    assert damages(ONE + b"\r\n\r\n\n" + TWO + b"\n") == []


# --- lengths rule ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0, 6])
def test_an_archive_in_a_body_stays_a_body(level: int) -> None:
    nested = gz(record(66, b"forged" * 50), level=level) * 3
    for body in (nested, PLAIN, b"x\r\n\r\n" + PLAIN, b"\r\n" + nested):
        outer = record(1, body)
        for data in (outer, gz(outer, level=level), gz(outer + TWO, level=0)):
            assert records(data)[0].content == body
            assert "66" not in numbers(data)
            assert damages(data) == []


@pytest.mark.parametrize(
    "length", [b"-1", b"", b"5x", b"0x5", b"1_0", b"9" * 19, b"18446744073709551616", "٥".encode(), b"5, 5", b"+5"]
)
def test_a_length_that_is_no_length_is_damage_and_the_next_record_is_found(length: bytes) -> None:
    bad = ONE.replace(b"Content-Length: 5", b"Content-Length: " + length)
    assert damages(bad + TWO) == [(0, len(bad), "bad_length")]
    assert numbers(bad + TWO) == ["2"]
    assert damages(gz(bad) + gz(TWO)) == [(0, len(gz(bad)), "bad_length")]
    assert numbers(gz(bad) + gz(TWO)) == ["2"]


def test_a_missing_length_is_damage() -> None:
    bad = ONE.replace(b"Content-Length: 5\r\n", b"")
    assert damages(bad + TWO) == [(0, len(bad), "bad_length")]


def test_lengths_that_differ_are_damage_and_equal_ones_are_not() -> None:
    assert damages(record(1, b"hello", extra=b"Content-Length: 1\r\n"))[0][2] == "bad_length"
    assert records(record(1, b"hello", extra=b"content-length: 5\r\n"))[0].content == b"hello"


@pytest.mark.parametrize("source", [io.BytesIO, Trickle])
def test_a_length_too_large_does_not_swallow_the_records_that_follow(source: type) -> None:
    bad = record(1, b"first", length=10**12)
    damage, *rest = read_records(source(bad + TWO + THREE))
    assert isinstance(damage, Damage)
    assert (damage.offset, damage.end, damage.reason) == (0, len(bad), "bad_length")
    assert [(type(item), item.offset) for item in rest] == [(Record, len(bad)), (Record, len(bad + TWO))]


def test_a_file_of_known_size_is_not_read_to_its_end_for_a_length_beyond_it() -> None:
    data = record(1, b"first", length=10**12) + TWO + record(9, bytes(20 << 20))
    found = items(data, limits=WarcLimits(block=1000))
    assert [item.record_id for item in found if isinstance(item, Record)] == ["<urn:uuid:2>", "<urn:uuid:9>"]


def test_a_length_too_large_in_a_member_costs_that_member_only() -> None:
    bad = gz(record(2, b"second", length=7000))
    data = gz(ONE) + bad + gz(THREE)
    assert numbers(data) == ["1", "3"]
    assert damages(data) == [(len(gz(ONE)), len(gz(ONE) + bad), "truncated_record")]


def test_a_length_one_short_leaves_a_note_and_goes_on() -> None:
    short = record(1, b"first", length=4)
    left = short.index(b"first") + 4
    found = items(short + TWO)
    assert isinstance(found[0], Record)
    assert (found[0].content, found[0].length) == (b"firs", left)
    assert damages(short + TWO) == [(left, len(short), "missing_terminator")]
    assert numbers(short + TWO) == ["1", "2"]
    member = gz(short)
    assert damages(member + gz(TWO)) == [(0, len(member), "missing_terminator")]
    assert numbers(member + gz(TWO)) == ["1", "2"]


@pytest.mark.parametrize("gap", [b"", b"\r\n", b"\n"])
def test_a_missing_terminator_is_noted(gap: bytes) -> None:
    bare = ONE[:-4]
    assert numbers(bare + gap + TWO) == ["1", "2"]
    assert damages(bare + gap + TWO) == [(len(bare), len(bare + gap), "missing_terminator")]
    assert damages(bare + gap) == [(len(bare), len(bare + gap), "missing_terminator")]


# --- damage ---------------------------------------------------------------------------------------------------------


def test_a_torn_member_is_reported_with_its_offset_and_not_handed_out() -> None:
    whole = gz(ONE) + gz(TWO)
    for cut in (1, 10, len(gz(TWO)) - 1):
        torn = whole[:-cut]
        assert numbers(torn) == ["1"]
        assert damages(torn) == [(len(gz(ONE)), len(torn), "truncated_member")]


def test_a_damaged_member_costs_itself_only() -> None:
    members = [gz(record(n, bytes(range(256)) * 8)) for n in range(6)]
    start, end = sum(map(len, members[:3])), sum(map(len, members[:4]))
    for at in (start + 20, end - 9, end - 6, end - 1):
        data = bytearray(b"".join(members))
        data[at] ^= 0x55
        assert numbers(bytes(data)) == ["0", "1", "2", "4", "5"]
        [(offset, stop, reason)] = damages(bytes(data))
        assert (offset, stop) == (start, end)
        assert reason in ("bad_crc", "bad_gzip")


def test_a_member_cut_in_the_middle_of_a_file_does_not_take_the_next_with_it() -> None:
    big = gz(record(2, bytes(range(256)) * 100), level=0)
    torn = big[: len(big) // 2]
    data = gz(ONE) + torn + gz(TWO) + gz(THREE)
    assert numbers(data)[0] == "1"
    assert numbers(data)[-2:] == ["2", "3"]
    assert damages(data)[0][0] == len(gz(ONE))


def test_what_a_torn_member_of_megabytes_swallowed_is_found_again() -> None:
    """The bytes of the next members look like the rest of a stored block; the window must still have them."""
    torn = gz(record(1, random.Random(4).randbytes(6 << 20)), level=0)[: (9 << 20) // 2]
    swallowed = [gz(record(n, bytes([n]) * 100), level=0) for n in range(200)]
    data = torn + b"".join(swallowed)
    for step in (1000, 1 << 20):
        damage, *found = read_records(Trickle(data, step=step))
        assert isinstance(damage, Damage)
        assert (damage.offset, damage.end) == (0, len(torn))
        assert [item.content[:1] for item in found if isinstance(item, Record)] == [bytes([n]) for n in range(200)]


def test_the_reason_tells_a_wrong_checksum_from_a_broken_stream() -> None:
    member = bytearray(gz(ONE))
    member[-8] ^= 1
    assert damages(bytes(member)) == [(0, len(member), "bad_crc")]
    member = bytearray(gz(ONE))
    member[-1] ^= 1
    assert damages(bytes(member)) == [(0, len(member), "bad_crc")]
    member = bytearray(gz(ONE))
    member[10] |= 0x06  # a deflate block of the reserved type
    assert damages(bytes(member)) == [(0, len(member), "bad_gzip")]


def test_a_damaged_member_of_many_records_gives_none_of_them() -> None:
    member = bytearray(gz(PLAIN))
    member[-5] ^= 1
    assert records(bytes(member)) == []
    assert damages(bytes(member)) == [(0, len(member), "bad_crc")]


def test_a_damaged_member_over_the_limit_says_how_many_records_went_out() -> None:
    noise = random.Random(1).randbytes(20_000)
    member = bytearray(gz(b"".join(record(n, noise) for n in range(20)), level=0))
    member[-5] ^= 1
    *found, damage = items(bytes(member), limits=WarcLimits(block=50_000))
    assert isinstance(damage, Damage)
    assert len(found) > 3
    assert f"{len(found)} of its records were returned" in damage.message
    assert all(isinstance(item, Record) and item.content == noise for item in found)


def test_padding_is_named_and_read_over() -> None:
    assert damages(PER_RECORD + bytes(1000)) == [(len(PER_RECORD), len(PER_RECORD) + 1000, "padding")]
    assert numbers(gz(ONE) + bytes(512) + gz(TWO)) == ["1", "2"]
    assert damages(ONE + bytes(3) + TWO) == [(len(ONE), len(ONE) + 3, "padding")]


def test_garbage_is_named_by_where_it_stands() -> None:
    junk = b"<html>no archive</html>"
    assert damages(junk) == [(0, len(junk), "not_warc")]
    assert damages(PER_RECORD + junk) == [(len(PER_RECORD), len(PER_RECORD + junk), "trailing_garbage")]
    assert damages(junk + b"\n" + PLAIN) == [(0, len(junk) + 1, "not_warc")]
    assert numbers(junk + PER_RECORD) == ["1", "2", "3"]
    assert numbers(gz(ONE) + junk + gz(TWO)) == ["1", "2"]
    assert damages(gz(ONE) + gz(junk) + gz(TWO)) == [(len(gz(ONE)), len(gz(ONE) + gz(junk)), "not_warc")]


def test_a_compressed_file_is_searched_for_members_only() -> None:
    """A page can carry lines that look like a plain record; after damage in a gzip file they are no candidates."""
    torn = gz(ONE) + b"junk\n" + record(66, b"forged") + gz(TWO)
    assert numbers(torn) == ["1", "2"]


def test_a_magic_that_begins_no_record_is_part_of_the_garbage() -> None:
    junk = b"junk\x1f\x8b\x08\x00junk" + gz(b"no record")
    assert damages(gz(ONE) + junk + gz(TWO)) == [(len(gz(ONE)), len(gz(ONE) + junk), "not_warc")]


def test_a_header_without_an_end_does_not_swallow_the_next_record() -> None:
    endless = b"WARC/1.0\r\nContent-Length: 1\r\n"
    assert damages(endless + TWO) == [(0, len(endless), "bad_header")]
    assert numbers(endless + TWO) == ["2"]


@pytest.mark.parametrize("line", [b"no colon here", b": no name", b"\x00\x01"])
def test_a_header_line_without_a_name_is_damage(line: bytes) -> None:
    bad = record(1, b"", extra=line + b"\r\n")
    assert damages(bad + TWO) == [(0, len(bad), "bad_header")]


# --- limits ---------------------------------------------------------------------------------------------------------


def test_a_block_over_the_limit_is_cut_but_checked() -> None:
    big = record(1, bytes(range(250)) * 400)
    for data in (big + TWO, gz(big) + gz(TWO)):
        first, second = items(data, limits=WarcLimits(block=1000))
        assert isinstance(first, Record)
        assert (first.content, first.cut, first.content_length) == (bytes(range(250)) * 4, True, 100_000)
        assert isinstance(second, Record)
        assert second.cut is False
        assert first.length == second.offset
    [damage] = items(gz(big)[:-1], limits=WarcLimits(block=1000))
    assert isinstance(damage, Damage)


def test_a_header_over_the_limit_is_damage() -> None:
    long = record(1, b"", extra=b"X: " + b"a" * 70_000 + b"\r\n")
    assert damages(long + TWO) == [(0, len(long), "too_large")]
    assert damages(gz(long) + gz(TWO)) == [(0, len(gz(long)), "too_large")]
    many = record(1, b"", extra=b"X: a\r\n" * 1001)
    assert damages(many + TWO) == [(0, len(many), "too_large")]
    assert numbers(many + TWO) == ["2"]


def test_a_hundred_thousand_empty_members_are_passed_over() -> None:
    assert numbers(gz(b"") * 100_000 + gz(ONE)) == ["1"]


# --- zstandard ------------------------------------------------------------------------------------------------------


def zst(data: bytes, **options: object) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True, **options).compress(data)  # type: ignore[arg-type]


def test_frames_are_read_with_exact_places() -> None:
    data = zst(ONE) + zst(TWO) + zst(THREE)
    assert numbers(data) == ["1", "2", "3"]
    assert records(data)[1].offset == len(zst(ONE))
    assert records(data)[1].length == len(zst(TWO))


def test_a_dictionary_in_front_serves_all_frames() -> None:
    samples = [record(n, b"<html><body>page %d</body></html>" % n) for n in range(300)]
    dictionary = zstandard.train_dictionary(4096, samples)
    content = dictionary.as_bytes()
    frames = b"".join(zst(sample, dict_data=dictionary) for sample in samples)
    for stored in (content, zst(content)):
        data = b"\x5d\x2a\x4d\x18" + len(stored).to_bytes(4, "little") + stored + frames
        assert numbers(data) == [str(n) for n in range(300)]
        assert damages(data) == []


def test_a_torn_or_damaged_frame_is_reported_and_the_others_are_read() -> None:
    whole = zst(ONE) + zst(TWO) + zst(THREE)
    start, end = len(zst(ONE)), len(zst(ONE) + zst(TWO))
    for cut in range(start + 1, end):
        assert numbers(whole[:cut]) == ["1"]
        assert [(offset, stop) for offset, stop, _ in damages(whole[:cut])] == [(start, cut)]
    flipped = bytearray(whole)
    flipped[end - 1] ^= 1
    assert numbers(bytes(flipped)) == ["1", "3"]
    assert damages(bytes(flipped)) == [(start, end, "bad_crc")]


def test_a_frame_with_a_huge_window_is_refused() -> None:
    data = b"\x28\xb5\x2f\xfd\x00\xa8" + b"\x01\x00\x00"  # window of 2 GiB
    assert damages(data + zst(ONE)) == [(0, len(data), "bad_zstd")]


# --- one record by its place ----------------------------------------------------------------------------------------


def test_a_range_gives_its_record() -> None:
    for data in (PLAIN, PER_RECORD):
        for wanted in records(data):
            stored = data[wanted.offset : wanted.offset + wanted.length]
            assert read_record_at(stored, offset=wanted.offset) == wanted
            assert read_record_at(Trickle(stored), offset=wanted.offset) == wanted


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        (b"", "not_warc"),
        (b"<html>", "not_warc"),
        (gz(ONE)[:-1], "truncated_member"),
        (ONE[:-8], "truncated_record"),
        (ONE + TWO, "bad_length"),
        (gz(ONE) + gz(TWO), "bad_length"),
        (gz(ONE) + gz(TWO)[:20], "truncated_member"),
    ],
)
def test_a_range_that_is_not_one_record_is_bad_input(stored: bytes, reason: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_record_at(stored, offset=10)
    assert caught.value.reason == reason


def test_a_range_without_its_last_empty_lines_is_still_its_record() -> None:
    assert read_record_at(ONE[:-4]).content == b"first"


@pytest.mark.parametrize("pack", [bytes, gz, zst], ids=["plain", "gzip", "zstd"])
def test_a_block_is_read_piece_by_piece(pack: type) -> None:
    body = bytes(range(256)) * 20_000
    block = open_block(io.BytesIO(pack(record(1, body)) + gz(TWO)))
    assert (block.length, block.headers.get("WARC-Type"), block.version) == (len(body), "resource", "WARC/1.0")
    pieces = iter(lambda: block.read(100_000), b"")
    assert b"".join(pieces) == body
    assert block.read(10) == b""


def test_a_block_that_is_torn_raises_while_it_is_read() -> None:
    for stored, reason in ((gz(ONE)[:-1], "truncated_member"), (ONE[:-6], "truncated_record")):
        block = open_block(io.BytesIO(stored))
        with pytest.raises(BadInput) as caught:
            for _ in iter(lambda block=block: block.read(3), b""):
                pass
        assert caught.value.reason == reason


def test_a_block_needs_a_record() -> None:
    for stored in (b"", b"<html>", gz(b"<html>"), b"WARC/1.0\r\n\r\n"):
        with pytest.raises(BadInput):
            open_block(io.BytesIO(stored))


def test_headers_are_one_class_for_both_doors() -> None:
    assert type(records(ONE)[0].headers) is Headers
