"""ARC version 1: the same nouns, its own names."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.formats.framed import damages, gz, items, records
from webmill.formats.warc.single_record import open_block, read_record_at

HEADER = b"filedesc://a.arc 127.0.0.1 20140216050221 text/plain 75\n1 0 LiveWeb Capture\n"
HEADER += b"URL IP-address Archive-date Content-type Archive-length\n"


def capture(url: str, body: bytes, *, length: object = None) -> bytes:
    size = len(body) if length is None else length
    return f"{url} 93.184.216.119 20140216050222 text/html {size}\n".encode() + body + b"\n"


FILE = [
    HEADER[:-2] + b"h\n",
    capture("http://a.example/", b"HTTP/1.1 200 OK\r\n\r\nhello\n\nworld"),
    capture("dns:a.example", b"20140216050222\na.example. 1 IN A 1.2.3.4"),
]
FILE[0] = FILE[0].replace(b" 75\n", b" %d\n" % (len(FILE[0]) - FILE[0].index(b"\n") - 1))


@pytest.mark.parametrize("parts", [FILE, [gz(part) for part in FILE]], ids=["plain", "gzip"])
def test_an_arc_file_gives_its_header_and_its_captures(parts: list[bytes]) -> None:
    data = b"".join(parts)
    assert damages(data) == []
    header, page, name = records(data)
    assert (header.type, page.type, name.type) == ("arc_header", "response", "response")
    assert (page.version, page.is_arc) == ("ARC/1", True)
    assert (page.target_uri, page.ip_address, page.date) == ("http://a.example/", "93.184.216.119", "20140216050222")
    assert (page.content_type, page.content_length) == ("text/html", len(page.content))
    assert page.content == b"HTTP/1.1 200 OK\r\n\r\nhello\n\nworld"
    assert [(r.offset, r.length) for r in (header, page, name)] == [
        (0, len(parts[0])),
        (len(parts[0]), len(parts[1])),
        (len(parts[0] + parts[1]), len(parts[2])),
    ]


def test_fields_keep_their_own_names_and_order() -> None:
    page = records(b"".join(FILE))[1]
    assert [name for name, _ in page.headers.pairs] == ["uri", "ip-address", "archive-date", "content-type", "length"]


def test_spaces_in_a_url_are_part_of_it() -> None:
    [page] = records(capture("http://a.example/?title=From The Live Web", b"x"))
    assert page.target_uri == "http://a.example/?title=From The Live Web"


def test_a_bad_length_costs_that_record_only() -> None:
    for length in ("-1", "abc", "1" * 19):
        bad = capture("http://a.example/", b"", length=length)
        data = FILE[0] + bad + FILE[1]
        assert damages(data) == [(len(FILE[0]), len(FILE[0] + bad), "bad_length")]
        assert len(records(data)) == 2


def test_a_length_too_large_does_not_swallow_the_rest() -> None:
    bad = capture("http://a.example/", b"", length=10**9)
    assert damages(FILE[0] + bad + FILE[1]) == [(len(FILE[0]), len(FILE[0] + bad), "bad_length")]


def test_a_capture_is_read_by_its_range() -> None:
    assert read_record_at(gz(FILE[1])).target_uri == "http://a.example/"
    assert open_block(io.BytesIO(FILE[1])).read(8) == b"HTTP/1.1"


@given(st.integers(0, sum(map(len, FILE))))
@settings(deadline=None)
def test_an_arc_file_cut_anywhere_gives_what_is_before(cut: int) -> None:
    data = b"".join(FILE)
    found = items(data[:cut])
    whole = records(data)
    kept = [item for item in found if item in whole]
    assert kept == [r for r in whole if r.offset + r.length <= cut]
    assert len(found) - len(kept) <= 1
