"""The media type of a payload, by its bytes and by what the server said."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.archive.identify import identify_media_type
from webmill.formats.encodings import _ENCODINGS, iana_name
from webmill.formats.warc.http_records import read_response
from webmill.formats.warc.reader import read_records
from webmill.model import Record

CASES = {
    "nothing, as the server said": (b"", "text/html; charset=utf-8", "text/html"),
    "nothing, and nothing said": (b"", None, "application/octet-stream"),
    "HTML that is called octets": (b"\n<!DOCTYPE html><p>x", "application/octet-stream", "text/html"),
    "HTML that is called text": (b"<html><head>", "text/plain", "text/html"),
    "HTML after a comment": (b"<!-- hello --><html>", None, "text/html"),
    "HTML after a byte order mark": (b"\xef\xbb\xbf<div>", None, "text/html"),
    "HTML in UTF-16": ("\ufeff<html><p>x".encode("utf-16-le"), "text/html", "text/html"),
    "an XML declaration makes no XHTML": (b'<?xml version="1.0"?><!DOCTYPE html><html>', "text/html", "text/html"),
    "XHTML is called so": (b"<?xml?><!DOCTYPE html><html>", "application/xhtml+xml", "application/xhtml+xml"),
    "XHTML as XML": (b"<?xml?><html xmlns='x'>", "text/xml", "application/xhtml+xml"),
    "a feed": (b'<?xml version="1.0"?>\n<rss version="2.0">', "text/html", "application/rss+xml"),
    "an Atom feed": (b"<feed xmlns='http://www.w3.org/2005/Atom'>", "text/xml", "application/atom+xml"),
    "a picture in SVG": (b"<?xml?><!DOCTYPE svg PUBLIC 'x'><svg>", None, "image/svg+xml"),
    "a sitemap": (b"<?xml?><urlset>", "text/xml", "application/xml"),
    "JSON, as the server said": (b'{"a": 1}', "application/json", "application/json"),
    "text that is called octets": (b"User-agent: *\n", "application/octet-stream", "text/plain"),
    "text that is called nothing": (b"hello", None, "text/plain"),
    "text that begins like a bitmap": (b"BM is short for something", "text/plain", "text/plain"),
    "a PDF": (b"%PDF-1.7\n", "text/html", "application/pdf"),
    "a PNG": (b"\x89PNG\r\n\x1a\n\0\0", "text/html", "image/png"),
    "a WebP": (b"RIFF\1\2\3\4WEBPVP8 ", None, "image/webp"),
    "a document in a zip, by its server": (b"PK\3\4\0\0", "application/epub+zip", "application/epub+zip"),
    "a zip": (b"PK\3\4\0\0", "text/html", "application/zip"),
    "a film": (b"\0\0\0\x18ftypmp42", "video/quicktime", "video/quicktime"),
    "bytes that are called HTML": (b"\0\1\2\3\4", "text/html", "application/octet-stream"),
    "bytes that the server knows": (b"\0\1\2\3\4", "application/x-thing", "application/x-thing"),
    "a type that is none": (b"hello", "text/html\r\nX: y", "text/plain"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_payload_is_known_by_its_bytes_and_its_label(case: str) -> None:
    payload, printed, expected = CASES[case]
    assert identify_media_type(payload, printed) == expected


@given(payload=st.binary(max_size=300), printed=st.none() | st.text(max_size=80))
@settings(deadline=None)
def test_whatever_comes_a_media_type_is_the_answer(payload: bytes, printed: str | None) -> None:
    answer = identify_media_type(payload, printed)
    assert answer.count("/") == 1
    assert answer.isascii()
    assert answer.isprintable()
    assert " " not in answer


@pytest.mark.parametrize("piece", [b"<!--", b"<!doctype ", b"<?", b" ", b"<!-- --> "], ids=repr)
def test_a_prolog_without_end_costs_little(piece: bytes) -> None:
    assert identify_media_type(piece * 1_000_000, "text/html") in ("text/html", "application/octet-stream")


def test_common_crawl_says_the_same_of_its_pages(shared_data: Path) -> None:
    seen = 0
    with next(shared_data.glob("triple/*.warc.gz")).open("rb") as file:
        for record in read_records(file):
            if isinstance(record, Record) and record.type == "response":
                response = read_response(record.content)
                expected = record.headers.get("WARC-Identified-Payload-Type")
                assert identify_media_type(response.content.data, response.content_type) == expected
                seen += 1
    assert seen > 1000


def test_encodings_are_spelled_as_iana_does() -> None:
    assert [iana_name(name) for name in ("utf-8", "windows-1252", "iso-8859-2", "shift_jis", "big5", "koi8-r")] == [
        "UTF-8",
        "windows-1252",
        "ISO-8859-2",
        "Shift_JIS",
        "Big5",
        "KOI8-R",
    ]
    assert all(iana_name(name).lower() == name for name in _ENCODINGS)
