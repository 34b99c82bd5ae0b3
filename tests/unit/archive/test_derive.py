"""WAT and WET of WARC files made for the purpose: what is in them, and what odd and hostile input does to them."""

from __future__ import annotations

import gzip
import json
import zlib
from contextlib import suppress
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.archive.made import INFO_ID, Record, info, metadata, record_id, request, response, write_warc
from webmill.archive.derive import DeriveJob, DeriveReport, derive, output_name
from webmill.errors import BadInput
from webmill.formats.html.page import MAX_PAGE
from webmill.formats.warc.reader import read_records
from webmill.formats.warc.wat import read_wat
from webmill.formats.warc.wet import header_languages
from webmill.model import Record as Read

HELLO = b"<title>T</title><p>Hello <a href=/x>world</a></p>"


class Result:
    def __init__(self, derived: DeriveReport, wat: Path, wet: Path) -> None:
        self.derived = derived
        self.wat, self.wet = records_of(wat), records_of(wet)

    def description(self, number: str) -> dict[str, Any]:
        (found,) = [record for record in self.wat if record.refers_to == number]
        read: dict[str, Any] = json.loads(found.content)
        return read

    def payload(self, number: str) -> dict[str, Any]:
        read: dict[str, Any] = self.description(number)["Envelope"]["Payload-Metadata"]
        return read

    def texts(self) -> dict[str | None, str]:
        return {record.refers_to: record.content.decode() for record in self.wet if record.type == "conversion"}


def records_of(path: Path) -> list[Read]:
    items = list(read_records(BytesIO(path.read_bytes())))
    assert all(isinstance(item, Read) for item in items)
    return items  # type: ignore[return-value]  # just proven


def derive_both(warc: Path, *, date: datetime | None = None) -> Result:
    outputs = {kind: warc.parent / output_name(warc.name, kind) for kind in ("wat", "wet")}
    return Result(derive(DeriveJob(warc=warc, outputs=outputs, date=date)), outputs["wat"], outputs["wet"])


def derive_page(tmp_path: Path, body: bytes, **options: Any) -> Result:
    return derive_both(write_warc(tmp_path / "made.warc.gz", info(), response("page", body, **options)))


def capture(name: str, body: bytes) -> list[Record]:
    return [request(name), response(name, body), metadata(name, ("fetchTimeMs", "5"))]


# --- the files --------------------------------------------------------------------------------------------------------


def test_every_record_is_described_and_every_page_has_its_text(tmp_path: Path) -> None:
    result = derive_both(write_warc(tmp_path / "made.warc.gz", info(), *capture("a", HELLO), *capture("b", HELLO)))
    assert (result.derived.records, result.derived.pages, result.derived.texts) == (7, 2, 2)
    assert result.derived.rejects == ()
    assert [record.type for record in result.wat] == ["warcinfo"] + ["metadata"] * 7
    assert result.texts() == {record_id("a"): "T\nHello world\n", record_id("b"): "T\nHello world\n"}


def test_both_files_begin_with_a_warcinfo_about_themselves(tmp_path: Path) -> None:
    result = derive_page(tmp_path, HELLO)
    for kind, records in (("wat", result.wat), ("wet", result.wet)):
        assert records[0].type == "warcinfo"
        assert records[0].headers.get("WARC-Filename") == f"made.warc.{kind}.gz"
        assert b"Extracted-Date: Fri, 12 Jul 2024 09:42:14 GMT\r\n" in records[0].content
    assert b"isPartOf: TEST-2024\r\npublisher: us\r\n" in result.wet[0].content


def test_a_text_has_the_date_of_its_capture_and_a_description_that_of_the_extraction(tmp_path: Path) -> None:
    warc = write_warc(tmp_path / "made.warc.gz", info(), response("page", HELLO))
    result = derive_both(warc, date=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert {record.date for record in result.wat} == {"2026-01-02T03:04:05Z"}
    assert [record.date for record in result.wet] == ["2026-01-02T03:04:05Z", "2024-07-12T09:42:14Z"]


def test_the_same_warc_gives_the_same_bytes(tmp_path: Path) -> None:
    warc = write_warc(tmp_path / "made.warc.gz", info(), *capture("a", HELLO))
    outputs = {kind: tmp_path / output_name(warc.name, kind) for kind in ("wat", "wet")}
    derive(DeriveJob(warc=warc, outputs=outputs))
    first = [path.read_bytes() for path in outputs.values()]
    derive(DeriveJob(warc=warc, outputs=outputs))
    assert [path.read_bytes() for path in outputs.values()] == first
    for kind, path in outputs.items():
        alone = derive(DeriveJob(warc=warc, outputs={kind: path}))
        assert alone.records == 4
    assert [path.read_bytes() for path in outputs.values()] == first


def test_all_record_ids_differ(tmp_path: Path) -> None:
    result = derive_both(write_warc(tmp_path / "made.warc.gz", info(), *capture("a", HELLO), *capture("b", HELLO)))
    ids = [record.record_id for record in (*result.wat, *result.wet)]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("warc", "wat"),
    [
        ("X.warc.gz", "X.warc.wat.gz"),
        ("X.warc", "X.warc.wat.gz"),
        ("X.warc.zst", "X.warc.wat.gz"),
        ("X", "X.wat.gz"),
    ],
)
def test_names_are_those_of_common_crawl(warc: str, wat: str) -> None:
    assert output_name(warc, "wat") == wat


# --- WAT --------------------------------------------------------------------------------------------------------------


def test_a_description_says_where_the_record_lies(tmp_path: Path) -> None:
    warc = write_warc(tmp_path / "made.warc.gz", info(), response("page", HELLO))
    container = derive_both(warc).description(record_id("page"))["Container"]
    offset, length = int(container["Offset"]), int(container["Gzip-Metadata"]["Deflate-Length"])
    inflated = gzip.decompress(warc.read_bytes()[offset : offset + length])
    assert container["Filename"] == "made.warc.gz"
    assert container["Compressed"] is True
    assert int(container["Gzip-Metadata"]["Inflated-Length"]) == len(inflated)
    assert int(container["Gzip-Metadata"]["Inflated-CRC"]) & 0xFFFFFFFF == zlib.crc32(inflated)
    assert container["Gzip-Metadata"]["Header-Length"] == "10"
    assert container["Gzip-Metadata"]["Footer-Length"] == "8"


def test_a_response_is_described_with_its_headers_lengths_digests_and_links(tmp_path: Path) -> None:
    result = derive_page(tmp_path, HELLO, head="Content-Type: text/html\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2")
    described = result.payload(record_id("page"))["HTTP-Response-Metadata"]
    assert described["Response-Message"] == {"Status": "200", "Version": "HTTP/1.1", "Reason": "OK"}
    assert described["Headers"] == {"Content-Type": "text/html", "Set-Cookie": ["a=1", "b=2"]}
    assert described["Entity-Length"] == str(len(HELLO))
    assert described["HTML-Metadata"] == {
        "Head": {"Title": "T"},
        "Links": [{"path": "A@/href", "url": "/x", "text": "world"}],
    }
    envelope = result.description(record_id("page"))["Envelope"]
    assert envelope["WARC-Header-Metadata"]["WARC-Protocol"] == ["h2", "tls/1.3"]
    assert envelope["WARC-Header-Metadata"]["WARC-Block-Digest"] == result.payload(record_id("page"))["Block-Digest"]
    assert described["Entity-Digest"] == envelope["WARC-Header-Metadata"]["WARC-Payload-Digest"]


def test_our_own_reader_understands_our_descriptions(tmp_path: Path) -> None:
    result = derive_both(write_warc(tmp_path / "made.warc.gz", info(), *capture("a", HELLO)))
    found = [read_wat(record.content) for record in result.wat[1:]]
    assert [description.type for description in found] == ["warcinfo", "request", "response", "metadata"]
    assert found[0].info is not None
    assert found[0].info.is_part_of == "TEST-2024"
    assert found[1].envelope.payload.request is not None
    assert found[1].envelope.payload.request.message.path == "/a"
    assert found[2].html is not None
    assert found[2].html.head.title == "T"
    assert found[3].findings is not None
    assert found[3].findings.fetch_time_ms == 5
    assert all(not description.rest for description in found)


def test_a_plain_warc_is_described_without_gzip(tmp_path: Path) -> None:
    result = derive_both(write_warc(tmp_path / "made.warc", info(), response("page", HELLO)))
    description = result.description(record_id("page"))
    assert description["Container"]["Compressed"] is False
    assert "Gzip-Metadata" not in description["Container"]
    stored = (tmp_path / "made.warc").read_bytes()[int(description["Container"]["Offset"]) :]
    assert int(description["Envelope"]["WARC-Header-Length"]) == stored.index(b"\r\n\r\n") + 4


# --- WET --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "payload_type", "has_text"),
    [
        ("Content-Type: text/html", None, True),
        ("Content-Type: application/xhtml+xml; charset=utf-8", None, True),
        ("Content-Type: application/octet-stream", "text/html", True),
        ("Content-Type: text/html", "application/pdf", False),
        ("Content-Type: text/plain", None, False),
        ("X: y", None, False),
    ],
)
def test_what_the_crawler_identified_decides_what_is_html(
    tmp_path: Path, head: str, payload_type: str | None, has_text: bool
) -> None:
    result = derive_page(tmp_path, HELLO, head=head, payload_type=payload_type)
    assert bool(result.texts()) == has_text
    assert ("HTML-Metadata" in result.payload(record_id("page"))["HTTP-Response-Metadata"]) == has_text


def test_a_page_without_text_has_no_conversion(tmp_path: Path) -> None:
    result = derive_page(tmp_path, b"<img src=x> <!-- nothing -->")
    assert result.texts() == {}
    assert result.derived.rejects == ()


def test_languages_come_from_the_metadata_record_of_the_page(tmp_path: Path) -> None:
    found = (
        '{"reliable":true,"text-bytes":9,"languages":[{"code":"de","code-iso-639-3":"deu"},{"code-iso-639-3":"eng"}]}'
    )
    warc = write_warc(
        tmp_path / "made.warc.gz",
        info(),
        response("a", HELLO),
        metadata("a", ("languages-cld2", found)),
        response("b", HELLO),
        metadata("c", ("languages-cld2", found), of="another"),
        response("d", HELLO),
        metadata("d", ("languages-cld2", '{"languages":[{"code-iso-639-3":"a\\r\\nb"}]}')),
    )
    assert [header_languages(record) for record in derive_both(warc).wet[1:]] == [("deu", "eng"), (), ()]


def test_languages_of_the_response_itself_are_taken_first(tmp_path: Path) -> None:
    headers, content = response("a", HELLO)
    stated = headers.with_added(("WARC-Identified-Content-Language", "fra"))
    result = derive_both(write_warc(tmp_path / "made.warc.gz", info(), (stated, content)))
    assert header_languages(result.wet[1]) == ("fra",)


def test_languages_are_detected_on_request(tmp_path: Path) -> None:
    pytest.importorskip("pycld2")
    german = "<p>Dies ist ein ganz gewöhnlicher deutscher Satz, der lang genug ist, um erkannt zu werden.</p>"
    warc = write_warc(tmp_path / "made.warc.gz", info(), response("a", german.encode()), response("b", b"<p>\x00\xff"))
    wet = tmp_path / "made.warc.wet.gz"
    derive(DeriveJob(warc=warc, outputs={"wet": wet}, detect_languages=True))
    assert [header_languages(record) for record in records_of(wet)[1:]] == [("deu",), ()]


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("Content-Type: text/html; charset=windows-1251", "<p>Привет".encode("cp1251")),
        ("Content-Type: text/html", "<meta charset=shift_jis><p>こんにちは".encode("shift_jis")),
        ("Content-Type: text/html", "\ufeff<p>Ünïcode".encode("utf-16-le")),
        ("Content-Type: text/html", "<p>Ünïcode".encode()),
        ("Content-Type: text/html", "<p>Ünïcode".encode("cp1252")),
    ],
)
def test_pages_of_any_charset_become_utf8(tmp_path: Path, head: str, body: bytes) -> None:
    text = derive_page(tmp_path, body, head=head).texts()[record_id("page")]
    assert text in ("Привет", "こんにちは", "Ünïcode")


def test_bodies_stored_chunked_and_compressed_are_read(tmp_path: Path) -> None:
    packed = gzip.compress(HELLO)
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(packed), packed)
    head = "Content-Type: text/html\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked"
    result = derive_page(tmp_path, chunked, head=head)
    assert result.texts() == {record_id("page"): "T\nHello world\n"}
    assert result.payload(record_id("page"))["HTTP-Response-Metadata"]["Entity-Length"] == str(len(chunked))


# --- what is odd, damaged, hostile ------------------------------------------------------------------------------------


def test_a_page_beyond_the_limits_costs_nothing_but_itself(tmp_path: Path) -> None:
    warc = write_warc(tmp_path / "made.warc.gz", info(), response("a", b"x" * (MAX_PAGE + 1)), response("b", HELLO))
    result = derive_both(warc)
    assert [reject.reason for reject in result.derived.rejects] == ["parse_limit"]
    assert "HTML-Metadata" not in result.payload(record_id("a"))["HTTP-Response-Metadata"]
    assert list(result.texts()) == [record_id("b")]


def test_a_page_that_inflates_beyond_the_limits_costs_nothing_but_itself(tmp_path: Path) -> None:
    bomb = gzip.compress(b"\0" * (100 << 20), 9)
    head = "Content-Type: text/html\r\nContent-Encoding: gzip"
    warc = write_warc(tmp_path / "made.warc.gz", info(), response("a", bomb, head=head), response("b", HELLO))
    result = derive_both(warc)
    assert [reject.reason for reject in result.derived.rejects] == ["decode_limit"]
    assert list(result.texts()) == [record_id("b")]


@pytest.mark.parametrize("name", ["html_80k_attrs", "html_nested_div_40k"])
def test_html_bombs_are_derived_like_other_pages(tmp_path: Path, shared_data: Path, name: str) -> None:
    bomb = gzip.decompress((shared_data / "hostile" / f"{name}.html.gz").read_bytes())
    warc = write_warc(tmp_path / "made.warc.gz", info(), response("a", bomb), response("b", HELLO))
    result = derive_both(warc)
    assert result.derived.rejects == ()
    assert result.texts()[record_id("b")] == "T\nHello world\n"


def test_a_damaged_warc_gives_what_is_whole_and_says_what_is_not(tmp_path: Path) -> None:
    warc = write_warc(
        tmp_path / "made.warc.gz", info(), response("a", HELLO), response("b", HELLO), response("c", HELLO)
    )
    stored = bytearray(warc.read_bytes())
    middle = len(stored) // 2
    stored[middle : middle + 20] = bytes(20)
    warc.write_bytes(stored)
    result = derive_both(warc)
    assert result.derived.rejects
    assert all(reject.file == "made.warc.gz" and reject.offset is not None for reject in result.derived.rejects)
    assert record_id("c") in result.texts()


def test_records_of_all_kinds_are_described(tmp_path: Path) -> None:
    headers, content = response("a", b"")
    bare = headers.without("WARC-Type").without("WARC-Record-ID")
    kinds = ("revisit", "resource", "conversion", "continuation", "made-up")
    odd = [(bare.with_added(("WARC-Type", kind), ("WARC-Record-ID", record_id(kind))), content) for kind in kinds]
    dns = headers.without("Content-Type").with_added(("Content-Type", "text/dns"))
    result = derive_both(write_warc(tmp_path / "made.warc.gz", info(), *odd, (dns, content)))
    assert result.derived.rejects == ()
    assert "HTTP-Response-Metadata" in result.payload(record_id("revisit"))
    for plain in (record_id("resource"), record_id("made-up"), record_id("a")):
        assert set(result.payload(plain)) == {"Actual-Content-Length", "Trailing-Slop-Length", "Block-Digest"}


def test_bytes_that_are_no_text_in_headers_do_no_harm(tmp_path: Path) -> None:
    headers, content = response("a", HELLO, head="Content-Type: text/html\r\nX-Odd: \xe9\xff\x00")
    headers = headers.without("WARC-Target-URI").with_added(("WARC-Target-URI", "http://x.example/\udcff\u00e9"))
    result = derive_both(write_warc(tmp_path / "made.warc.gz", info(), (headers, content)))
    assert result.derived.rejects == ()
    described = result.description(record_id("a"))["Envelope"]["WARC-Header-Metadata"]["WARC-Target-URI"]
    assert described == "http://x.example/\ufffd\u00e9"
    assert result.wet[1].target_uri == "http://x.example/\udcff\u00e9"


def test_a_response_whose_head_cannot_be_read_is_described_as_far_as_it_goes(tmp_path: Path) -> None:
    headers, _ = response("a", HELLO)
    broken = b"ICY 200 what\r\n\r\n<p>x"
    headers = headers.without("Content-Length").with_added(("Content-Length", str(len(broken))))
    result = derive_both(write_warc(tmp_path / "made.warc.gz", info(), (headers, broken)))
    assert result.payload(record_id("a"))["HTTP-Response-Metadata"]["Headers-Corrupt"] is True


def test_a_record_without_an_id_is_refused_and_the_rest_goes_on(tmp_path: Path) -> None:
    headers, content = response("a", HELLO)
    nameless = (headers.without("WARC-Record-ID"), content)
    result = derive_both(write_warc(tmp_path / "made.warc.gz", info(), nameless, response("b", HELLO)))
    assert [reject.reason for reject in result.derived.rejects] == ["no_record_id"]
    assert list(result.texts()) == [record_id("b")]


def test_a_page_with_a_date_that_is_none_has_no_text_but_a_description(tmp_path: Path) -> None:
    headers, content = response("a", HELLO)
    undated = (headers.without("WARC-Date").with_added(("WARC-Date", "yesterday")), content)
    result = derive_both(write_warc(tmp_path / "made.warc.gz", info(), undated))
    assert [reject.reason for reject in result.derived.rejects] == ["bad_timestamp"]
    assert result.payload(record_id("a"))
    assert result.texts() == {}


def test_a_warc_without_warcinfo_is_dated_by_its_first_record(tmp_path: Path) -> None:
    result = derive_both(write_warc(tmp_path / "made.warc.gz", response("page", HELLO)))
    assert result.wat[0].date == "2024-07-12T09:42:14Z"
    assert list(result.texts()) == [record_id("page")]


@pytest.mark.parametrize("content", [b"", b"no warc at all", gzip.compress(b"neither is this", mtime=0)])
def test_a_file_without_records_is_refused_and_nothing_is_left(tmp_path: Path, content: bytes) -> None:
    warc = tmp_path / "made.warc.gz"
    warc.write_bytes(content)
    with pytest.raises(BadInput) as refused:
        derive_both(warc)
    assert refused.value.reason == "not_warc"
    assert list(tmp_path.iterdir()) == [warc]


def test_an_arc_file_is_refused(tmp_path: Path, shared_data: Path) -> None:
    warc = tmp_path / "example.arc.gz"
    warc.write_bytes((shared_data / "warc" / "warcio" / "example.arc.gz").read_bytes())
    with pytest.raises(BadInput, match="ARC"):
        derive_both(warc)


@given(st.data())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_a_warc_cut_anywhere_gives_a_shorter_answer(tmp_path: Path, data: st.DataObject) -> None:
    warc = write_warc(tmp_path / "made.warc.gz", info(), *capture("a", HELLO), *capture("b", HELLO))
    stored = warc.read_bytes()
    warc.write_bytes(stored[: data.draw(st.integers(0, len(stored)))])
    with suppress(BadInput):  # there was no record left: what that gives is tested above
        result = derive_both(warc)
        assert {record.refers_to for record in result.wet[1:]} <= {record_id("a"), record_id("b")}
        assert result.wat[1].refers_to == INFO_ID


@given(st.binary(max_size=500))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_any_bytes_as_html_are_derived(tmp_path: Path, body: bytes) -> None:
    result = derive_page(tmp_path, body)
    assert result.derived.rejects == ()
    assert result.derived.pages == 1
