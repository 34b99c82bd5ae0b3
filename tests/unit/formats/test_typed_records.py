"""Typed records: one struct per type, known fields as attributes, unknown ones kept."""

from __future__ import annotations

import pytest

from webmill.formats.warc import typed_records as typed
from webmill.formats.warc.fields import MetadataFields, parse_warc_fields
from webmill.formats.warc.http_records import read_request, read_response
from webmill.formats.warc.typed_records import FileType, read_typed_record
from webmill.model import Headers, Record


def record(kind: str | None, content: bytes = b"", *fields: tuple[str, str]) -> Record:
    pairs = [("WARC-Type", kind)] if kind else []
    return Record("WARC/1.0", Headers([*pairs, *fields]), content, 10, 20)


@pytest.mark.parametrize(
    ("kind", "file_type", "struct", "document"),
    [
        ("warcinfo", FileType.WARC, typed.WarcinfoRecord, "WARC_WARCINFO_PAYLOAD"),
        ("request", FileType.WARC, typed.RequestRecord, "WARC_HTTP_REQUEST_PAYLOAD"),
        ("response", FileType.WARC, typed.ResponseRecord, "WARC_HTTP_RESPONSE_PAYLOAD"),
        ("metadata", FileType.WARC, typed.MetadataRecord, "WARC_METADATA_PAYLOAD"),
        ("resource", FileType.WARC, typed.ResourceRecord, "WARC_RESOURCE_PAYLOAD"),
        ("revisit", FileType.WARC, typed.RevisitRecord, "WARC_REVISIT_PAYLOAD"),
        ("continuation", FileType.WARC, typed.ContinuationRecord, "WARC_CONTINUATION_PAYLOAD"),
        ("warcinfo", FileType.WAT, typed.WarcinfoRecord, "WAT_WARCINFO_PAYLOAD"),
        ("warcinfo", FileType.WET, typed.WarcinfoRecord, "WET_WARCINFO_PAYLOAD"),
        ("conversion", FileType.WET, typed.ConversionRecord, "WET_CONVERSION_PAYLOAD"),
        ("of-the-future", FileType.WARC, typed.UnknownRecord, "WARC_OF-THE-FUTURE_PAYLOAD"),
        (None, FileType.WARC, typed.UnknownRecord, "WARC_UNKNOWN_PAYLOAD"),
    ],
)
def test_every_type_has_its_struct_and_its_name(
    kind: str | None, file_type: FileType, struct: type, document: str
) -> None:
    read = read_typed_record(record(kind), file_type=file_type)
    assert type(read) is struct
    assert read.document_kind == document
    assert (read.offset, read.length) == (10, 20)


@pytest.mark.parametrize("described", ["warcinfo", "request", "response", "metadata"])
def test_a_wat_record_is_named_by_what_it_describes(described: str) -> None:
    content = b'{"Envelope":{"WARC-Header-Metadata":{"WARC-Type":"%s"}}}' % described.encode()
    read = read_typed_record(record("metadata", content), file_type=FileType.WAT)
    assert isinstance(read, typed.WatRecord)
    assert read.document_kind == f"WAT_METADATA_WARC_{described.upper()}_PAYLOAD"


def test_known_fields_are_attributes_whatever_their_case_and_unknown_ones_are_kept() -> None:
    fields = (("warc-truncated", "length"), ("X-New", "1"), ("WARC-Protocol", "h2"), ("WARC-Protocol", "tls/1.3"))
    read = read_typed_record(record("response", b"HTTP/1.1 404 Not Found\r\nX: y\r\n\r\nbody", *fields))
    assert isinstance(read, typed.ResponseRecord)
    assert (read.truncated, read.fields.get("x-new"), read.protocols) == ("length", "1", ["h2", "tls/1.3"])
    assert (read.http.status, read.http.reason, read.http.body) == (404, "Not Found", b"body")


def test_two_languages_in_a_wet_header_are_two() -> None:
    read = read_typed_record(
        record("conversion", b"text\xff", ("WARC-Identified-Content-Language", "eng,fra")), file_type=FileType.WET
    )
    assert isinstance(read, typed.ConversionRecord)
    assert (read.languages, read.text) == (("eng", "fra"), "text\ufffd")


def test_a_revisit_names_what_it_stands_for() -> None:
    read = read_typed_record(
        record(
            "revisit",
            b"HTTP/1.1 304 Not Modified\r\n\r\n",
            ("WARC-Profile", "p"),
            ("WARC-Refers-To-Target-URI", "https://e.org/"),
            ("WARC-Refers-To-Date", "2024-01-01T00:00:00Z"),
        )
    )
    assert isinstance(read, typed.RevisitRecord)
    assert (read.profile, read.refers_to_target_uri, read.http.status) == ("p", "https://e.org/", 304)


def test_a_request_has_its_well_known_headers() -> None:
    request = read_request(b"GET /a HTTP/1.1\r\nHost: e.org\r\nUser-Agent: CCBot\r\nIf-Modified-Since: x\r\n\r\n")
    assert (request.method, request.target, request.version) == ("GET", "/a", "HTTP/1.1")
    assert (request.host, request.user_agent, request.if_modified_since) == ("e.org", "CCBot", "x")


def test_a_response_keeps_every_cookie_and_is_decoded_as_it_says() -> None:
    head = b"HTTP/1.1 200 OK\r\nset-cookie: a\r\nSet-Cookie: b\r\nContent-Type: text/html; charset=latin1; x\r\n\r\n"
    response = read_response(head + b"caf\xe9")
    assert response.fields.get_all("Set-Cookie") == ["a", "b"]
    assert response.set_cookie == "a"
    assert response.text.text == "café"


def test_a_double_empty_line_is_not_part_of_the_body() -> None:
    assert read_response(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\r\nbody").body == b"body"


def test_a_block_that_is_no_http_is_all_body() -> None:
    response = read_response(b"20240712 93.184.216.34")
    assert (response.status, response.body) == (None, b"20240712 93.184.216.34")


def test_fields_are_read_leniently_and_in_any_order() -> None:
    fields = parse_warc_fields(b"languages-cld2: {broken\r\nno colon\nfetchTimeMs: -1\r\na: b\r\n c\r\n\r\n")
    assert fields.pairs == (("languages-cld2", "{broken"), ("", "no colon"), ("fetchTimeMs", "-1"), ("a", "b c"))
    findings = MetadataFields(fields)
    assert (findings.languages, findings.fetch_time_ms, findings.charset) == (None, None, None)


@pytest.mark.parametrize(
    ("block", "value"),
    [(b"a: b\r\n c\r\n\td ", "b c d"), (b"a:\n b\n \n c", "b c"), (b"a: b\n", "b"), (b"a: b\n  ", "b")],
    ids=range(4),
)
def test_a_folded_value_is_joined_by_one_space(block: bytes, value: str) -> None:
    assert list(parse_warc_fields(block).pairs) == [("a", value)]


def test_a_value_folded_very_often_takes_no_time() -> None:
    """In the square of its length this would take minutes."""
    long = "c" * 200
    assert parse_warc_fields(b"a: b" + f"\n {long}".encode() * 100_000).get("a") == "b" + f" {long}" * 100_000
