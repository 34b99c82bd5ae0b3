"""Build the headers of the records that a crawl writes, in Common Crawl's order, field by field.

A builder returns `Headers`; `writer` turns them and the content into bytes. The caller chooses dates and record ids.
The content is described by a `BlockInfo`, made from its bytes (`describe_block`) or from digesters if it is too large.

Values are checked when they are written, with one exception: a target URI comes from the web, so its control
characters and spaces are percent-encoded here (`%0D%0A`, `%20`) instead of refused. The rest of it is unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from webmill.errors import BadInput
from webmill.formats.http.head import end_of_head
from webmill.formats.warc import digest
from webmill.model import Headers

WARC_FIELDS = "application/warc-fields"
HTTP_REQUEST = "application/http; msgtype=request"
HTTP_RESPONSE = "application/http; msgtype=response"
NOT_MODIFIED = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
IDENTICAL_DIGEST = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"

Pairs = list[tuple[str, str]]

_UNSAFE = re.compile(r"[\x00-\x20\x7f]")


class BlockInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the header of a record states about its content."""

    length: int
    digest: str
    payload_digest: str | None = None


class CaptureEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What the request, response and metadata records of one capture have in common."""

    uri: str
    date: datetime
    warcinfo_id: str | None = None
    ip: str | None = None
    protocols: tuple[str, ...] = ()  # h2, tls/1.3
    cipher_suites: tuple[str, ...] = ()


class OriginalCapture(msgspec.Struct, frozen=True, kw_only=True):
    """The earlier capture that a revisit record refers to."""

    record_id: str | None = None
    uri: str | None = None
    date: datetime | None = None
    payload_digest: str | None = None


def describe_block(content: bytes) -> BlockInfo:
    """Return length and digest of the content of a record without a separate payload."""
    return BlockInfo(length=len(content), digest=digest.compute(content))


def describe_http_block(content: bytes) -> BlockInfo:
    """Return length and digests of an HTTP message; its payload is what follows the head, as stored."""
    payload = memoryview(content)[end_of_head(content) or len(content) :]
    return BlockInfo(length=len(content), digest=digest.compute(content), payload_digest=digest.compute(payload))


def encode_warc_fields(fields: Iterable[tuple[str, str]]) -> bytes:
    """Return the content of a warcinfo or metadata record: `application/warc-fields`."""
    lines = []
    for name, value in fields:
        if re.search(r"[\r\n\0]", name + value) or not name or ":" in name:
            raise BadInput(f"line break or NUL in field {name[:60]!r}", reason="header_injection")
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines).encode("utf-8", "surrogateescape")


def warcinfo_headers(block: BlockInfo, *, record_id: str, date: datetime, filename: str) -> Headers:
    """Return the header of the first record of a file. Its date is the start of the crawl."""
    return Headers([*_common_fields("warcinfo", record_id, date, block, WARC_FIELDS), ("WARC-Filename", filename)])


def request_headers(event: CaptureEvent, block: BlockInfo, *, record_id: str) -> Headers:
    return Headers(
        [
            *_common_fields("request", record_id, event.date, block, HTTP_REQUEST),
            *_warcinfo_field(event),
            *_location_fields(event),
        ]
    )


def response_headers(
    event: CaptureEvent,
    block: BlockInfo,
    *,
    record_id: str,
    concurrent_to: str | None = None,
    truncated: str | None = None,
    payload_type: str | None = None,
) -> Headers:
    """Return the header of a response. `truncated` is length, time, disconnect or unspecified."""
    return Headers(
        [
            *_common_fields("response", record_id, event.date, block, HTTP_RESPONSE),
            *_warcinfo_field(event),
            *_id_field("WARC-Concurrent-To", concurrent_to),
            *_location_fields(event),
            *_digests(block),
            *_optional("WARC-Truncated", truncated),
            *_optional("WARC-Identified-Payload-Type", payload_type),
        ]
    )


def not_modified_headers(
    event: CaptureEvent,
    block: BlockInfo,
    *,
    record_id: str,
    original: OriginalCapture,
    concurrent_to: str | None = None,
) -> Headers:
    """Return the header of a revisit after a 304, whose content is its head.

    Readers find the original by its digest.
    """
    return Headers(
        [
            *_revisit_fields(event, block, record_id, original, concurrent_to),
            ("WARC-Profile", NOT_MODIFIED),
            *_optional("WARC-Payload-Digest", original.payload_digest),
            ("WARC-Block-Digest", block.digest),
        ]
    )


def identical_headers(
    event: CaptureEvent,
    block: BlockInfo,
    *,
    record_id: str,
    original: OriginalCapture,
    payload_digest: str,
    concurrent_to: str | None = None,
) -> Headers:
    """Return the header of a revisit with an unchanged payload: the content is the new head, the digest the
    payload's."""
    return Headers(
        [
            *_revisit_fields(event, block, record_id, original, concurrent_to),
            ("WARC-Profile", IDENTICAL_DIGEST),
            ("WARC-Payload-Digest", payload_digest),
            ("WARC-Block-Digest", block.digest),
        ]
    )


def metadata_headers(
    event: CaptureEvent, block: BlockInfo, *, record_id: str, concurrent_to: str | None = None
) -> Headers:
    return Headers(
        [
            *_common_fields("metadata", record_id, event.date, block, WARC_FIELDS),
            *_warcinfo_field(event),
            *_id_field("WARC-Concurrent-To", concurrent_to),
            ("WARC-Target-URI", escape_uri(event.uri)),
        ]
    )


def resource_headers(event: CaptureEvent, block: BlockInfo, *, record_id: str, content_type: str) -> Headers:
    """Return the header of a resource, stored without a protocol exchange: the content is the payload."""
    return Headers(
        [
            *_common_fields("resource", record_id, event.date, block, content_type),
            *_warcinfo_field(event),
            *_location_fields(event),
            ("WARC-Payload-Digest", block.digest),
            ("WARC-Block-Digest", block.digest),
        ]
    )


def conversion_headers(
    block: BlockInfo,
    *,
    record_id: str,
    uri: str,
    date: datetime,
    refers_to: str,
    content_type: str = "text/plain",
    languages: Iterable[str] = (),
) -> Headers:
    """Return the header of a conversion, the plain text in a WET file.

    `date` is the capture's, `languages` ISO-639-3.
    """
    return Headers(
        [
            *_derived_fields("conversion", uri, date, record_id, refers_to),
            ("WARC-Block-Digest", block.digest),
            *_optional("WARC-Identified-Content-Language", ",".join(languages)),
            ("Content-Type", content_type),
            ("Content-Length", str(block.length)),
        ]
    )


def wat_headers(block: BlockInfo, *, record_id: str, uri: str, date: datetime, refers_to: str) -> Headers:
    """Return the header of a WAT record: JSON about the record `refers_to`. `date` is when it was made."""
    return Headers(
        [
            *_derived_fields("metadata", uri, date, record_id, refers_to),
            ("Content-Type", "application/json"),
            ("Content-Length", str(block.length)),
        ]
    )


def escape_uri(uri: str) -> str:
    """Percent-encode control characters and spaces, which would end the line, or the field in an index."""
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", uri)


def format_warc_date(date: datetime) -> str:
    """Return a WARC date, in whole seconds of UTC. Raise BadInput for a date without a time zone."""
    if date.tzinfo is None:
        raise BadInput("a WARC date needs a time zone", reason="bad_date")
    return f"{date.astimezone(UTC).isoformat()[:19]}Z"


def _common_fields(kind: str, record_id: str, date: datetime, block: BlockInfo, content_type: str) -> Pairs:
    return [
        ("WARC-Type", kind),
        ("WARC-Date", format_warc_date(date)),
        *_id_field("WARC-Record-ID", record_id),
        ("Content-Length", str(block.length)),
        ("Content-Type", content_type),
    ]


def _derived_fields(kind: str, uri: str, date: datetime, record_id: str, refers_to: str) -> Pairs:
    """Return the first fields of WAT and WET records, which have their own order."""
    return [
        ("WARC-Type", kind),
        ("WARC-Target-URI", escape_uri(uri)),
        ("WARC-Date", format_warc_date(date)),
        *_id_field("WARC-Record-ID", record_id),
        *_id_field("WARC-Refers-To", refers_to),
    ]


def _revisit_fields(
    event: CaptureEvent, block: BlockInfo, record_id: str, original: OriginalCapture, concurrent_to: str | None
) -> Pairs:
    return [
        *_common_fields("revisit", record_id, event.date, block, "message/http"),
        *_warcinfo_field(event),
        *_id_field("WARC-Concurrent-To", concurrent_to),
        *_location_fields(event),
        *_id_field("WARC-Refers-To", original.record_id),
        *_optional("WARC-Refers-To-Target-URI", escape_uri(original.uri) if original.uri else None),
        *_optional("WARC-Refers-To-Date", format_warc_date(original.date) if original.date else None),
    ]


def _warcinfo_field(event: CaptureEvent) -> Pairs:
    return _id_field("WARC-Warcinfo-ID", event.warcinfo_id)


def _location_fields(event: CaptureEvent) -> Pairs:
    return [
        *_optional("WARC-IP-Address", event.ip),
        ("WARC-Target-URI", escape_uri(event.uri)),
        *(("WARC-Protocol", protocol) for protocol in event.protocols),
        *(("WARC-Cipher-Suite", suite) for suite in event.cipher_suites),
    ]


def _digests(block: BlockInfo) -> Pairs:
    return [*_optional("WARC-Payload-Digest", block.payload_digest), ("WARC-Block-Digest", block.digest)]


def _optional(name: str, value: str | None) -> Pairs:
    return [(name, value)] if value else []


def _id_field(name: str, value: str | None) -> Pairs:
    """Return an id field, in angle brackets; `value` may have them already."""
    return [(name, value if value.startswith("<") else f"<{value}>")] if value else []
