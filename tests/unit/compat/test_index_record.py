"""IndexRecord: the keys of reference 002 in their order, its faults gone, and back again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.extract.samples import URL, conversion, description, full, page, response
from webmill.commoncrawl.aligned import read_pages
from webmill.commoncrawl.page import Page
from webmill.compat.index_record import IndexRecord, LanguageShare, decode, encode, make_index_record
from webmill.errors import BadInput

KEYS = (
    "documentId, recordType, partitionKey, singleDoc, documentMetadata, url, title, description, keywords, icon, "
    "canonical, og_url, og_site_name, og_type, og_image, og_title, og_description, contentType, reliable, textBytes, "
    "languages, docTextContentLength, docText, charset"
)


def test_the_keys_are_those_of_the_reference_in_its_order() -> None:
    assert ", ".join(json.loads(encode(make_index_record(full())))) == KEYS


def test_all_keys_are_there_also_when_nothing_is_known() -> None:
    record = json.loads(encode(make_index_record(page(response(http=b"", body=b"")))))
    assert ", ".join(record) == KEYS
    assert record["title"] is None
    assert record["languages"] is None


def test_a_page_with_everything() -> None:
    assert json.loads(encode(make_index_record(full()))) == {
        "documentId": URL,
        "recordType": "IndexRecord",
        "partitionKey": URL,
        "singleDoc": True,
        "documentMetadata": {},
        "url": URL,
        "title": "A title",
        "description": "What it is about",
        "keywords": "one, two",
        "icon": "http://a.example/dir/icon.png",
        "canonical": "http://a.example/page",
        "og_url": "http://a.example/og",
        "og_site_name": "A Site",
        "og_type": "article",
        "og_image": "http://a.example/og.png",
        "og_title": "The last og title",
        "og_description": "og words",
        "contentType": "text/html",
        "reliable": True,
        "textBytes": 90,
        "languages": [{"score": 9.0, "language": "GERMAN", "textCovered": 0.99}],
        "docTextContentLength": 8,
        "docText": "Grüße\n",
        "charset": "UTF-8",
    }


def test_what_the_reference_left_empty_is_filled() -> None:
    record = make_index_record(full())
    assert record.description == "What it is about"
    assert record.canonical == "http://a.example/page"
    assert record.icon == "http://a.example/dir/icon.png"
    assert record.content_type == "text/html"


def test_the_content_type_of_the_server_stands_in_for_a_missing_meta() -> None:
    assert (
        make_index_record(page(response(http=b"Content-Type: Application/PDF\r\n"))).content_type == "application/pdf"
    )


def test_a_page_without_wet_text_has_none() -> None:
    record = make_index_record(page(wat=description()))
    assert record.doc_text is None
    assert record.doc_text_content_length is None


def test_an_icon_that_is_no_address_stays_as_written() -> None:
    head = {"Link": [{"url": "data:image/png;base64,AAAA", "rel": "icon"}]}
    assert make_index_record(page(wat=description(head))).icon == "data:image/png;base64,AAAA"


def test_half_characters_do_not_keep_a_record_from_being_written() -> None:
    record = make_index_record(page(wat=description({"Title": "\ud83d half"})))
    assert decode(encode(record)) == record
    assert record.title == "\ufffd half"


def test_it_reads_back_what_it_wrote() -> None:
    record = make_index_record(full())
    assert decode(encode(record)) == record
    assert encode(decode(encode(record))) == encode(record)


TEXT = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)


@settings(deadline=None)
@given(
    texts=st.fixed_dictionaries(dict.fromkeys(("title", "description", "keywords", "icon", "doc_text"), TEXT)),
    languages=st.none() | st.lists(st.builds(LanguageShare, NUMBER, st.text("AZ"), NUMBER)).map(tuple),
    reliable=st.none() | st.booleans(),
    count=st.none() | st.integers(0, 2**62),
)
def test_any_record_reads_back(
    texts: dict[str, str | None], languages: tuple[LanguageShare, ...] | None, reliable: bool | None, count: int | None
) -> None:
    record = IndexRecord(
        document_id="i", partition_key="p", url="u", languages=languages, reliable=reliable, text_bytes=count, **texts
    )
    assert decode(encode(record)) == record


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"{}", b'{"documentId":1}', b"\xff", b"[" * 5000])
def test_what_is_no_record_is_bad_input(line: bytes) -> None:
    with pytest.raises(BadInput) as caught:
        decode(line)
    assert caught.value.reason == "bad_json"


def test_a_truncated_line_is_bad_input() -> None:
    line = encode(make_index_record(page(wat=description(), wet=conversion("short"))))
    for end in range(len(line)):
        with pytest.raises(BadInput):
            decode(line[:end])


def test_all_pages_of_common_crawl_read_back(shared_data: Path) -> None:
    stem = shared_data / "triple" / "CC-MAIN-20240712094214-20240712124214-00000"
    names = (f"{stem}.warc.gz", f"{stem}.warc.wat.gz", f"{stem}.warc.wet.gz")
    with Path(names[0]).open("rb") as warc, Path(names[1]).open("rb") as wat, Path(names[2]).open("rb") as wet:
        records = [make_index_record(item) for item in read_pages(warc, wat, wet) if isinstance(item, Page)]
    assert [decode(encode(record)) for record in records] == records
    filled = {
        name: sum(getattr(record, name) is not None for record in records) for name in IndexRecord.__struct_fields__
    }
    assert len(records) == 1143
    assert filled["doc_text"] == 1137
    assert filled["content_type"] == 1143
    assert min(filled["description"], filled["canonical"], filled["icon"]) > 850
