"""What comes out of joined files: pages, and error documents in place of pages that are not whole."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec

from webmill.errors import BadInput
from webmill.formats.html.page import HtmlPage, read_html, read_html_text
from webmill.formats.languages import DetectedLanguages
from webmill.formats.lenient_json import build_object
from webmill.formats.warc import wet as wet_format
from webmill.formats.warc.fields import MetadataFields, parse_warc_fields
from webmill.formats.warc.http_records import HttpRequest, HttpResponse, is_html, read_request, read_response
from webmill.formats.warc.typed_records import FileType, TypedRecord, read_typed_record
from webmill.formats.warc.wat import (
    WatDescription,
    WatHead,
    WatHtml,
    WatLink,
    WatMeta,
    WatScript,
    read_wat,
    read_wat_title,
)
from webmill.model import Record

Offsets = Mapping[FileType, tuple[int, int]]
Positions = Mapping[FileType, int]


class WatRecords(msgspec.Struct, frozen=True):
    """The WAT records of a page, by what they describe."""

    request: Record | None = None
    capture: Record | None = None
    metadata: Record | None = None


class Page(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One capture of one URL, with all that the three files say about it.

    `offsets` has the byte range `[start, end)` of the page's records for every file that was read; an empty range where
    a file has none. Reading on from `resume` gives exactly the pages that follow this one. `filename` is the WARC
    file's, as whoever opened it calls it.

    What is derived is decoded when it is asked for. A WAT record that holds no JSON is BadInput then; so is a page too
    long to be read for itself.
    """

    request: Record | None = None
    capture: Record  # a response, revisit or resource
    metadata: Record | None = None
    wat: WatRecords = WatRecords()
    wet: Record | None = None
    offsets: Offsets
    resume: Positions
    filename: str = ""

    @property
    def record_id(self) -> str | None:
        return self.capture.record_id

    @property
    def target_uri(self) -> str | None:
        return self.capture.target_uri

    @property
    def date(self) -> str | None:
        return self.capture.date

    @cached_property
    def typed_capture(self) -> TypedRecord:
        return read_typed_record(self.capture)

    @cached_property
    def http_request(self) -> HttpRequest | None:
        return read_request(self.request.content) if self.request else None

    @cached_property
    def http(self) -> HttpResponse | None:
        """Of a response or revisit. A resource has no head: its content is the payload."""
        return None if self.capture.type == "resource" else read_response(self.capture.content)

    @cached_property
    def findings(self) -> MetadataFields | None:
        """What the crawler noted: from the metadata record, or else from its description in the WAT file."""
        if self.metadata:
            return MetadataFields(parse_warc_fields(self.metadata.content))
        return read_wat(self.wat.metadata.content).findings if self.wat.metadata else None

    @cached_property
    def description(self) -> WatDescription | None:
        """All that the WAT file says about the capture."""
        return read_wat(self.wat.capture.content) if self.wat.capture else None

    @cached_property
    def html(self) -> WatHtml | None:
        """Title, metas, links: from the WAT file, or from the page itself when no WAT file was read."""
        if FileType.WAT in self.offsets:
            return self.description.html if self.description else None
        return read_own_html(self.capture, self.http) if self.http else None

    @cached_property
    def title(self) -> str | None:
        if self.wat.capture:
            return read_wat_title(self.wat.capture.content)  # without decoding the rest
        return self.html.head.title if self.html else None

    @property
    def metas(self) -> tuple[WatMeta, ...]:
        return self.html.head.metas if self.html else ()

    @property
    def links(self) -> tuple[WatLink, ...]:
        """Links of the body; those of the head (icon, canonical) are in `html.head.links`."""
        return self.html.links if self.html else ()

    @property
    def languages(self) -> DetectedLanguages | None:
        return self.findings.languages if self.findings else None

    @property
    def charset(self) -> str | None:
        """As the crawler detected it."""
        return self.findings.charset if self.findings else None

    @cached_property
    def text(self) -> str | None:
        """The WET file's text for this page, if it has one; the page's own text when no WET file was read."""
        if FileType.WET in self.offsets:
            return wet_format.read_text(self.wet) if self.wet else None
        return read_own_text(self.capture, self.http) if self.http else None


class Flaw(msgspec.Struct, frozen=True):
    """What is wrong, and where the raw bytes lie: `[start, end)` of the file of this type.

    Reasons are those of `model.Damage`, and:

    | reason | meaning |
    |---|---|
    | missing_record | another record says that there is one, and it is not there; the range is where it should be |
    | missing_wat | the WAT file has no description of a record |
    | missing_wet | the WET file ends, or has lost records, before the text of this page |
    | orphan | the record belongs to no page that was found |
    | unexpected_record | a record of a type that pages are not made of |
    | duplicate | a second record about the same record |
    | uri_mismatch | the record ids fit, the target URIs do not |
    | digest_mismatch | the content of an uncompressed record does not have its digest |
    """

    file_type: FileType
    start: int
    end: int
    reason: str
    message: str


class ErrorDocument(msgspec.Struct, frozen=True, kw_only=True):
    """In place of a page that is not whole, or for bytes that belong to no page.

    `page` is what could be read of it, when its capture could. `offsets` and `resume` are as in Page.
    """

    flaws: tuple[Flaw, ...]  # at least one, the gravest first
    target_uri: str | None = None
    record_id: str | None = None
    page: Page | None = None
    offsets: Offsets
    resume: Positions

    @property
    def file_type(self) -> FileType:
        return self.flaws[0].file_type

    @property
    def start(self) -> int:
        return self.flaws[0].start

    @property
    def end(self) -> int:
        return self.flaws[0].end

    @property
    def reason(self) -> str:
        return self.flaws[0].reason

    @property
    def message(self) -> str:
        return self.flaws[0].message

    @property
    def document_kind(self) -> str:
        """WARC_ERROR, WAT_ERROR or WET_ERROR."""
        return f"{self.file_type}_ERROR"


# --- what Common Crawl's extractor would say, where the WAT or WET file is not at hand or has lost it


def read_own_html(capture: Record, http: HttpResponse) -> WatHtml | None:
    """Title, metas and links of the page itself. Raises BadInput for one that is too long."""
    return _as_metadata(read_html(http.text.text)) if _is_page(capture, http) else None


def read_own_text(capture: Record, http: HttpResponse) -> str | None:
    """The page's plain text, None when there is none. Raises BadInput for a page that is too long."""
    return (read_html_text(http.text.text).text or None) if _is_page(capture, http) else None


def _is_page(capture: Record, http: HttpResponse) -> bool:
    return capture.type == "response" and is_html(capture, http)


def expects_text(capture: Record) -> bool:
    """Should there be a WET record?"""
    try:
        return read_own_text(capture, read_response(capture.content)) is not None
    except BadInput:
        return True


def _as_metadata(page: HtmlPage) -> WatHtml:
    head = WatHead(
        title=page.title,
        base=page.base,
        metas=tuple(build_object(WatMeta, msgspec.to_builtins(meta)) for meta in page.metas),
        links=tuple(build_object(WatLink, msgspec.to_builtins(link)) for link in page.head_links),
        scripts=tuple(build_object(WatScript, msgspec.to_builtins(script)) for script in page.scripts),
    )
    return WatHtml(head=head, links=tuple(build_object(WatLink, msgspec.to_builtins(link)) for link in page.links))
