"""What is a document, of captures as other people's archives have them."""

from __future__ import annotations

import pytest

from tests.unit.extract.samples import URL, conversion, description, page, record, response
from webmill.errors import BadInput
from webmill.extract.document import Document, Readers, make_document, make_readable
from webmill.extract.kinds import LeftOut, kind_of, kind_of_type
from webmill.model import Record


def answer(content_type: str, body: bytes, *, identified: str | None = None) -> Record:
    whole = response(http=f"Content-Type: {content_type}\r\n".encode(), body=body)
    headers = whole.headers.without("WARC-Identified-Payload-Type")
    if identified:
        headers = headers.adding(("WARC-Identified-Payload-Type", identified))
    return record(headers.without("Content-Length").pairs, whole.content)


def resource(content_type: str, content: bytes, *, url: str = URL) -> Record:
    return record([("WARC-Type", "resource"), ("WARC-Target-URI", url), ("Content-Type", content_type)], content)


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        ("text/html", "html"),
        ("application/xhtml+xml", "html"),
        ("text/plain", "text"),
        ("text/x-markdown", "text"),
        ("application/atom+xml", "feed"),
        ("application/rdf+xml", "xml"),
        ("application/ld+json", "json"),
        ("image/svg+xml", "image"),
        ("application/x-font-ttf", "font"),
        ("text/ecmascript", "script"),
        ("application/vnd.ms-excel", "other"),
        ("", "other"),
        ("text/\ud800", "other"),
    ],
)
def test_kinds(type_: str, kind: str) -> None:
    assert kind_of_type(type_) == kind


def test_what_the_crawler_found_counts_more_than_what_the_server_said() -> None:
    assert kind_of(page(answer("text/plain", b"\x89PNG", identified="image/png"))) == "image"
    assert kind_of(page(answer("Text/HTML; charset=x", b"<p>"))) == "html"
    assert kind_of(page(answer("image/png", b"<p>", identified="text/html"))) == "html"


def test_a_resource_is_read_as_its_record_says() -> None:
    made = make_readable(page(resource("text/html; charset=utf-8", b"<title>T</title><p>Words"), files="WARC"))
    assert isinstance(made, Document)
    assert (made.title, made.text, made.extractor, made.charset, made.type) == (
        "T",
        "T\nWords",
        "plain",
        "UTF-8",
        "resource",
    )


@pytest.mark.parametrize("url", ["dns:a.example", "urn:pageinfo:http://a.example/", "metadata://a/b"])
def test_what_a_crawler_notes_about_itself_is_no_document(url: str) -> None:
    assert make_readable(page(resource("text/plain", b"10.0.0.1", url=url), files="WARC")) == LeftOut("other")


def test_text_that_is_none_is_left_out() -> None:
    assert make_readable(page(answer("text/plain", b"MZ\0\0\1"), files="WARC")) == LeftOut("binary")


def test_a_text_without_end_is_bad_input() -> None:
    with pytest.raises(BadInput) as caught:
        make_readable(page(answer("text/plain", b"a" * (8 << 20 | 1)), files="WARC"))
    assert caught.value.reason == "parse_limit"


def test_where_the_wet_file_is_asked_nothing_else_is_read() -> None:
    text = answer("text/plain", b"Words")
    assert make_document(page(text, wat=description(), wet=conversion())).text == "Grüße\n"
    assert make_document(page(text, wat=description())).text is None
    assert make_readable(page(text, wat=description())) == LeftOut("text")
    assert make_document(page(text, wat=description()), extractor="plain").text == "Words\n"


def test_a_record_of_every_capture_has_text_where_there_is_some() -> None:
    assert make_document(page(answer("text/plain", b"Words"), files="WARC")).text == "Words\n"
    picture = make_document(page(answer("image/png", b"\x89PNG"), files="WARC"))
    assert (picture.text, picture.extractor, picture.mime) == (None, None, "image/png")
    assert make_document(page(answer("text/plain", b"Words"), files="WARC"), extractor="none").text is None


def test_the_detector_is_told_what_a_feed_says_of_its_language_and_asked_of_no_page() -> None:
    asked: list[tuple[str, str, str]] = []

    def detect(text: str, url: str, said: str) -> tuple[str, ...]:
        asked.append((text, url, said))
        return ("fra", "eng")

    feed = b'<feed xml:lang="fr-CA"><title>Mots</title></feed>'
    readers = Readers(detect=detect)
    made = make_document(page(answer("text/xml", feed), files="WARC"), readers=readers)
    assert (made.language, made.languages) == ("fra", ("fra", "eng"))
    make_document(page(answer("text/html", b"<p>Mots"), files="WARC"), readers=readers)
    assert asked == [("Mots\n", URL, "fr-CA")]


def test_a_revisit_of_a_picture_is_left_out_and_of_what_nobody_says_is_kept() -> None:
    def revisit(head: bytes) -> Record:
        headers = [
            ("WARC-Type", "revisit"),
            ("WARC-Target-URI", URL),
            ("WARC-Refers-To-Target-URI", "http://b.example/"),
        ]
        return record(headers, b"HTTP/1.1 304 Not Modified\r\n" + head + b"\r\n")

    assert make_readable(page(revisit(b"Content-Type: image/png\r\n"), files="WARC")) == LeftOut("image")
    for head in (b"", b"Content-Type: text/plain\r\n", b"Content-Type: text/html\r\n"):
        made = make_readable(page(revisit(head), files="WARC"))
        assert isinstance(made, Document)
        assert (made.type, made.text, made.refers_to) == ("revisit", None, "http://b.example/")
