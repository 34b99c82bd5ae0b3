"""A capture as the bytes of its records: request, response or revisit, metadata, each in a gzip member of its own.

The HTTP messages are stored as they came over the wire, chunked and compressed if they were so: that is the evidence,
and the payload digest is over it. (Common Crawl stores bodies decoded and rewrites the fields that speak of it.)
"""

from __future__ import annotations

import uuid
from datetime import datetime

import msgspec

from webmill import __version__
from webmill.archive.identify import identify_media_type
from webmill.archive.language_detection import LanguageDetector
from webmill.archive.metadata_fields import PAGES, CaptureFacts, escape_controls, metadata_fields
from webmill.errors import BadInput, Misconfigured
from webmill.formats.http import parse_response_head
from webmill.formats.http.head import end_of_head
from webmill.formats.warc import record_headers as records
from webmill.formats.warc.capture import Capture
from webmill.formats.warc.digest import compute
from webmill.formats.warc.writer import compress_record
from webmill.model import Headers

CONFORMS_TO = "https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"


class WarcinfoDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What each file's warcinfo says of who made it; what is empty is left out."""

    software: str = f"webmill/{__version__}"
    publisher: str = ""
    description: str = ""
    operator: str = ""
    hostname: str = ""
    robots: str = "RFC 9309"


class EncodedCapture(msgspec.Struct, frozen=True):
    """All records of a capture, and where in `data` its response or revisit stands."""

    data: bytes
    start: int
    length: int
    record_id: str
    digest: str


def encode_warcinfo_fields(software: WarcinfoDetails, *, crawl: str) -> bytes:
    """The content of a warcinfo record. `Misconfigured` when a value has a line break."""
    fields = [
        ("isPartOf", crawl),
        ("publisher", software.publisher),
        ("description", software.description),
        ("operator", software.operator),
        ("hostname", software.hostname),
        ("software", software.software),
        ("robots", software.robots),
        ("format", "WARC File Format 1.1"),
        ("conformsTo", CONFORMS_TO),
    ]
    try:
        return records.encode_warc_fields((name, value) for name, value in fields if value)
    except (BadInput, UnicodeEncodeError) as error:
        raise Misconfigured(f"a field of the warcinfo record is no line of text: {error}") from error


def encode_warcinfo(content: bytes, *, record_id: str, date: datetime, filename: str) -> bytes:
    headers = records.warcinfo_headers(
        records.describe_block(content), record_id=record_id, date=date, filename=filename
    )
    return compress_record(headers, content)


def encode_capture(capture: Capture, *, warcinfo_id: str, detect: LanguageDetector | None) -> EncodedCapture:
    """BadInput when a value that the crawler itself made would break a header; the web's values are escaped."""
    exchange = capture.exchange
    visit = records.CaptureEvent(
        uri=escape_controls(exchange.url),
        date=exchange.date,
        warcinfo_id=warcinfo_id,
        ip=exchange.ip,
        protocols=exchange.protocols,
        cipher_suites=exchange.cipher_suites,
    )
    answer = capture.headers or _answer_fields(exchange.response)
    identified = (
        identify_media_type(capture.payload, answer.get("Content-Type")) if capture.kind == "response" else None
    )
    request_id, record_id = new_record_id(), new_record_id()
    headers, content, digest = _answer(
        capture, visit, record_id=record_id, concurrent_to=request_id, identified=identified
    )
    asked = compress_record(
        records.request_headers(visit, _unsigned(exchange.request), record_id=request_id), exchange.request
    )
    answered = compress_record(headers, content)
    subject = CaptureFacts(
        url=exchange.url,
        seconds=exchange.seconds,
        page=capture.payload if identified in PAGES else b"",
        content_type=answer.get("Content-Type"),
        content_language=answer.get("Content-Language"),
    )
    # Languages are for pages that are published: Common Crawl has none for error pages.
    fields = metadata_fields(subject, detect=detect if capture.subset == "warc" else None, extra=capture.extra)
    noted = records.encode_warc_fields(fields)
    about = records.metadata_headers(visit, _unsigned(noted), record_id=new_record_id(), concurrent_to=record_id)
    data = b"".join((asked, answered, compress_record(about, noted)))
    return EncodedCapture(data, len(asked), len(answered), record_id, digest)


def _answer(
    capture: Capture, visit: records.CaptureEvent, *, record_id: str, concurrent_to: str, identified: str | None
) -> tuple[Headers, bytes, str]:
    """Header and content of the record that an index points to, and the payload's digest: "" where there is none."""
    response = capture.exchange.response
    original = capture.original or records.OriginalCapture()
    begin = end_of_head(response) or len(response)
    if capture.kind == "not_modified":
        head = response[:begin]
        headers = records.not_modified_headers(
            visit, records.describe_block(head), record_id=record_id, original=original, concurrent_to=concurrent_to
        )
        return headers, head, ""
    digest = capture.digest or compute(memoryview(response)[begin:])
    if capture.kind == "response":
        headers = records.response_headers(
            visit,
            records.BlockInfo(length=len(response), digest=compute(response), payload_digest=digest),
            record_id=record_id,
            concurrent_to=concurrent_to,
            truncated=capture.exchange.truncated,
            payload_type=identified,
        )
        return headers, response, digest
    head = response[:begin]
    headers = records.identical_headers(
        visit,
        records.describe_block(head),
        record_id=record_id,
        original=original,
        payload_digest=digest,
        concurrent_to=concurrent_to,
    )
    return headers, head, digest


def _unsigned(content: bytes) -> records.BlockInfo:
    """Requests and notes have no digest, as Common Crawl's."""
    return records.BlockInfo(length=len(content), digest="")


def _answer_fields(response: bytes) -> Headers:
    """Empty for a head that has no meaning: its bytes are stored all the same."""
    try:
        return parse_response_head(response[: end_of_head(response) or len(response)]).headers
    except BadInput:
        return Headers()


def new_record_id() -> str:
    return f"<urn:uuid:{uuid.uuid4()}>"
