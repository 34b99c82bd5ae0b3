"""Joining well-formed files, and files that are merely unusual."""

from __future__ import annotations

import gzip
import io
from typing import Any

import pytest

from tests.unit.commoncrawl.triples import (
    CRAWL,
    MIXED,
    PDF,
    WARC,
    WAT,
    WET,
    Spec,
    Triple,
    Writer,
    errors,
    make_plain,
    make_triple,
    names,
    pages,
    record_id,
)
from webmill.commoncrawl.aligned import read_pages
from webmill.commoncrawl.page import Page
from webmill.formats.warc import record_headers as records
from webmill.formats.warc.head import WarcLimits
from webmill.formats.warc.typed_records import ResponseRecord
from webmill.formats.warc.writer import compress_record, encode_record
from webmill.model import Headers


def only(triple: Triple) -> Page:
    (page,) = triple.read()
    assert isinstance(page, Page)
    return page


def test_a_page_has_what_all_three_files_say() -> None:
    page = only(make_triple([Spec("a", languages=("deu",))]))
    assert page.target_uri == "https://example.org/a"
    assert page.title == "Title of a"
    assert page.text == "Title of a\nBody of a"
    assert [link.url for link in page.links] == ["/next"]
    assert page.charset == "UTF-8"
    assert page.languages
    assert [language.iso for language in page.languages.languages] == ["deu"]
    assert page.http
    assert page.http.status == 200
    assert page.http_request
    assert page.http_request.method == "GET"
    assert page.findings
    assert page.findings.fetch_time_ms == 56
    assert isinstance(page.typed_capture, ResponseRecord)


@pytest.mark.parametrize("make", [make_triple, make_plain])
def test_every_page_has_its_own_text_or_none(make: object) -> None:
    triple = make(MIXED)  # type: ignore[operator]
    result = triple.read()
    assert names(result) == [spec.name for spec in MIXED]
    for page, spec in zip(pages(result), MIXED, strict=True):
        assert page.text == (spec.text.format(spec.name) if spec.text else None)
        assert (page.request is None, page.metadata is None) == (not spec.request, not spec.metadata)
        assert page.title == f"Title of {spec.name}"


def test_a_page_without_text_does_not_get_the_next_pages() -> None:
    first, second = pages(make_triple([PDF, Spec("b")]).read())
    assert first.text is None
    assert second.text == "Title of b\nBody of b"


def test_two_captures_of_one_url_are_told_apart() -> None:
    twins = [Spec(name, uri="https://example.org/", text=text) for name, text in (("1", None), ("2", "two"))]
    first, second = pages(make_triple(twins).read())
    assert (first.text, second.text) == (None, "two")
    assert first.request
    assert first.request.record_id == record_id("req-1")


def test_a_capture_without_request_does_not_take_that_of_the_next_capture_of_its_url() -> None:
    twins = [Spec("1", uri="https://e.org/", request=False, metadata=False), Spec("2", uri="https://e.org/")]
    first, second = pages(make_triple(twins).read())
    assert first.request is None
    assert second.request


def test_offsets_cover_exactly_the_records_of_a_page() -> None:
    triple = make_triple(MIXED)
    for page, spec in zip(pages(triple.read()), MIXED, strict=True):
        for file_type in (WARC, WAT, WET):
            places = triple.places[spec.name].get(file_type)
            if places:
                assert page.offsets[file_type] == (places[0][0], places[-1][1])
            else:
                start, end = page.offsets[file_type]
                assert start == end


@pytest.mark.parametrize("make", [make_triple, make_plain])
def test_reading_on_after_any_page_gives_the_same_rest(make: object) -> None:
    triple = make(MIXED)  # type: ignore[operator]
    whole = triple.read()
    for number, page in enumerate(whole):
        assert triple.resumed(page.resume) == whole[number + 1 :]
        assert all(page.offsets[kind][1] == page.resume[kind] for kind in page.resume)


def test_a_body_that_holds_a_warc_header_is_a_body() -> None:
    inner = "WARC/1.0\r\nWARC-Type: metadata\r\nContent-Length: 0\r\n\r\n\r\n\r\n"
    trap = f"<html><body>{inner}WARC/1.0\r\nWARC-Type: request\r\n{{0}}"
    for make in (make_triple, make_plain):
        assert names(make([Spec("a"), Spec("trap", body=trap, text="x"), Spec("b")]).read()) == ["a", "trap", "b"]


def test_unknown_headers_are_kept() -> None:
    extra = (("WARC-Protocol", "h3"), ("X-Of-The-Future", "yes"), ("WARC-Truncated", "length"))
    page = only(make_triple([Spec("a", extra=extra)]))
    assert page.capture.headers.get("X-Of-The-Future") == "yes"
    assert page.typed_capture.protocols == ["h2", "tls/1.3", "h3"]
    assert page.typed_capture.truncated == "length"


def test_files_may_be_missing() -> None:
    triple = make_triple(MIXED)
    alone = list(read_pages(io.BytesIO(triple.warc)))
    assert names(alone) == [spec.name for spec in MIXED]
    page = next(pages(alone))
    assert (page.title, page.text, page.charset) == ("Title of a", "Title of a\nBody of a", "UTF-8")
    assert set(page.offsets) == {WARC}
    assert [page.text for page in pages(alone)] == [page.text for page in pages(triple.read())]
    with_text = list(read_pages(io.BytesIO(triple.warc), wet=io.BytesIO(triple.wet)))
    assert [page.text for page in pages(with_text)] == [page.text for page in pages(triple.read())]


def test_files_compressed_as_a_whole_are_joined_too() -> None:
    plain = make_plain(MIXED)
    result = Triple(*(gzip.compress(plain.of(kind)) for kind in (WARC, WAT, WET))).read()
    assert names(result) == [spec.name for spec in MIXED]
    assert [page.text for page in pages(result)] == [page.text for page in pages(plain.read())]


def test_descriptions_and_texts_in_another_order_find_their_pages() -> None:
    specs = [Spec(str(number)) for number in range(20)]
    triple = make_triple(specs)
    shuffled = triple
    for kind in (WAT, WET):
        pieces = [triple.of(kind)[start:end] for name in triple.places for start, end in triple.places[name][kind]]
        shuffled = shuffled.replacing(kind, b"".join(reversed(pieces)))
    result = shuffled.read()
    assert names(result) == names(triple.read())
    assert [page.text for page in pages(result)] == [page.text for page in pages(triple.read())]
    for number, page in enumerate(pages(result)):
        rest = list(pages(shuffled.resumed(page.resume)))
        assert [later.text for later in rest] == [later.text for later in pages(result)][number + 1 :]


def test_text_about_nothing_is_an_orphan() -> None:
    whole = make_triple([Spec("a"), Spec("x"), Spec("b")])
    without = make_triple([Spec("a"), Spec("b")])
    result = Triple(without.warc, without.wat, whole.wet).read()
    assert names(result) == ["a", "b"]
    (orphan,) = errors(result)
    assert (orphan.reason, orphan.file_type, orphan.target_uri) == ("orphan", WET, "https://example.org/x")
    assert [(orphan.start, orphan.end)] == whole.places["x"][WET]


def test_a_second_text_about_one_page_is_a_duplicate() -> None:
    triple = make_triple([Spec("a"), Spec("b")])
    ((start, end),) = triple.places["b"][WET]
    result = triple.replacing(WET, triple.wet[:end] + triple.wet[start:end]).read()
    assert names(result) == ["a", "b"]
    assert [error.reason for error in errors(result)] == ["orphan"]


def test_a_text_with_the_id_of_one_page_and_the_uri_of_another_is_not_given_to_either() -> None:
    writer = Writer()
    writer.begin()
    writer.page(Spec("a", text=None), 0)
    writer._text(Spec("a", uri="https://evil.example/"), records.CaptureEvent(uri="", date=CRAWL))
    (error,) = writer.triple().read()
    assert not isinstance(error, Page)
    assert error.reason == "uri_mismatch"
    assert error.page
    assert error.page.text is None


def test_a_record_that_the_wat_file_does_not_describe_makes_an_error_with_the_page_in_it() -> None:
    triple = make_triple([Spec("a"), Spec("b"), Spec("c")])
    start, end = triple.places["b"][WAT][1]
    result = triple.replacing(WAT, triple.wat[:start] + triple.wat[end:]).read()
    assert names(result) == ["a", "c"]
    (error,) = errors(result)
    assert (error.reason, error.target_uri) == ("missing_wat", "https://example.org/b")
    assert error.page
    assert error.page.text == "Title of b\nBody of b"


# --- other crawlers ---------------------------------------------------------------------------------------------------


def fields(
    kind: str, name: str, *, uri: str = "https://e.org/", minute: int = 0, second: int = 0, **ids: str
) -> list[tuple[str, str]]:
    return [
        ("WARC-Type", kind),
        ("WARC-Record-ID", record_id(name)),
        ("WARC-Date", f"2024-07-12T10:{minute:02}:{second:02}Z"),
        ("WARC-Target-URI", uri),
        *((f"WARC-{key.replace('_', '-')}", record_id(value)) for key, value in ids.items()),
        ("Content-Length", "1"),
    ]


def record(kind: str, name: str, **others: Any) -> bytes:
    return compress_record(Headers(fields(kind, name, **others)), b"x")


def grouped(*stored: bytes) -> list[tuple[str | None, ...] | str]:
    result = list(read_pages(io.BytesIO(b"".join(stored))))
    return [
        tuple(part and part.record_id and part.record_id[10:-1] for part in (item.request, item.capture, item.metadata))
        if isinstance(item, Page)
        else item.reason
        for item in result
    ]


def test_a_request_may_come_after_its_response() -> None:
    stored = [
        record("response", "r1"),
        record("request", "q1", Concurrent_To="r1"),
        record("metadata", "m1", Concurrent_To="r1"),
        record("response", "r2"),
        record("request", "q2", Concurrent_To="r2"),
    ]
    assert grouped(*stored) == [("q1", "r1", "m1"), ("q2", "r2", None)]


def test_damage_of_which_the_beginning_is_known_may_follow_damage_of_which_nothing_is() -> None:
    content = b"<p>" * 1000
    broken = compress_record(Headers([*fields("resource", "r1")[:-1], ("Content-Length", str(len(content)))]), content)
    broken = broken[:-8] + bytes(4) + broken[-4:]  # another CRC
    garbage = broken[:10] + b"\xff" * 30
    stored = [garbage, record("warcinfo", "w"), broken, record("response", "r2", uri="https://e.org/2")]
    assert grouped(*stored) == ["bad_gzip", "bad_crc", (None, "r2", None)]


def test_without_ids_neighbours_of_one_uri_and_time_are_one_page() -> None:
    stored = [
        record("request", "q1"),
        record("response", "r1", second=1),
        record("metadata", "m1", second=1),
        record("request", "q2", uri="https://e.org/2"),
        record("response", "r2", uri="https://e.org/2", second=1),
    ]
    assert grouped(*stored) == [("q1", "r1", "m1"), ("q2", "r2", None)]


def test_without_ids_another_uri_or_another_time_is_another_page() -> None:
    assert grouped(record("request", "q1"), record("response", "r1", uri="https://e.org/2")) == [
        "orphan",
        (None, "r1", None),
    ]
    assert grouped(record("response", "r1"), record("metadata", "m1", minute=2)) == [(None, "r1", None), "orphan"]


def test_an_orphan_metadata_record_is_told_and_not_put_to_the_page_before_it() -> None:
    stored = [record("response", "r1"), record("metadata", "m9", Concurrent_To="r9"), record("response", "r2")]
    assert grouped(*stored) == [(None, "r1", None), "orphan", (None, "r2", None)]


def test_a_revisit_in_the_middle_is_a_page_with_its_metadata() -> None:
    stored = [
        record("request", "q1"),
        record("response", "r1", Concurrent_To="q1"),
        record("request", "q2"),
        record("revisit", "r2", Concurrent_To="q2", Refers_To="q1"),
        record("metadata", "m2", Concurrent_To="r2"),
        record("request", "q3"),
        record("response", "r3", Concurrent_To="q3"),
    ]
    assert grouped(*stored) == [("q1", "r1", None), ("q2", "r2", "m2"), ("q3", "r3", None)]


def test_records_that_pages_are_not_made_of_are_told() -> None:
    stored = [record("response", "r1"), record("continuation", "c1"), record("conversion", "v1"), record("odd", "o1")]
    untyped = record("", "u1")
    assert grouped(*stored, untyped) == [(None, "r1", None), *["unexpected_record"] * 4]


def test_names_of_fields_may_have_any_case() -> None:
    lower = [
        compress_record(Headers((name.lower(), value) for name, value in pairs), b"x")
        for pairs in (
            fields("request", "q1"),
            fields("response", "r1", Concurrent_To="q1"),
            fields("metadata", "m1", Concurrent_To="r1"),
        )
    ]
    assert grouped(*lower) == [("q1", "r1", "m1")]


def test_a_text_longer_than_the_limit_makes_an_error_and_not_half_a_text() -> None:
    triple = make_triple([Spec("a"), Spec("long", text="word " * 1000), Spec("b")])
    sources = (io.BytesIO(triple.of(kind)) for kind in (WARC, WAT, WET))
    result = list(read_pages(*sources, limits=WarcLimits(block=4000)))
    assert names(result) == ["a", "b"]
    assert [error.reason for error in errors(result)] == ["too_large"]


def test_a_digest_that_does_not_fit_is_found_in_uncompressed_files() -> None:
    triple = make_triple([Spec("a"), Spec("b")], encode=encode_record)
    result = triple.replacing(WARC, triple.warc.replace(b"Body of a", b"Body of A")).read()
    assert names(result) == ["b"]
    assert [error.reason for error in errors(result)] == ["digest_mismatch"]
