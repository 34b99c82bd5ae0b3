"""What a crawl's WARC files say, and where."""

from __future__ import annotations

import gzip
import io
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.archive.captures import (
    DATE,
    NAME,
    PAGE,
    capture,
    check_file,
    check_files,
    folder,
    names,
    read_place,
    sealed,
    writer,
)
from webmill.archive.capture_encoding import EncodedCapture, encode_capture
from webmill.archive.derive import DeriveJob, derive
from webmill.archive.recovery import recover
from webmill.archive.segment import open_stored, write_paths_files
from webmill.archive.writer import WarcinfoDetails, WarcWriter
from webmill.collection import Collection
from webmill.errors import BadInput, Misconfigured, NotFound
from webmill.formats.warc import digest
from webmill.formats.warc.capture import Capture, WrittenCapture
from webmill.formats.warc.fields import MetadataFields, parse_warc_fields
from webmill.formats.warc.http_records import read_response
from webmill.formats.warc.reader import read_records
from webmill.formats.warc.record_headers import IDENTICAL_DIGEST, NOT_MODIFIED, OriginalCapture
from webmill.index.archives import find_archives
from webmill.model import CaptureRef, Record


def written(root: Path, *captures: Capture, **options: Any) -> list[WrittenCapture]:
    with writer(root, **options) as out:
        return [out.append(one) for one in captures]


def records_of(root: Path) -> list[Record]:
    return check_files(list(sealed(root)))


def test_a_capture_is_a_request_a_response_and_a_note_about_it(tmp_path: Path) -> None:
    made = capture(7, protocols=("http/1.1", "tls/1.3"), cipher_suites=("TLS_AES_128_GCM_SHA256",), truncated="time")
    [place] = written(tmp_path, made, software=WarcinfoDetails(operator="us <us@site.example>", hostname="mill"))
    info, request, response, metadata = records_of(tmp_path)
    assert [record.type for record in (info, request, response, metadata)] == [
        "warcinfo",
        "request",
        "response",
        "metadata",
    ]
    assert request.content == made.exchange.request
    assert response.content == made.exchange.response
    expected = {
        "WARC-Target-URI": "http://site.example/7",
        "WARC-Date": "2024-07-12T09:42:14Z",
        "WARC-IP-Address": "192.0.2.1",
        "WARC-Warcinfo-ID": info.record_id,
        "WARC-Concurrent-To": request.record_id,
        "WARC-Payload-Digest": digest.compute(PAGE),
        "WARC-Block-Digest": digest.compute(response.content),
        "WARC-Truncated": "time",
        "WARC-Identified-Payload-Type": "text/html",
        "WARC-Cipher-Suite": "TLS_AES_128_GCM_SHA256",
    }
    assert {name: response.headers.get(name) for name in expected} == expected
    assert response.headers.get_all("WARC-Protocol") == ["http/1.1", "tls/1.3"]
    assert metadata.concurrent_to == response.record_id
    lies = CaptureRef(
        url="http://site.example/7",
        timestamp="20240712094214",
        filename=f"crawl-data/{NAME}/segments/1/warc/{NAME}-20240712094214-a-00000.warc.gz",
        offset=response.offset,
        length=response.length,
        digest=digest.compute(PAGE),
    )
    assert place == WrittenCapture(lies, str(response.record_id))


def test_the_first_record_says_who_made_the_file(tmp_path: Path) -> None:
    made = WarcinfoDetails(
        publisher="p", description="d", operator="o", hostname="h", robots="obeyed", software="mill/1"
    )
    written(tmp_path, capture(), software=made)
    info = records_of(tmp_path)[0]
    assert info.headers.get("WARC-Filename") == names(tmp_path)[0]
    assert [name for name, _ in parse_warc_fields(info.content).pairs] == [
        "isPartOf",
        "publisher",
        "description",
        "operator",
        "hostname",
        "software",
        "robots",
        "format",
        "conformsTo",
    ]
    assert parse_warc_fields(info.content).get("isPartOf") == NAME


def test_the_note_has_time_charset_and_what_the_crawler_adds(tmp_path: Path) -> None:
    written(tmp_path, capture(extra=(("depth", "3"), ("via", "http://site.example/a\r\nX-Evil: 1\ud800\udcff"))))
    metadata = records_of(tmp_path)[-1]
    assert list(parse_warc_fields(metadata.content).pairs) == [
        ("fetchTimeMs", "250"),
        ("charset-detected", "UTF-8"),
        ("depth", "3"),
        ("via", "http://site.example/a%0D%0AX-Evil: 1%ED%A0%80%FF"),
    ]


def test_languages_are_noted_as_common_crawl_does(tmp_path: Path) -> None:
    pytest.importorskip("pycld2")
    german = "<!doctype html><p>Dies ist ein Satz in deutscher Sprache, und noch ein zweiter, der länger ist.</p>"
    places = (
        capture(1, body=german.encode()),
        capture(2, body=german.encode(), subset="crawldiagnostics", status=404),
        capture(3, body=b"%PDF-1.4 text", head="Content-Type: application/pdf"),
    )
    written(tmp_path, *places, languages=True)
    notes = [
        MetadataFields(parse_warc_fields(record.content))
        for record in records_of(tmp_path)
        if record.type == "metadata"
    ]
    found = [note.languages and [language.iso for language in note.languages.languages] for note in notes]
    assert sorted(found, key=str) == [None, None, ["deu"]]


def test_what_was_sent_chunked_and_compressed_is_stored_so_and_read_decoded(tmp_path: Path) -> None:
    packed = gzip.compress(PAGE, mtime=0)
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(packed), packed)
    head = "Content-Type: text/html\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked"
    [place] = written(tmp_path, capture(body=body, head=head, payload=PAGE))
    record = read_place(tmp_path, place)
    assert record.content.endswith(body)
    assert record.payload_digest == digest.compute(body)
    assert record.headers.get("WARC-Identified-Payload-Type") == "text/html"
    assert read_response(record.content).content.data == PAGE
    [file] = sealed(tmp_path)
    check_file(file)
    outputs = {kind: tmp_path / f"{kind}.gz" for kind in ("wat", "wet")}
    derived = derive(DeriveJob(warc=file, outputs=outputs))
    assert (derived.records, derived.pages, derived.texts, derived.rejects) == (4, 1, 1, ())
    assert b"plain English" in gzip.decompress(outputs["wet"].read_bytes())


def test_a_page_not_modified_is_a_revisit_without_a_payload(tmp_path: Path) -> None:
    original = OriginalCapture(record_id="<urn:uuid:1>", uri="http://site.example/0", date=DATE - timedelta(days=1))
    made = capture(kind="not_modified", original=original, status=304, body=b"", subset="crawldiagnostics")
    [place] = written(tmp_path, made)
    record = read_place(tmp_path, place)
    assert (record.type, record.headers.get("WARC-Profile")) == ("revisit", NOT_MODIFIED)
    assert record.headers.get("WARC-Refers-To-Date") == "2024-07-11T09:42:14Z"
    assert (record.refers_to, record.payload_digest, place.capture.digest) == ("<urn:uuid:1>", None, "")
    assert [one.type for one in records_of(tmp_path)] == ["warcinfo", "request", "revisit", "metadata"]


@pytest.mark.parametrize("kind", ["response", "identical"])
def test_a_digest_that_is_known_is_not_computed_again(tmp_path: Path, kind: str) -> None:
    known = digest.compute(b"what the caller says, to tell it apart")
    plain = capture(kind=kind, original=OriginalCapture(record_id="<urn:uuid:1>"))
    [printed, found] = [
        encode_capture(msgspec.structs.replace(plain, digest=reported), warcinfo_id="<urn:uuid:2>")
        for reported in (known, "")
    ]
    assert (printed.digest, found.digest) == (known, digest.compute(PAGE))
    assert known.encode() in gzip.decompress(printed.data)


def test_a_page_that_came_unchanged_is_a_revisit_with_its_digest(tmp_path: Path) -> None:
    [place] = written(tmp_path, capture(kind="identical", original=OriginalCapture(record_id="<urn:uuid:1>")))
    record = read_place(tmp_path, place)
    assert (record.type, record.headers.get("WARC-Profile")) == ("revisit", IDENTICAL_DIGEST)
    assert record.payload_digest == place.capture.digest == digest.compute(PAGE)
    assert record.content == b"HTTP/1.1 200 Said\r\nContent-Type: text/html\r\n\r\n"
    records_of(tmp_path)


def test_each_subset_has_a_file_of_the_same_name_when_it_is_needed(tmp_path: Path) -> None:
    with writer(tmp_path) as out:
        out.append(capture(1))
        out.append(capture(2, subset="crawldiagnostics", status=404))
        assert names(tmp_path, "robotstxt") == []
        out.append(capture(3, subset="robotstxt"))
    assert names(tmp_path) == names(tmp_path, "crawldiagnostics") == names(tmp_path, "robotstxt")
    assert len(records_of(tmp_path)) == 12


def test_files_are_rolled_at_their_size(tmp_path: Path) -> None:
    places = written(tmp_path, *map(capture, range(30)), max_bytes=4000)
    assert len({place.capture.filename for place in places}) > 3
    assert [f"{NAME}-20240712094214-a-{number:05}.warc.gz" for number in range(len(names(tmp_path)))] == names(tmp_path)
    assert all(read_place(tmp_path, place).type == "response" for place in places)
    assert len(records_of(tmp_path)) == 90 + len(names(tmp_path))


def test_an_open_file_is_no_archive_to_others_and_is_found_by_its_final_name(tmp_path: Path) -> None:
    collection = Collection(tmp_path, NAME)
    with writer(tmp_path) as out:
        place = out.append(capture())
        out.sync()
        assert names(tmp_path) == [f"{NAME}-20240712094214-a-00000.warc.gz.open"]
        assert list(find_archives(collection, refuse=refuse)) == []
        before = read_place(tmp_path, place)
    assert list(find_archives(collection, refuse=refuse)) == [place.capture.filename]
    assert read_place(tmp_path, place) == before
    with pytest.raises(NotFound):
        open_stored(collection, "crawl-data/none.warc.gz")


def test_a_writer_without_captures_leaves_nothing(tmp_path: Path) -> None:
    with writer(tmp_path) as out:
        out.sync()
    assert names(tmp_path) == []


def test_no_name_is_used_twice_whatever_the_clock_says(tmp_path: Path) -> None:
    """Restarted within the same second, and beside another process that was given the same stem."""
    first = written(tmp_path, capture(1), capture(2, subset="robotstxt"))
    with writer(tmp_path) as one, writer(tmp_path) as other:
        second = [one.append(capture(3)), other.append(capture(4)), one.append(capture(5)), other.append(capture(6))]
        one.sync()
        third = [other.append(capture(7, subset="robotstxt")), one.append(capture(8, subset="robotstxt"))]
    files = [place.capture.filename for place in (first[0], second[0], second[1])]
    assert len(set(files)) == 3
    assert len({place.capture.filename for place in (first[1], *third)}) == 3
    for place in (*first, *second, *third):
        read_place(tmp_path, place)
    assert recover(Collection(tmp_path, NAME)) == []


def test_a_name_taken_by_a_finished_file_is_left_alone(tmp_path: Path) -> None:
    taken = folder(tmp_path) / f"{NAME}-20240712094214-a-00000.warc.gz"
    taken.parent.mkdir(parents=True)
    taken.write_bytes(b"somebody's")
    [place] = written(tmp_path, capture())
    assert place.capture.filename.endswith("-00001.warc.gz")
    assert taken.read_bytes() == b"somebody's"


def test_the_lists_of_paths_name_what_is_finished(tmp_path: Path) -> None:
    collection = Collection(tmp_path, NAME)
    write_paths_files(collection)
    assert list(tmp_path.iterdir()) == []
    places = written(tmp_path, capture(1), capture(2, subset="crawldiagnostics"))
    with writer(tmp_path, stem="b") as out:
        out.append(capture(3))
        write_paths_files(collection)
    listed = {
        kind: gzip.decompress(collection.paths_file(kind).read_bytes()).decode().splitlines()
        for kind in ("warc", "non200responses")
    }
    assert listed == {"warc": [places[0].capture.filename], "non200responses": [places[1].capture.filename]}
    assert not collection.paths_file("robotstxt").exists()
    before = collection.paths_file("non200responses").stat()
    write_paths_files(collection)
    assert collection.paths_file("non200responses").stat() == before
    assert len(gzip.decompress(collection.paths_file("warc").read_bytes()).splitlines()) == 2


@pytest.mark.parametrize("stem", ["", "a/b", "../x", "a b", "a\nb"])
def test_a_stem_that_is_no_part_of_a_name_is_refused(tmp_path: Path, stem: str) -> None:
    with pytest.raises(Misconfigured):
        writer(tmp_path, stem=stem)


def test_a_line_break_in_what_the_operator_says_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured):
        writer(tmp_path, software=WarcinfoDetails(operator="us\r\nWARC-Type: response"))


def test_a_value_that_would_break_a_header_costs_its_capture_only(tmp_path: Path) -> None:
    with writer(tmp_path) as out:
        first = out.append(capture(1))
        with pytest.raises(BadInput, match="header_injection"):
            out.append(capture(2, protocols=("h2\r\nWARC-Type: evil",)))
        last = out.append(capture(3))
    assert [read_place(tmp_path, place).target_uri for place in (first, last)] == [
        "http://site.example/1",
        "http://site.example/3",
    ]
    assert len(records_of(tmp_path)) == 7


def refuse(*printed: str) -> None:
    raise AssertionError(printed)


def encoded(made: Capture) -> EncodedCapture:
    return encode_capture(made, warcinfo_id="<urn:uuid:0>")


@given(
    url=st.text(), body=st.binary(), head=st.binary(), via=st.text(), kind=st.sampled_from(["response", "identical"])
)
@settings(deadline=None)
def test_nothing_the_web_says_can_add_a_header_or_a_record(
    url: str, body: bytes, head: bytes, via: str, kind: str
) -> None:
    made = capture(url="http://site.example/" + url, extra=(("via", via),), kind=kind)  # type: ignore[arg-type]
    exchange = msgspec.structs.replace(made.exchange, response=b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n" + body)
    plain = [name for name, _ in encoded_records(encoded(made))[1].headers.pairs]
    out = encoded(msgspec.structs.replace(made, exchange=exchange, payload=body))
    asked, answered, noted = encoded_records(out)
    assert [name for name, _ in answered.headers.pairs] == plain
    if kind == "response":
        assert answered.content == exchange.response
    assert (answered.offset, answered.length) == (out.start, out.length)
    assert [name for name, _ in parse_warc_fields(noted.content).pairs][-1] == "via"
    assert len([name for name, _ in parse_warc_fields(noted.content).pairs]) <= 3
    assert len(out.data) == asked.length + answered.length + noted.length


def encoded_records(out: EncodedCapture) -> list[Record]:
    found = list(read_records(io.BytesIO(out.data)))
    assert [type(item) for item in found] == [Record, Record, Record]
    return [item for item in found if isinstance(item, Record)]


def test_a_writer_needs_a_crawl_that_has_a_name(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured):
        WarcWriter(Collection(tmp_path, NAME), segment="../up", stem="a", software=WarcinfoDetails(), now=lambda: DATE)
