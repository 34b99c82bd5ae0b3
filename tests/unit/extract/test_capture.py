"""One capture to its document, whichever way it came."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.extract.samples import URL, conversion, metadata, page, record, response
from webmill.commoncrawl.page import Page
from webmill.errors import BadInput, NotFound
from webmill.extract.capture import document_of, make_document
from webmill.extract.outcomes import OUTCOMES, REJECTED, failed_document, unread_document
from webmill.extract.recipe import CaptureInput, ExtractResult, Recipe, capture_input
from webmill.model import CaptureRef, Document, DocumentLink, Headers, Record

ARTICLE = (
    b"<html><head><title> From\n HTML </title><base href='http://c.example/x/'>"
    b"<meta name=Description content='D &amp; E'>"
    b"<meta property=og:site_name content=Site><meta name=keywords content='a, b'>"
    b"<meta name=author content='By Ada'><meta property=article:modified_time content=2024-05-02>"
    b"<link rel='shortcut icon' href=i.png>"
    b"<link rel=canonical href=y></head><body><nav>Menu</nav><article><p>Some <b>text</b> that is long enough to be an "
    b"article of its own, with commas, and with full stops. And it goes on for a while, as articles do.</p>"
    b"<a href=z>there</a></article></body></html>"
)
REF = CaptureRef(url=URL, filename="a/b.warc.gz", offset=100, length=0)
PLAIN = Recipe(extractor="plain")


def stored(capture: Record) -> bytes:
    """The record as a WARC file has it."""
    head = "".join(f"{name}: {value}\r\n" for name, value in capture.headers.pairs)
    return gzip.compress(f"WARC/1.0\r\n{head}\r\n".encode() + capture.content + b"\r\n\r\n", mtime=0)


def made(capture: Record, recipe: Recipe = PLAIN, **stated: object) -> ExtractResult:
    """Both ways, which give the same."""
    data = stored(capture)
    ref = msgspec.structs.replace(REF, length=len(data), url=capture.target_uri or "")
    selected = make_document(data, capture=CaptureInput(ref=ref, recipe=recipe, **stated))  # type: ignore[arg-type]
    whole = CaptureInput(ref=ref, recipe=recipe, version="WARC/1.0", headers=capture.headers.pairs, **stated)  # type: ignore[arg-type]
    assert make_document(capture.content, capture=whole) == selected
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(selected), type=ExtractResult) == selected
    return selected


def answer(content_type: str, body: bytes, *, identified: str | None = None, url: str = URL) -> Record:
    whole = response(http=f"Content-Type: {content_type}\r\n".encode() if content_type else b"", body=body)
    headers = Headers(
        (name, url if name == "WARC-Target-URI" else value)
        for name, value in whole.headers.pairs
        if name not in ("WARC-Identified-Payload-Type", "Content-Length")
    )
    if identified:
        headers = headers.with_added(("WARC-Identified-Payload-Type", identified))
    return record(headers.pairs, whole.content)


def resource(content_type: str, content: bytes, *, url: str = URL) -> Record:
    return record([("WARC-Type", "resource"), ("WARC-Target-URI", url), ("Content-Type", content_type)], content)


# --- what a page says -------------------------------------------------------------------------------------------------


def test_a_page_with_everything() -> None:
    capture = response(
        http=b"Content-Type: text/html\r\nLast-Modified: Fri, 12 Jul 2024 12:00:00 +0200\r\n", body=ARTICLE
    )
    data = stored(capture)
    document = made(capture, Recipe(extractor="plain", links=True)).document
    text = document.text or ""
    assert text.startswith("From HTML\nMenu")
    assert document == Document(
        id="<urn:uuid:1>",
        url=URL,
        urlkey="example,a)/dir/page",
        date=datetime(2024, 7, 12, 10, 0, 2, tzinfo=UTC),
        title="From HTML",
        text=text,
        text_chars=len(text),
        status=200,
        mime="text/html",
        mime_detected="text/html",
        charset="UTF-8",
        digest="sha1:AAAA",
        type="response",
        last_modified=datetime(2024, 7, 12, 10, tzinfo=UTC),
        extractor="plain",
        outcome="ok",
        description="D & E",
        keywords="a, b",
        canonical="http://c.example/x/y",
        icon="http://c.example/x/i.png",
        site_name="Site",
        author="Ada",
        modified=datetime(2024, 5, 2, tzinfo=UTC),
        links=(DocumentLink("http://c.example/x/z", "there", None, "A@/href"),),
        warc_filename="a/b.warc.gz",
        warc_offset=100,
        warc_length=len(data),
    )


def test_links_are_there_only_where_they_were_asked_for() -> None:
    assert made(response(body=ARTICLE)).document.links is None
    assert made(response(body=b"<p>none"), Recipe(extractor="none", links=True)).document.links == ()


@pytest.mark.parametrize("extractor", ["plain", "resiliparse", "trafilatura", "none"])
def test_what_a_page_says_of_itself_does_not_depend_on_the_extractor(extractor: str) -> None:
    if extractor in ("resiliparse", "trafilatura"):
        pytest.importorskip(extractor)
    document = made(response(body=ARTICLE), Recipe(extractor=extractor)).document
    assert (document.title, document.description, document.canonical) == ("From HTML", "D & E", "http://c.example/x/y")
    assert document.outcome == ("none" if extractor == "none" else "ok")
    assert document.extractor == (None if extractor == "none" else extractor)


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
    assert made(response(http=b"Last-Modified: " + date + b"\r\n")).document.last_modified == expected


def test_a_redirect_says_where_to() -> None:
    document = made(response(status=b"301 Moved", http=b"Location: ../there\r\n", body=b"")).document
    assert (document.redirect, document.status, document.outcome) == ("http://a.example/there", 301, "empty")


def test_a_record_without_an_id_is_known_by_its_place() -> None:
    document = made(resource("image/png", b"PNG")).document
    assert (document.id, document.status, document.mime, document.type) == (
        "a/b.warc.gz#100",
        None,
        "image/png",
        "resource",
    )


def test_a_digest_is_spelled_in_one_way_and_computed_where_the_record_has_none() -> None:
    bare = response(body=b"<p>Hello")
    headers = bare.headers.without("WARC-Payload-Digest").without("Content-Length")
    computed = made(record(headers.pairs, bare.content)).document.digest
    assert computed == made(resource("text/html", b"<p>Hello")).document.digest
    assert computed is not None
    assert computed.startswith("sha1:")
    unnamed = record(headers.with_added(("WARC-Payload-Digest", "AAAA")).pairs, bare.content)
    assert made(unnamed).document.digest == "sha1:AAAA"


def test_a_charset_is_that_by_which_the_text_was_decoded() -> None:
    document = made(answer("text/html; charset=latin1", "<p>Grüße".encode("latin-1"))).document
    assert (document.charset, document.text) == ("windows-1252", "Grüße")


def test_half_characters_anywhere_do_not_keep_a_document_from_being_written() -> None:
    body = b"<title>&#xD83D;</title><meta name=description content='x&#xDC00;'><p>&#xD83D;"
    document = made(response(body=body), Recipe(extractor="plain", links=True)).document
    assert msgspec.json.decode(msgspec.json.encode(document), type=Document) == document


# --- outcomes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capture", "outcome", "kind"),
    [
        (answer("text/html", b"<p>Words"), "ok", "html"),
        (answer("Text/HTML; charset=x", b"<p>Words"), "ok", "html"),
        (answer("image/png", b"<p>Words", identified="text/html"), "ok", "html"),
        (answer("text/html", b"<p>Words", identified="image/png"), "other_type", "image"),
        (answer("text/html", b""), "empty", "html"),
        (answer("text/html", b"<p> </p>"), "empty", "html"),
        (answer("text/plain", b"Words"), "ok", "text"),
        (answer("text/plain", b""), "empty", "text"),
        (answer("text/plain", b"MZ\0\0\1"), "other_type", "binary"),
        (answer("text/plain", b"\x89PNG", identified="image/png"), "other_type", "image"),
        (answer("text/xml", b"<feed><title>Mots</title></feed>"), "ok", "feed"),
        (answer("text/xml", b"<other/>"), "other_type", "xml"),
        (answer("application/json", b"{}"), "other_type", "json"),
        (answer("text/css", b"a{}"), "other_type", "css"),
        (answer("", b"Words"), "other_type", "other"),
        (answer("text/plain", b"User-agent: *", url="http://a.example/robots.txt"), "robots", "robots"),
        (answer("text/plain", b"a" * (8 << 20 | 1)), "parse_limit", "text"),
        (answer("text/html", b"a" * (8 << 20 | 1)), "parse_limit", "html"),
        (resource("text/html; charset=utf-8", b"<title>T</title><p>Words"), "ok", "html"),
        (resource("text/plain", b"10.0.0.1", url="dns:a.example"), "other_type", "other"),
        (resource("text/plain", b"{}", url="urn:pageinfo:http://a.example/"), "other_type", "other"),
        (record([("WARC-Type", "request"), ("WARC-Target-URI", URL)], b"GET /\r\n\r\n"), "not_response", "other"),
    ],
)  # fmt: skip
def test_outcomes(capture: Record, outcome: str, kind: str) -> None:
    found = made(capture)
    assert (found.document.outcome, found.kind) == (outcome, kind)
    assert (found.document.text is None) == (outcome not in ("ok", "empty"))
    assert outcome in {one.name for one in OUTCOMES}


def test_without_an_extractor_nothing_but_the_head_is_read() -> None:
    found = made(answer("application/pdf", b"%PDF-"), Recipe(extractor="none"))
    assert (found.document.outcome, found.document.text, found.kind) == ("none", None, "pdf")


def revisit(head: bytes) -> Record:
    headers = [("WARC-Type", "revisit"), ("WARC-Target-URI", URL), ("WARC-Refers-To-Target-URI", "http://b.example/")]
    return record(headers, b"HTTP/1.1 304 Not Modified\r\n" + head + b"\r\n")


def test_a_revisit_of_a_picture_has_no_text_either() -> None:
    found = made(revisit(b"Content-Type: image/png\r\n"))
    assert (found.document.outcome, found.document.type, found.kind) == ("other_type", "revisit", "image")


@pytest.mark.parametrize("type_", [b"Content-Type: text/plain\r\n", b"", b"Content-Type: text/html\r\n"])
def test_a_revisit_says_which_capture_has_its_content(type_: bytes) -> None:
    document = made(revisit(type_)).document
    assert (document.outcome, document.type, document.text, document.refers_to, document.status) == (
        "revisit",
        "revisit",
        None,
        "http://b.example/",
        304,
    )


def test_a_pdf_without_a_reader_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webmill.extract.body.find_spec", lambda _: None)
    document = made(answer("application/pdf", b"%PDF-")).document
    assert document.outcome == "other_type"
    assert document.error == "no reader for application/pdf: pip install 'webmill[pdf]'"


def test_a_broken_pdf_is_told_in_the_same_words_every_time() -> None:
    pytest.importorskip("pypdf")
    document = made(answer("application/pdf", b"%PDF-1.4 and no more")).document
    assert (document.outcome, document.error) == ("parse_error", "the parser failed on the page")


def test_of_a_union_the_document_names_the_extractor_whose_text_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    union = Recipe(extractor="union")
    assert made(response(body=ARTICLE), union).document.extractor == "trafilatura"
    monkeypatch.setattr("webmill.extract.extractors.by_trafilatura", lambda _: None)
    document = made(response(body=ARTICLE), union).document
    assert (document.extractor, document.outcome) == ("resiliparse", "ok")
    assert "long enough to be an article" in (document.text or "")


def test_an_extractor_that_fails_costs_its_page_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(kind: type[Exception]) -> object:
        def text_by(*_: object) -> str:
            raise kind("0x7f00")

        return text_by

    monkeypatch.setattr("webmill.extract.body.extract_text", fail(ZeroDivisionError))
    assert made(response()).document.error == "the parser failed on the page"
    monkeypatch.setattr("webmill.extract.body.extract_text", fail(RecursionError))
    assert made(response()).document.outcome == "parse_limit"


def test_a_body_that_is_not_whole_gives_its_text_and_says_so() -> None:
    packed = gzip.compress(b"<p>" + bytes(range(65, 91)) * 400)
    document = made(response(http=b"Content-Type: text/html\r\nContent-Encoding: gzip\r\n", body=packed[:-20])).document
    assert (document.outcome, document.error) == ("ok", "the body is incomplete: truncated")


def test_the_record_of_another_url_is_refused() -> None:
    capture = response()
    for url, is_right in ((URL, True), ("https://www.a.example/dir/page/", True), ("http://a.example/", False)):
        wanted = CaptureInput(ref=msgspec.structs.replace(REF, url=url), recipe=PLAIN)
        if is_right:
            assert make_document(stored(capture), capture=wanted).document.url == URL
        else:
            with pytest.raises(BadInput) as caught:
                make_document(stored(capture), capture=wanted)
            assert failed_document(wanted.ref, caught.value).outcome == "bad_record"


# --- languages --------------------------------------------------------------------------------------------------------

GERMAN = "Die Bäckerin sagt, dass gutes Brot vor allem Zeit und Wärme braucht, und der Bürgermeister sagt: Salz. " * 5


@pytest.mark.parametrize(
    "capture",
    [
        answer("text/html", f"<p>{GERMAN}".encode()),
        answer("text/plain", GERMAN.encode()),
        answer("text/xml", f"<rss><channel><item><title>{GERMAN}</title></item></channel></rss>".encode()),
    ],
    ids=["html", "text", "feed"],
)
def test_the_language_of_all_that_has_text_is_found(capture: Record) -> None:
    pytest.importorskip("pycld2")
    document = made(capture, Recipe(extractor="plain", detect=True), languages=("eng",)).document
    assert (document.language, document.languages) == ("deu", ("deu",))
    assert document.language_score
    assert 0.9 < document.language_score <= 1


def test_without_a_detector_the_languages_are_those_that_were_told() -> None:
    document = made(response(), PLAIN, languages=("deu", "eng")).document
    assert (document.language, document.languages, document.language_score) == ("deu", ("deu", "eng"), None)


def test_a_page_of_a_whole_file_tells_what_its_crawler_told() -> None:
    whole: Page = page(wet=conversion(), meta=metadata())
    assert capture_input(whole, recipe=PLAIN).languages == ("deu", "eng")
    reported = page(wet=conversion(languages=""), meta=metadata())
    assert document_of(reported, recipe=PLAIN).languages == ("deu",)
    assert document_of(whole, recipe=Recipe(extractor="wet")).text == "Grüße\n"


def test_a_page_of_a_whole_file_says_where_it_is_as_an_index_does() -> None:
    ref = capture_input(page(), recipe=PLAIN).ref
    assert (ref.url, ref.timestamp, ref.digest, ref.offset) == (URL, "20240712100002", "sha1:AAAA", 100)
    assert failed_document(ref, BadInput("", reason="parse_crash")).date == datetime(2024, 7, 12, 10, 0, 2, tzinfo=UTC)


def test_a_function_of_yours_is_given_the_wet_text_where_there_is_some() -> None:
    assert document_of(page(wet=conversion())).text == "Grüße\n"
    assert document_of(page()).text == "Hello"


def test_the_text_is_not_that_of_another_page() -> None:
    """The reference gave a page without text the text of the next one."""
    document = document_of(page(), recipe=Recipe(extractor="wet"))
    assert (document.text, document.outcome) == ("", "empty")


# --- captures that cannot be read -------------------------------------------------------------------------------------


def test_the_row_of_a_capture_that_could_not_be_read_says_where_it_should_be() -> None:
    ref = CaptureRef(url=URL, timestamp="20240712100002", filename="f", offset=7, length=9, digest="AAAA")
    assert failed_document(ref, NotFound("gone")) == Document(
        id="f#7",
        url=URL,
        urlkey="example,a)/dir/page",
        date=datetime(2024, 7, 12, 10, 0, 2, tzinfo=UTC),
        digest="sha1:AAAA",
        outcome="not_found",
        error="the WARC file is not there",
        warc_filename="f",
        warc_offset=7,
        warc_length=9,
    )


@pytest.mark.parametrize(
    ("reason", "outcome", "error"),
    [
        ("parse_limit", "parse_limit", "the page passed a limit of its parser"),
        ("parse_crash", "parse_crash", "the page killed its parser"),
        ("parse_error", "parse_error", "the parser failed on the page"),
        ("bad_range", "bad_place", "bad_range: so it was"),
        ("truncated_member", "bad_record", "truncated_member: so it was"),
    ],
)
def test_failures_have_the_same_words_every_time(reason: str, outcome: str, error: str) -> None:
    row = failed_document(REF, BadInput("so it was", reason=reason))
    assert (row.outcome, row.error) == (outcome, error)
    assert outcome in REJECTED


def test_odd_values_of_an_index_do_not_keep_a_row_from_being_written() -> None:
    ref = CaptureRef(url="http://\ud800/", timestamp="20249999999999", filename="\udc00", offset=0, length=0)
    row = unread_document(ref, outcome="bad_item", error="\ud800")
    assert msgspec.json.decode(msgspec.json.encode(row), type=Document) == row
    assert row.date is None


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_cut_anywhere_a_record_gives_a_document_or_is_refused(data: st.DataObject) -> None:
    whole = stored(response(body=ARTICLE))
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    assert outcome_of(cut) == ("ok" if cut == whole else "bad_record")


def outcome_of(data: bytes) -> str:
    try:
        return make_document(data, capture=CaptureInput(ref=REF, recipe=PLAIN)).document.outcome
    except BadInput as error:
        return failed_document(REF, error).outcome


@given(st.integers(0, len(ARTICLE)), st.sampled_from(["text/html", "text/plain", "text/xml", "application/pdf"]))
@settings(max_examples=100, deadline=None)
def test_cut_anywhere_a_body_gives_an_outcome(at: int, content_type: str) -> None:
    assert made(answer(content_type, ARTICLE[:at])).document.outcome in {one.name for one in OUTCOMES}


@given(st.binary(max_size=300), st.sampled_from(["text/html", "text/plain", "application/rss+xml", "application/pdf"]))
@settings(max_examples=200, deadline=None)
def test_any_bytes_give_an_outcome(body: bytes, content_type: str) -> None:
    assert made(answer(content_type, body)).document.outcome in {one.name for one in OUTCOMES}
