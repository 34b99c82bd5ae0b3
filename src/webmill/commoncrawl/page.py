"""The results of reading WARC, WAT and WET files together: pages, and error documents for damaged pages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec

from webmill.errors import BadInput
from webmill.formats.html.page import HtmlPage, read_html, read_html_text
from webmill.formats.languages import DetectedLanguages
from webmill.formats.lenient_json import build_object
from webmill.formats.preferences.notes import read_notes
from webmill.formats.preferences.statements import Statement
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
    """The WAT records of a page, by the record that each describes."""

    request: Record | None = None
    capture: Record | None = None
    metadata: Record | None = None


class Page(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One capture of one URL, with everything that the three files say about it.

    `offsets` has the byte range `[start, end)` of the page's records in every file that was read; an empty range if a
    file has none. Reading from `resume` gives exactly the pages after this one. `filename` is the name of the WARC
    file, as given by the caller.

    Properties are decoded on access. They raise BadInput for a WAT record that is not JSON, and for a page that is too
    long to be parsed.
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
        """The HTTP message of a response or revisit. A resource has none: its content is the payload."""
        return None if self.capture.type == "resource" else read_response(self.capture.content)

    @cached_property
    def findings(self) -> MetadataFields | None:
        """The crawler's notes: from the metadata record, or else from its description in the WAT file."""
        if self.metadata:
            return MetadataFields(parse_warc_fields(self.metadata.content))
        return read_wat(self.wat.metadata.content).findings if self.wat.metadata else None

    @cached_property
    def description(self) -> WatDescription | None:
        """The description of the capture in the WAT file."""
        return read_wat(self.wat.capture.content) if self.wat.capture else None

    @cached_property
    def html(self) -> WatHtml | None:
        """Title, metas and links: from the WAT file, or from the page itself if no WAT file was read."""
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
        """The links of the body; those of the head (icon, canonical) are in `html.head.links`."""
        return self.html.links if self.html else ()

    @property
    def languages(self) -> DetectedLanguages | None:
        return self.findings.languages if self.findings else None

    @property
    def is_rendered(self) -> bool:
        """Tell whether the crawler has shown the page in a browser: then another record has its document."""
        return bool(self.metadata and MetadataFields(parse_warc_fields(self.metadata.content)).rendered)

    @property
    def usage(self) -> tuple[Statement, ...]:
        """What the crawler noted of the site's usage preferences."""
        return tuple(read_notes(self.findings.fields.pairs)) if self.findings else ()

    @property
    def charset(self) -> str | None:
        """The charset that the crawler detected."""
        return self.findings.charset if self.findings else None

    @cached_property
    def text(self) -> str | None:
        """The text in the WET file, if it has one; the text of the page itself if no WET file was read."""
        if FileType.WET in self.offsets:
            return wet_format.read_text(self.wet) if self.wet else None
        return read_own_text(self.capture, self.http) if self.http else None


class Flaw(msgspec.Struct, frozen=True):
    """What is wrong, and the bytes `[start, end)` of the file where it is.

    Reasons are those of `model.Damage`, and:

    | reason | meaning |
    |---|---|
    | missing_record | another record refers to it, and it is missing; the range is where it should be |
    | missing_wat | the WAT file has no description of a record |
    | missing_wet | the WET file ends, or lost records, before the text of this page |
    | orphan | the record belongs to no page that was found |
    | unexpected_record | a record type that is not part of a page |
    | duplicate | a second record about the same record |
    | uri_mismatch | the record ids match, the target URIs do not |
    | digest_mismatch | the content of an uncompressed record does not have its digest |
    """

    file_type: FileType
    start: int
    end: int
    reason: str
    message: str


class ErrorDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Stands for an incomplete page, or for bytes that belong to no page.

    `page` has what could be read, if the capture could. `offsets` and `resume` are as in Page.
    """

    flaws: tuple[Flaw, ...]  # at least one, the most severe first
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


# --- what Common Crawl's extractor would write, if the WAT or WET file is missing or damaged


def read_own_html(capture: Record, http: HttpResponse) -> WatHtml | None:
    """Return title, metas and links of the page itself. Raise BadInput if it is too long."""
    return _as_metadata(read_html(http.text.text)) if _is_page(capture, http) else None


def read_own_text(capture: Record, http: HttpResponse) -> str | None:
    """Return the plain text of the page itself, None if there is none. Raise BadInput if it is too long."""
    return (read_html_text(http.text.text).text or None) if _is_page(capture, http) else None


def _is_page(capture: Record, http: HttpResponse) -> bool:
    return capture.type == "response" and is_html(capture, http)


def expects_text(capture: Record) -> bool:
    """Return whether the capture should have a WET record."""
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
