"""WARC records as we write them, read by warcio, by FastWARC and by ourselves."""

from __future__ import annotations

import gzip
import io
import random
import warnings
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator as WarcioIterator

from webmill.errors import BadInput
from webmill.formats.compression.member_checksum import CHECKSUMMED
from webmill.formats.warc import digest
from webmill.formats.warc import record_headers as warc_records
from webmill.formats.warc.reader import read_records
from webmill.formats.warc.record_headers import CaptureEvent, OriginalCapture, describe_block, describe_http_block
from webmill.formats.warc.writer import (
    WARC_1_0,
    WARC_1_1,
    compress_dense,
    compress_fast,
    compress_record,
    compress_stream,
    encode_record,
    stream_record,
)
from webmill.model import Headers, Record

with warnings.catch_warnings():  # FastWARC warns of its own old classes when it is imported
    warnings.simplefilter("ignore", DeprecationWarning)
    from fastwarc.warc import ArchiveIterator as FastIterator

ID = "urn:uuid:00000000-0000-4000-8000-00000000000{}"
DATE = datetime(2024, 7, 12, 10, 0, 0, 999_999, tzinfo=UTC)
HTTP = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>hello"
NASTY = b"\r\n\r\nWARC/1.0\r\nWARC-Type: response\r\nContent-Length: 3\r\n\r\nabc\r\n\r\n\x1f\x8b\x08\0"
VISIT = CaptureEvent(
    uri="https://example.org/?q=ü",
    date=DATE,
    warcinfo_id=ID.format(0),
    ip="2001:db8::1",
    protocols=("h2", "tls/1.3"),
    cipher_suites=("TLS_AES_128_GCM_SHA256",),
)


def by_warcio(data: bytes) -> list[tuple[str, tuple[tuple[str, str], ...], bytes]]:
    records = WarcioIterator(io.BytesIO(data), no_record_parse=True)
    return [(r.rec_headers.protocol, tuple(r.rec_headers.headers), r.raw_stream.read()) for r in records]


def by_fastwarc(data: bytes) -> list[tuple[tuple[tuple[str, str], ...], bytes]]:
    records = FastIterator(io.BytesIO(data), parse_http=False)
    return [(tuple((str(k), str(v)) for k, v in r.headers.items()), r.reader.read()) for r in records]


def by_ourselves(data: bytes) -> list[tuple[str, tuple[tuple[str, str], ...], bytes]]:
    records = [record for record in read_records(io.BytesIO(data)) if isinstance(record, Record)]
    return [(record.version, record.headers.pairs, record.content) for record in records]


def basic(content: bytes, *pairs: tuple[str, str]) -> Headers:
    begin = [("WARC-Type", "resource"), ("WARC-Record-ID", f"<{ID.format(1)}>"), ("WARC-Date", "2024-07-12T10:00:00Z")]
    return Headers([*begin, ("Content-Length", str(len(content))), *pairs])


NAMES = st.text("ABCXYZabcxyz0123456789-_.", min_size=1, max_size=12).map(lambda name: "X-" + name)
# FastWARC and warcio take different characters for white space; at the ends of a value that is not our subject.
VALUES = st.text(st.characters(blacklist_characters="\r\n\0", blacklist_categories=["Cs"]), max_size=30).map(
    lambda value: f"[{value}]"
)
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=6)
CONTENT = st.one_of(
    st.binary(max_size=300), st.just(b""), st.just(NASTY), st.just(HTTP), st.just(encode_record(basic(b""), b""))
)


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(FIELDS, CONTENT), min_size=1, max_size=3), st.sampled_from([WARC_1_0, WARC_1_1]))
def test_what_is_written_is_read_by_warcio_by_fastwarc_and_by_ourselves(
    records: list[tuple[list[tuple[str, str]], bytes]], version: str
) -> None:
    written = [(basic(content, *fields), content) for fields, content in records]
    plain = b"".join(encode_record(headers, content, version=version) for headers, content in written)
    fast = b"".join(compress_record(headers, content, version=version) for headers, content in written)
    dense = b"".join(compress_record(*record, version=version, compress=compress_dense) for record in written)
    for data in (plain, fast, dense):
        assert by_warcio(data) == [(version, headers.pairs, content) for headers, content in written]
        assert by_fastwarc(data) == [(headers.pairs, content) for headers, content in written]
        assert by_ourselves(data) == by_warcio(data)


@settings(deadline=None)
@given(CONTENT, st.integers(1, 50))
def test_a_stream_of_pieces_is_the_same_record(content: bytes, size: int) -> None:
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    assert b"".join(stream_record(basic(content), pieces)) == encode_record(basic(content), content)
    packed = b"".join(compress_stream(stream_record(basic(content), pieces)))
    assert gzip.decompress(packed) == encode_record(basic(content), content)
    assert [body for _, body in by_fastwarc(packed)] == [content]


def test_a_large_record_streams_in_little_memory() -> None:
    piece, count = bytes(range(256)) * 4096, 64
    headers = Headers([("WARC-Type", "resource"), ("Content-Length", str(len(piece) * count))])
    largest, inflate, size = 0, zlib.decompressobj(31), 0
    for packed in compress_stream(stream_record(headers, (piece for _ in range(count)))):
        largest = max(largest, len(packed))
        size += len(inflate.decompress(packed))
    assert inflate.eof
    assert size > len(piece) * count
    assert largest < 2 * len(piece)


@pytest.mark.parametrize("pieces", [[b"ab"], [b"abcd"], [b"ab", b"cd"], []])
def test_a_stream_that_does_not_fill_its_length_is_never_finished(pieces: list[bytes]) -> None:
    out: list[bytes] = []
    with pytest.raises(BadInput) as caught:
        out.extend(compress_stream(stream_record(basic(b"abc"), pieces)))
    assert caught.value.reason == "bad_length"
    inflate = zlib.decompressobj(31)
    inflate.decompress(b"".join(out))
    assert not inflate.eof


@pytest.mark.parametrize("length", [None, "2", "4", "-3", "+3", "3 ", "٣"])
def test_a_wrong_length_is_refused(length: str | None) -> None:
    headers = Headers([("Content-Length", length)] if length else [])
    with pytest.raises(BadInput) as caught:
        encode_record(headers, b"abc")
    assert caught.value.reason == "bad_length"


def test_two_lengths_are_refused() -> None:
    with pytest.raises(BadInput):
        encode_record(basic(b"abc", ("content-length", "3")), b"abc")


EVIL = ["a\r\nWARC-Type: response", "a\nb", "a\rb", "a\0b", "\n", "a\r\n\r\n"]


@pytest.mark.parametrize("evil", EVIL)
def test_no_field_can_begin_another_line(evil: str) -> None:
    for headers, version in (
        (basic(b"", ("X", evil)), WARC_1_0),
        (basic(b"", (evil, "x")), WARC_1_0),
        (basic(b""), evil),
    ):
        with pytest.raises(BadInput) as caught:
            encode_record(headers, b"", version=version)
        assert caught.value.reason == "header_injection"


@pytest.mark.parametrize("evil", EVIL)
def test_no_argument_of_a_builder_can_begin_another_line(evil: str) -> None:
    block, visit = describe_http_block(HTTP), VISIT
    for build in (
        lambda: warc_records.response_headers(visit, block, record_id=evil),
        lambda: warc_records.response_headers(visit, block, record_id=ID, concurrent_to=evil),
        lambda: warc_records.response_headers(visit, block, record_id=ID, truncated=evil),
        lambda: warc_records.response_headers(visit, block, record_id=ID, payload_type=evil),
        lambda: warc_records.request_headers(CaptureEvent(uri="x", date=DATE, ip=evil), block, record_id=ID),
        lambda: warc_records.request_headers(CaptureEvent(uri="x", date=DATE, protocols=(evil,)), block, record_id=ID),
        lambda: warc_records.resource_headers(visit, block, record_id=ID, content_type=evil),
        lambda: warc_records.warcinfo_headers(block, record_id=ID, date=DATE, filename=evil),
    ):
        with pytest.raises(BadInput) as caught:
            encode_record(build(), HTTP)
        assert caught.value.reason == "header_injection"
    with pytest.raises(BadInput):
        warc_records.encode_warc_fields([("software", evil)])
    with pytest.raises(BadInput):
        warc_records.encode_warc_fields([(evil, "x")])


@settings(deadline=None)
@given(st.text())
def test_any_uri_stays_one_word_on_one_line(uri: str) -> None:
    visit = CaptureEvent(uri="http://a/" + uri, date=DATE)
    written = encode_record(warc_records.request_headers(visit, describe_block(b""), record_id=ID.format(1)), b"")
    lines = written.split(b"\r\n")
    assert len(lines) == 11
    [line] = [line for line in lines if line.startswith(b"WARC-Target-URI: ")]
    assert line.count(b" ") == 1


def test_control_characters_and_spaces_in_a_uri_are_escaped_and_nothing_else() -> None:
    assert warc_records.escape_uri("http://a/b c\r\n\t\x7fü%20<>") == "http://a/b%20c%0D%0A%09%7Fü%20<>"


def test_undecodable_bytes_of_a_read_field_are_written_back() -> None:
    value = b"caf\xe9".decode("utf-8", "surrogateescape")
    assert b"X: caf\xe9\r\n" in encode_record(basic(b"", ("X", value)), b"")


@pytest.mark.parametrize("compress", [compress_fast, compress_dense])
def test_a_member_has_no_time_and_no_name_and_is_always_the_same(compress: Callable[[bytes], bytes]) -> None:
    member = compress_record(basic(HTTP), HTTP, compress=compress)
    assert member[:8] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00"
    assert member == compress_record(basic(HTTP), HTTP, compress=compress)
    inflate = zlib.decompressobj(31)
    inflate.decompress(member)
    assert inflate.eof
    assert inflate.unused_data == b""


@pytest.mark.parametrize("compress", [compress_fast, compress_dense])
def test_a_large_member_says_a_checksum_that_other_readers_skip(compress: Callable[[bytes], bytes]) -> None:
    content = HTTP + random.Random(1).randbytes(CHECKSUMMED)
    member = compress_record(basic(content), content, compress=compress)
    assert member[:16] == b"\x1f\x8b\x08\x04\0\0\0\0" + member[8:10] + b"\x08\x00WM\x04\x00"
    assert int.from_bytes(member[16:20], "little") == zlib.crc32(member[:16] + member[20:])
    assert [content for *_, content in by_warcio(member)] == [content]
    assert [content for *_, content in by_fastwarc(member)] == [content]
    assert gzip.decompress(member) == encode_record(basic(content), content)


def names(headers: Headers) -> list[str]:
    return [name for name, _ in headers.pairs]


BEGIN = ["WARC-Type", "WARC-Date", "WARC-Record-ID", "Content-Length", "Content-Type"]
WHERE = ["WARC-IP-Address", "WARC-Target-URI", "WARC-Protocol", "WARC-Protocol", "WARC-Cipher-Suite"]


def test_records_have_the_fields_of_common_crawl_in_its_order() -> None:
    block = describe_http_block(HTTP)
    assert names(warc_records.warcinfo_headers(block, record_id=ID, date=DATE, filename="a.warc.gz")) == [
        *BEGIN,
        "WARC-Filename",
    ]
    assert names(warc_records.request_headers(VISIT, block, record_id=ID)) == [*BEGIN, "WARC-Warcinfo-ID", *WHERE]
    response = warc_records.response_headers(
        VISIT, block, record_id=ID, concurrent_to=ID, truncated="length", payload_type="text/html"
    )
    end = ["WARC-Payload-Digest", "WARC-Block-Digest", "WARC-Truncated", "WARC-Identified-Payload-Type"]
    assert names(response) == [*BEGIN, "WARC-Warcinfo-ID", "WARC-Concurrent-To", *WHERE, *end]
    metadata = warc_records.metadata_headers(VISIT, block, record_id=ID, concurrent_to=ID)
    assert names(metadata) == [*BEGIN, "WARC-Warcinfo-ID", "WARC-Concurrent-To", "WARC-Target-URI"]


def test_the_order_is_that_of_real_files(shared_data: Path) -> None:
    [warc] = (shared_data / "triple").glob("*.warc.gz")
    real: dict[str, list[str]] = {}
    for path in (warc, warc.with_name(warc.name.replace(".warc.gz", ".warc.wet.gz"))):
        with path.open("rb") as stream:
            for record, _ in zip(WarcioIterator(stream, no_record_parse=True), range(20), strict=False):
                real.setdefault(record.rec_type, [name for name, _ in record.rec_headers.headers])
    block = describe_http_block(HTTP)
    ours = {
        "warcinfo": warc_records.warcinfo_headers(block, record_id=ID, date=DATE, filename="x"),
        "request": warc_records.request_headers(VISIT, block, record_id=ID),
        "response": warc_records.response_headers(
            VISIT, block, record_id=ID, concurrent_to=ID, payload_type="text/html"
        ),
        "metadata": warc_records.metadata_headers(VISIT, block, record_id=ID, concurrent_to=ID),
        "conversion": warc_records.conversion_headers(block, record_id=ID, uri="x", date=DATE, refers_to=ID),
    }
    assert {kind: names(headers) for kind, headers in ours.items()} == real


def test_a_response_states_both_digests_and_warcio_agrees() -> None:
    headers = warc_records.response_headers(VISIT, describe_http_block(HTTP), record_id=ID.format(1))
    assert digest.check(headers, HTTP) == digest.DigestCheck(digest.DigestVerdict.OK, digest.DigestVerdict.OK)
    record = next(WarcioIterator(io.BytesIO(compress_record(headers, HTTP)), check_digests="raise"))
    assert record.content_stream().read() == b"<html>hello"
    assert record.digest_checker.passed is True
    fast = next(FastIterator(io.BytesIO(compress_record(headers, HTTP))))
    assert fast.verify_payload_digest()


def test_revisits_name_their_original_and_their_profile() -> None:
    head = b"HTTP/1.1 304 Not Modified\r\n\r\n"
    original = OriginalCapture(record_id=ID.format(5), uri="http://a/b c", date=DATE)
    same = warc_records.not_modified_headers(
        VISIT, describe_block(head), record_id=ID, original=original, concurrent_to=ID
    )
    assert same.get("WARC-Refers-To") == f"<{ID.format(5)}>"
    assert same.get("WARC-Refers-To-Target-URI") == "http://a/b%20c"
    assert same.get("WARC-Refers-To-Date") == "2024-07-12T10:00:00Z"
    assert same.get("WARC-Profile", "").endswith("/revisit/server-not-modified")
    assert "WARC-Payload-Digest" not in same
    again = warc_records.identical_headers(
        VISIT, describe_block(head), record_id=ID, original=OriginalCapture(uri="http://a/"), payload_digest="sha1:X"
    )
    assert (again.get("WARC-Payload-Digest"), again.get("WARC-Refers-To")) == ("sha1:X", None)
    assert again.get("WARC-Profile", "").endswith("/revisit/identical-payload-digest")
    assert again.get("Content-Type") == "message/http"


def test_derived_records_refer_to_what_they_describe() -> None:
    text = "ünï".encode()
    wet = warc_records.conversion_headers(
        describe_block(text), record_id=ID, uri="http://a/", date=DATE, refers_to=ID.format(1), languages=("deu", "eng")
    )
    assert wet.get("WARC-Identified-Content-Language") == "deu,eng"
    wat = warc_records.wat_headers(
        describe_block(b"{}"), record_id=ID, uri="http://a/", date=DATE, refers_to=ID.format(1)
    )
    assert (wat.get("WARC-Refers-To"), wat.get("Content-Type")) == (f"<{ID.format(1)}>", "application/json")
    assert [body for _, body in by_fastwarc(compress_record(wet, text))] == [text]


def test_dates_are_whole_seconds_in_utc() -> None:
    assert warc_records.format_warc_date(DATE.astimezone(timezone(timedelta(hours=5)))) == "2024-07-12T10:00:00Z"
    with pytest.raises(BadInput):
        warc_records.format_warc_date(DATE.replace(tzinfo=None))


def test_fields_of_a_warcinfo_record_are_lines() -> None:
    assert (
        warc_records.encode_warc_fields([("isPartOf", "A"), ("operator", "ü: x")])
        == "isPartOf: A\r\noperator: ü: x\r\n".encode()
    )
