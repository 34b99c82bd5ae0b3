"""Encode a capture as its WARC records: request, response or revisit, metadata, each in its own gzip member.

HTTP messages are stored as sent over the wire, chunked and compressed as they were: that is the evidence, and the
payload digest covers it. (Common Crawl stores decoded bodies and rewrites the headers about the coding.)

The metadata record has the fields of Common Crawl's files:

    fetchTimeMs: 312
    charset-detected: UTF-8
    languages-cld2: {"reliable":true,"text-bytes":1800,"languages":[{"code":"de",…}]}

What is found in a payload comes from `payloads.py`.
"""

from __future__ import annotations

import re
import uuid
from datetime import datetime

import msgspec

from webmill import __version__
from webmill.archive.payloads import describe_payloads
from webmill.errors import BadInput, Misconfigured
from webmill.formats.http.head import end_of_head
from webmill.formats.warc import record_headers as records
from webmill.formats.warc.capture import Capture, PageRecord, PayloadDescription
from webmill.formats.warc.digest import compute
from webmill.formats.warc.writer import compress_record
from webmill.model import Headers

CONFORMS_TO = "https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"

_UNFIT = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


class WarcinfoDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What the warcinfo record of each file says about the crawl; empty values are left out."""

    software: str = f"webmill/{__version__}"
    publisher: str = ""
    description: str = ""
    operator: str = ""
    hostname: str = ""
    robots: str = "RFC 9309"


class EncodedCapture(msgspec.Struct, frozen=True):
    """The records of a capture as bytes, and where in `data` its response or revisit is."""

    data: bytes
    start: int
    length: int
    record_id: str
    digest: str


def encode_warcinfo_fields(software: WarcinfoDetails, *, crawl: str) -> bytes:
    """Return the content of a warcinfo record. Raise Misconfigured if a value has a line break."""
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
        raise Misconfigured(f"a field of the warcinfo record is not a single line of text: {error}") from error


def encode_warcinfo(content: bytes, *, record_id: str, date: datetime, filename: str) -> bytes:
    """Return the warcinfo record with this content."""
    headers = records.warcinfo_headers(
        records.describe_block(content), record_id=record_id, date=date, filename=filename
    )
    return compress_record(headers, content)


def encode_capture(capture: Capture, *, warcinfo_id: str) -> EncodedCapture:
    """Return the records of a capture. Its languages are in them if they are in its description.

    Raise BadInput if a value of the crawler would break a header; others are escaped.
    """
    exchange = capture.exchange
    event = records.CaptureEvent(
        uri=escape_controls(exchange.url),
        date=exchange.date,
        warcinfo_id=warcinfo_id,
        ip=exchange.ip,
        protocols=exchange.protocols,
        cipher_suites=exchange.cipher_suites,
    )
    found: PayloadDescription | None = None
    if capture.kind == "response":
        found = capture.description or describe_payloads([capture], None)[0]
    request_id, record_id = new_record_id(), new_record_id()
    headers, content, digest = _response_record(
        capture, event, record_id=record_id, concurrent_to=request_id, identified=found.media_type if found else None
    )
    request_headers = records.request_headers(event, _block_without_digest(exchange.request), record_id=request_id)
    request = compress_record(request_headers, exchange.request)
    response = compress_record(headers, content)
    notes = records.encode_warc_fields(_metadata_fields(capture, found))
    notes_headers = records.metadata_headers(
        event, _block_without_digest(notes), record_id=new_record_id(), concurrent_to=record_id
    )
    data = b"".join((request, response, compress_record(notes_headers, notes)))
    return EncodedCapture(data, len(request), len(response), record_id, digest)


def encode_page_record(record: PageRecord, *, warcinfo_id: str) -> bytes:
    """Return the resource record of what was made of a page."""
    event = records.CaptureEvent(uri=escape_controls(record.url), date=record.date, warcinfo_id=warcinfo_id)
    block = records.describe_block(record.content)
    headers = records.resource_headers(event, block, record_id=new_record_id(), content_type=record.content_type)
    return compress_record(headers, record.content)


def _response_record(
    capture: Capture, event: records.CaptureEvent, *, record_id: str, concurrent_to: str, identified: str | None
) -> tuple[Headers, bytes, str]:
    """Return header and content of the record that an index points to, and the payload's digest, or "" without one."""
    response = capture.exchange.response
    original = capture.original or records.OriginalCapture()
    begin = end_of_head(response) or len(response)
    if capture.kind == "not_modified":
        head = response[:begin]
        headers = records.not_modified_headers(
            event, records.describe_block(head), record_id=record_id, original=original, concurrent_to=concurrent_to
        )
        return headers, head, ""
    digest = capture.digest or compute(memoryview(response)[begin:])
    if capture.kind == "response":
        headers = records.response_headers(
            event,
            records.BlockInfo(length=len(response), digest=compute(response), payload_digest=digest),
            record_id=record_id,
            concurrent_to=concurrent_to,
            truncated=capture.exchange.truncated,
            payload_type=identified,
        )
        return headers, response, digest
    head = response[:begin]
    headers = records.identical_headers(
        event,
        records.describe_block(head),
        record_id=record_id,
        original=original,
        payload_digest=digest,
        concurrent_to=concurrent_to,
    )
    return headers, head, digest


def _block_without_digest(content: bytes) -> records.BlockInfo:
    """Describe a block without a digest: Common Crawl's request and metadata records have none."""
    return records.BlockInfo(length=len(content), digest="")


def new_record_id() -> str:
    return f"<urn:uuid:{uuid.uuid4()}>"


def _metadata_fields(capture: Capture, found: PayloadDescription | None) -> list[tuple[str, str]]:
    fields = [("fetchTimeMs", str(max(0, round(capture.exchange.seconds * 1000))))]
    if capture.is_rendered:
        fields.append(("rendered", f"urn:dom:{escape_controls(capture.exchange.url)}"))
    if found and found.charset:
        fields.append(("charset-detected", found.charset))
    if found and found.languages and found.languages.languages:
        fields.append(("languages-cld2", msgspec.json.encode(found.languages).decode()))
    return [*fields, *((name, escape_controls(value)) for name, value in capture.extra)]


def escape_controls(value: str) -> str:
    """Percent-encode control characters and lone surrogates: some values come from the web (`via` is a URL)."""
    return _UNFIT.sub(_escape, value)


def _escape(found: re.Match[str]) -> str:
    try:
        data = found[0].encode("utf-8", "surrogateescape")  # a byte that was not valid text when it was read
    except UnicodeEncodeError:
        data = found[0].encode("utf-8", "surrogatepass")
    return "".join(f"%{byte:02X}" for byte in data)
