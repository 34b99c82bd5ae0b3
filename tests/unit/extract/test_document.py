"""Document: all that is known of a page, typed."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from tests.unit.extract.samples import URL, conversion, description, full, metadata, page, record, response
from webmill.errors import BadInput
from webmill.extract.document import Document, DocumentLink, make_document

HTML = (
    b"<html><head><title>From HTML</title><base href='http://c.example/x/'><meta name=description content=D>"
    b"<link rel=canonical href=y></head><body>Some <b>text</b><a href=z>there</a>"
)


def test_a_page_with_everything() -> None:
    assert make_document(msgspec.structs.replace(full(), filename="crawl/x.warc.gz")) == Document(
        id="<urn:uuid:1>",
        url=URL,
        date=datetime(2024, 7, 12, 10, 0, 2, tzinfo=UTC),
        type="response",
        status=200,
        mime="text/html",
        mime_detected="text/html",
        charset="UTF-8",
        digest="sha1:AAAA",
        title="A title",
        description="What it is about",
        keywords="one, two",
        canonical="http://a.example/page",
        icon="http://a.example/dir/icon.png",
        site_name="A Site",
        language="deu",
        languages=("deu", "eng"),
        language_reliable=True,
        extractor="wet",
        text="Grüße\n",
        links=(
            DocumentLink("http://a.example/next", "Next", "nofollow", "A@/href"),
            DocumentLink("http://b.example/i.png", None, None, "IMG@/src"),
        ),
        warc_filename="crawl/x.warc.gz",
        warc_offset=100,
        warc_length=len(full().capture.content) + 50,
    )


def test_it_reads_back_from_json() -> None:
    document = make_document(full())
    assert msgspec.json.decode(msgspec.json.encode(document), type=Document) == document


def test_without_wat_and_wet_the_html_tells() -> None:
    document = make_document(page(response(body=HTML), files="WARC"))
    assert document.title == "From HTML"
    assert document.description == "D"
    assert document.canonical == "http://c.example/x/y"
    assert document.links == (DocumentLink("http://c.example/x/z", "there", None, "A@/href"),)
    assert document.extractor == "plain"
    assert document.text is not None
    assert "Some text" in document.text


def test_the_text_of_html_can_be_asked_for_where_there_is_a_wet_file() -> None:
    asked = page(response(body=HTML), wat=description(), wet=conversion())
    assert "Some text" in (make_document(asked, extractor="plain").text or "")
    assert make_document(asked, extractor="none").text is None
    assert make_document(asked, extractor="none").extractor is None


def test_the_text_is_not_that_of_another_page() -> None:
    """The reference gave a page without text the text of the next one."""
    assert make_document(page(wat=description())).text is None


def test_what_is_no_html_is_not_parsed() -> None:
    capture = response(http=b"Content-Type: text/html\r\n", body=HTML)
    headers = capture.headers.without("WARC-Identified-Payload-Type").adding(
        ("WARC-Identified-Payload-Type", "application/pdf")
    )
    document = make_document(page(record(headers.pairs, capture.content), files="WARC"))
    assert document.title is None
    assert document.text is None
    assert document.mime_detected == "application/pdf"


def test_the_language_is_that_of_cld2_where_the_wet_file_says_nothing() -> None:
    document = make_document(page(wat=description(), wet=conversion(languages=""), meta=metadata()))
    assert document.languages == ("deu",)


def test_a_redirect_says_where_to() -> None:
    capture = response(status=b"301 Moved", http=b"Location: ../there\r\n", body=b"")
    assert make_document(page(capture)).redirect == "http://a.example/there"


def test_a_resource_has_no_status() -> None:
    capture = record([("WARC-Type", "resource"), ("WARC-Target-URI", URL), ("Content-Type", "image/png")], b"PNG")
    document = make_document(msgspec.structs.replace(page(capture, files="WARC"), filename="f"))
    assert (document.status, document.mime, document.type, document.id) == (None, "image/png", "resource", "f#100")


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        (b"Fri, 12 Jul 2024 12:00:00 +0200", datetime(2024, 7, 12, 10, tzinfo=UTC)),
        (b"Fri, 12 Jul 2024 12:00:00 GMT", datetime(2024, 7, 12, 12, tzinfo=UTC)),
        (b"Fri, 12 Jul 2024 12:00:00", datetime(2024, 7, 12, 12, tzinfo=UTC)),
        (b"yesterday", None),
        (b"", None),
        (b"Fri, 99 Jul 2024 12:00:00 GMT", None),
        (b"Fri, 31 Dec 9999 23:00:00 -2300", None),
        (b"9" * 400, None),
    ],
)
def test_dates_of_servers_are_read_or_left_out(date: bytes, expected: datetime | None) -> None:
    assert make_document(page(response(http=b"Last-Modified: " + date + b"\r\n"))).last_modified == expected


def test_a_description_that_is_no_json_is_bad_input() -> None:
    with pytest.raises(BadInput) as caught:
        make_document(page(wat=record([("WARC-Type", "metadata")], b"{")))
    assert caught.value.reason == "bad_json"


def test_half_characters_anywhere_do_not_keep_a_document_from_being_written() -> None:
    head = {"Title": "\ud83d", "Metas": [{"name": "description", "content": "x\udc00"}]}
    links = [{"path": "A@/href", "url": "/\ud83d", "text": "\ud83d"}]
    document = make_document(page(wat=description(head, links)))
    assert msgspec.json.decode(msgspec.json.encode(document), type=Document) == document
