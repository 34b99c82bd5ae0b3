"""Bounded decoding of bodies."""

from __future__ import annotations

import gzip
import random
import resource
import subprocess
import sys
import zlib
from pathlib import Path

import brotli
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from webmill.formats.compression.content_coding import (
    ContentDecoder,
    DecodedBody,
    DecodeLimits,
    decode_body,
    decode_chunked,
    decode_codings,
    parse_codings,
)
from webmill.formats.http import split_response
from webmill.model import Headers

MIB = 1024 * 1024


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


PACKERS = [
    ("gzip", gzip.compress),
    ("x-gzip", gzip.compress),
    ("deflate", zlib.compress),
    ("deflate", raw_deflate),
    ("br", brotli.compress),
    ("zstd", zstd),
    ("identity", bytes),
]
PAGE = b"<!doctype html><title>A page</title>" + b"".join(b"<p>paragraph %d of many</p>\n" % n for n in range(2000))
COMPRESSED = pytest.mark.parametrize(("coding", "pack"), PACKERS[:-1])


GZIPPED = gzip.compress(PAGE, mtime=0)
NAMED_AND_CHECKED = GZIPPED[:3] + b"\x02" + GZIPPED[4:10] + b"\0\0" + GZIPPED[10:]  # CRC of the header: wrong


@pytest.mark.parametrize(
    "body",
    [
        GZIPPED,
        GZIPPED + GZIPPED,
        GZIPPED + b"trailing",
        GZIPPED[:-1],
        GZIPPED[:-8] + bytes(8),
        NAMED_AND_CHECKED,
        gzip.compress(b""),
        gzip.compress(bytes(2 * MIB)),
        gzip.compress(b"\x1f\x8b\x08" * 9, 0),
        b"",
        b"\x1f\x8b\x08",
        PAGE,
    ],
    ids=lambda _: "",  # what gzip writes has the time in it
)
@pytest.mark.parametrize("limits", [DecodeLimits(), DecodeLimits(output=1000), DecodeLimits(ratio=2, ratio_from=10)])
def test_gzip_in_one_call_gives_what_piece_by_piece_gives(body: bytes, limits: DecodeLimits) -> None:
    decoder = ContentDecoder(("gzip",), limits=limits)
    data = decoder.feed(body)
    decoder.finish()
    assert decode_codings(body, ("gzip",), limits=limits) == DecodedBody(data, decoder.complete, decoder.flaw)


@settings(deadline=None)
@given(st.binary(max_size=2000), st.lists(st.sampled_from(PACKERS), max_size=3))
def test_what_was_packed_is_unpacked(data: bytes, chain: list[tuple[str, object]]) -> None:
    packed = data
    for _, pack in chain:
        packed = pack(packed)  # type: ignore[operator]
    assert decode_codings(packed, [coding for coding, _ in chain]) == DecodedBody(data, True, None)


def in_steps(packed: bytes, codings: list[str], step: int) -> DecodedBody:
    decoder = ContentDecoder(codings)
    data = b"".join(decoder.feed(packed[at : at + step]) for at in range(0, len(packed), step))
    decoder.finish()
    return DecodedBody(data, decoder.complete, decoder.flaw)


@COMPRESSED
def test_bytes_in_pieces_decode_as_all_at_once(coding: str, pack: object) -> None:
    packed = pack(PAGE)  # type: ignore[operator]
    for step in (1, 5, 1000):
        assert in_steps(packed, [coding], step) == DecodedBody(PAGE, True, None)
        assert in_steps(packed + b"junk!", [coding], step).flaw in ("trailing_bytes", "corrupt")


@COMPRESSED
def test_a_stream_cut_anywhere_gives_a_shorter_answer(coding: str, pack: object) -> None:
    packed = pack(PAGE[:3000])  # type: ignore[operator]
    for end in range(1, len(packed)):
        decoded = decode_codings(packed[:end], [coding])
        assert (decoded.complete, decoded.flaw) == (False, "truncated")
        assert PAGE.startswith(decoded.data)


@pytest.mark.parametrize(("coding", "pack"), PACKERS[:-2])  # zstd decodes by blocks, and this page is one
def test_a_cut_page_is_readable_up_to_the_cut(coding: str, pack: object) -> None:
    packed = pack(PAGE)  # type: ignore[operator]
    assert len(decode_codings(packed[: len(packed) // 2], [coding]).data) > len(PAGE) // 10


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(PACKERS[:-1]), st.data())
def test_damage_never_raises(packer: tuple[str, object], data: st.DataObject) -> None:
    coding, pack = packer
    packed = bytearray(pack(PAGE[:5000]))  # type: ignore[operator]
    at = data.draw(st.integers(0, len(packed) - 1))
    packed[at] ^= data.draw(st.integers(1, 255))
    decoded = decode_codings(bytes(packed), [coding])
    assert len(decoded.data) <= MIB
    assert decoded.flaw is not None or decoded.data == PAGE[:5000] or pack is raw_deflate or coding == "br"


def test_a_wrong_checksum_costs_no_byte_of_the_page() -> None:
    packed = bytearray(gzip.compress(PAGE))
    packed[-6] ^= 1
    assert decode_codings(bytes(packed), ["gzip"]) == DecodedBody(PAGE, False, "corrupt")


@COMPRESSED
def test_a_body_that_is_not_what_its_label_says_is_given_as_it_is(coding: str, pack: object) -> None:
    for step in (1, len(PAGE)):
        assert in_steps(PAGE, [coding], step) == DecodedBody(PAGE, True, "not_as_labelled")


def test_one_label_too_many_is_forgiven() -> None:
    assert decode_codings(gzip.compress(PAGE), ["gzip", "gzip"]) == DecodedBody(PAGE, True, "not_as_labelled")


@COMPRESSED
def test_an_empty_body_is_whole(coding: str, pack: object) -> None:
    assert decode_codings(b"", [coding]) == DecodedBody(b"", True, None)


def test_members_and_frames_in_a_row_are_one_body() -> None:
    assert decode_codings(gzip.compress(b"a") + gzip.compress(b"b"), ["gzip"]) == DecodedBody(b"ab", True, None)
    assert decode_codings(zstd(b"a") + zstd(b"b"), ["zstd"]) == DecodedBody(b"ab", True, None)
    noise = random.Random(0).randbytes(20_000)
    assert decode_codings(gzip.compress(noise) * 3, ["gzip"]) == DecodedBody(noise * 3, True, None)
    assert decode_codings(zstd(noise) * 3, ["zstd"]) == DecodedBody(noise * 3, True, None)
    assert in_steps(gzip.compress(b"a") + gzip.compress(b"b"), ["gzip"], 1) == DecodedBody(b"ab", True, None)
    assert in_steps(zstd(b"a") + zstd(b"b"), ["zstd"], 1) == DecodedBody(b"ab", True, None)


def test_a_body_of_countless_empty_members_is_read_in_one_pass() -> None:
    assert decode_codings(gzip.compress(b"") * 20_000, ["gzip"]) == DecodedBody(b"", True, None)
    assert decode_codings(zstd(b"") * 20_000, ["zstd"]) == DecodedBody(b"", True, None)


def test_bytes_after_the_end_are_told() -> None:
    for coding, packed in (("gzip", gzip.compress(b"a")), ("zstd", zstd(b"a")), ("deflate", zlib.compress(b"a"))):
        for tail in (b"\0", b"\x1f", b"\n\n\n\n\n"):
            assert decode_codings(packed + tail, [coding]) == DecodedBody(b"a", True, "trailing_bytes")
            assert in_steps(packed + tail, [coding], 1) == DecodedBody(b"a", True, "trailing_bytes")


def test_an_unknown_coding_leaves_the_body() -> None:
    assert decode_codings(PAGE, ["utf-8"]) == DecodedBody(PAGE, True, "unknown_coding")
    assert decode_codings(gzip.compress(PAGE), ["sdch", "gzip"]) == DecodedBody(PAGE, True, "unknown_coding")
    assert decode_codings(gzip.compress(PAGE)[:-9], ["sdch", "gzip"]).complete is False


def test_more_than_three_codings_are_refused() -> None:
    assert decode_codings(PAGE, ["gzip"] * 4) == DecodedBody(b"", False, "decode_limit")
    assert decode_codings(PAGE, ["identity"] * 9) == DecodedBody(PAGE, True, None)


@COMPRESSED
def test_the_output_limit_is_exact(coding: str, pack: object) -> None:
    packed = pack(PAGE)  # type: ignore[operator]
    for limit in (0, 1, 1000, len(PAGE) - 1):
        assert decode_codings(packed, [coding], limits=DecodeLimits(output=limit)) == DecodedBody(
            PAGE[:limit], False, "decode_limit"
        )
    assert decode_codings(packed, [coding], limits=DecodeLimits(output=len(PAGE))) == DecodedBody(PAGE, True, None)


@COMPRESSED
def test_the_ratio_counts_from_the_first_mebibyte_on(coding: str, pack: object) -> None:
    packed = pack(bytes(MIB))  # type: ignore[operator]
    assert decode_codings(packed, [coding]) == DecodedBody(bytes(MIB), True, None)
    packed = pack(bytes(8 * MIB))  # type: ignore[operator]
    decoded = decode_codings(packed, [coding])
    assert decoded == DecodedBody(bytes(max(MIB, 200 * len(packed))), False, "decode_limit")


def test_a_window_that_is_too_large_is_refused_before_it_is_allocated() -> None:
    packer = zstandard.ZstdCompressor(compression_params=zstandard.ZstdCompressionParameters(window_log=27))
    stream = packer.compressobj()
    packed = stream.compress(PAGE) + stream.flush()
    assert decode_codings(packed, ["zstd"]) == DecodedBody(b"", False, "decode_limit")
    assert in_steps(packed, ["zstd"], 1) == DecodedBody(b"", False, "decode_limit")


CHILD = """
import sys
from webmill.formats.compression.content_coding import DecodeLimits, decode_codings
body = open(sys.argv[1], "rb").read()
decode_codings(body, sys.argv[2].split(","))
decoded = decode_codings(body, sys.argv[2].split(","), limits=DecodeLimits(output=1 << 24, ratio=1 << 40))
print(len(decoded.data), decoded.complete, decoded.flaw)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux obeys RLIMIT_AS")
@pytest.mark.parametrize(
    ("name", "codings"),
    [
        ("bomb_gz_in_gz.gz", "gzip,gzip"),
        ("bomb_1GB.br", "br"),
        ("bomb_200MB.zst", "zstd"),
        ("zstd_2GB_window.zst", "zstd"),
    ],
)
def test_a_bomb_stays_within_a_small_address_space(shared_data: Path, name: str, codings: str) -> None:
    limit = 300 * MIB  # the interpreter and its libraries take about a third of it
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(shared_data / "hostile" / name), codings],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    size = 0 if "window" in name else 16 * MIB
    assert done.stdout.split() == [str(size), "False", "decode_limit"]


def test_codings_are_listed_in_the_order_of_application() -> None:
    headers = Headers([("content-encoding", "GZIP , br"), ("Content-Encoding", ",zstd")])
    assert parse_codings(headers) == ("gzip", "br", "zstd")


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data) if data else b"0\r\n\r\n"


def test_an_archived_chunked_body_is_put_together() -> None:
    assert decode_chunked(chunked(b"hello")) == DecodedBody(b"hello", True, None)
    assert decode_chunked(b"") == DecodedBody(b"", True, None)
    assert decode_chunked(b"5\r\nhello\r\n3\r\nab") == DecodedBody(b"helloab", False, "truncated")
    assert decode_chunked(chunked(b"hello") + b"x") == DecodedBody(b"hello", True, "trailing_bytes")


@pytest.mark.parametrize("body", [b"<html>\r\n", PAGE, b"5\r\nhelloworld\r\n0\r\n\r\n", b"5\r\nhello\r\nzz\r\n"])
def test_wrong_chunks_leave_the_body_as_it_is(body: bytes) -> None:
    assert decode_chunked(body) == DecodedBody(body, True, "not_as_labelled")


def test_a_message_is_unchunked_then_decoded() -> None:
    both = Headers([("Transfer-Encoding", "chunked"), ("Content-Encoding", "gzip")])
    assert decode_body(both, chunked(gzip.compress(PAGE))) == DecodedBody(PAGE, True, None)
    assert decode_body(both, gzip.compress(PAGE)) == DecodedBody(PAGE, True, "not_as_labelled")
    assert decode_body(both, chunked(gzip.compress(PAGE))[:-300]).flaw == "truncated"
    transfer = Headers([("Transfer-Encoding", "gzip, chunked")])
    assert decode_body(transfer, chunked(gzip.compress(PAGE))) == DecodedBody(PAGE, True, None)
    assert decode_body(Headers(), PAGE) == DecodedBody(PAGE, True, None)


@pytest.mark.parametrize(
    ("name", "flaws"),
    [
        ("example-iana.org-chunked.warc", {None}),
        ("example-trunc.warc", {"truncated"}),
        ("example.warc.gz", {None}),
        ("post-test.warc.gz", {None}),
    ],
)
def test_archived_bodies_are_decoded_as_warcio_decodes_them(
    shared_data: Path, name: str, flaws: set[str | None]
) -> None:
    path, seen = shared_data / "warc" / "warcio" / name, set()
    with path.open("rb") as blocks, path.open("rb") as contents:
        for block, content in zip(
            ArchiveIterator(blocks, no_record_parse=True), ArchiveIterator(contents), strict=True
        ):
            if block.rec_type == "response":
                message = split_response(block.raw_stream.read())
                assert message.head is not None
                decoded = decode_body(message.head.headers, message.body)
                assert decoded.data == content.content_stream().read()
                seen.add(decoded.flaw)
    assert seen == flaws


def test_an_archived_body_that_is_called_chunked_twice_is_chunked_once() -> None:
    headers = Headers(
        [("Transfer-Encoding", "chunked"), ("Transfer-Encoding", "chunked"), ("Content-Encoding", "gzip")]
    )
    packed = gzip.compress(b"hello")
    decoded = decode_body(headers, b"%x\r\n%b\r\n0\r\n\r\n" % (len(packed), packed))
    assert (decoded.data, decoded.flaw) == (b"hello", None)
