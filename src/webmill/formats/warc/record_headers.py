"""Build the headers of the records that a crawl writes, in Common Crawl's order, field by field.

A builder returns `Headers`; `writer` turns them and the content into bytes. The caller chooses dates and record ids.
The content is described by a `BlockInfo`, made from its bytes (`describe_block`) or from digesters if it is too large.

Values are checked when they are written, with one exception: a target URI is the web's, so its control characters and
spaces are percent-encoded here (`%0D%0A`, `%20`) instead of refused. Everything else in it stays as it was.
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
    """What is said about a record's content in its header."""

    length: int
    digest: str
    payload_digest: str | None = None


class CaptureEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What request, response and metadata of one visit to a page have in common."""

    uri: str
    date: datetime
    warcinfo_id: str | None = None
    ip: str | None = None
    protocols: tuple[str, ...] = ()  # h2, tls/1.3
    cipher_suites: tuple[str, ...] = ()


class OriginalCapture(msgspec.Struct, frozen=True, kw_only=True):
    """The earlier capture that a revisit record stands for."""

    record_id: str | None = None
    uri: str | None = None
    date: datetime | None = None
    payload_digest: str | None = None


def describe_block(content: bytes) -> BlockInfo:
    """The block of a record that has no payload apart from its content."""
    return BlockInfo(length=len(content), digest=digest.compute(content))


def describe_http_block(content: bytes) -> BlockInfo:
    """The block of an HTTP message; its payload is what follows the head, as it stands."""
    payload = memoryview(content)[end_of_head(content) or len(content) :]
    return BlockInfo(length=len(content), digest=digest.compute(content), payload_digest=digest.compute(payload))


def encode_warc_fields(fields: Iterable[tuple[str, str]]) -> bytes:
    """The content of warcinfo and metadata records: `application/warc-fields`."""
    lines = []
    for name, value in fields:
        if re.search(r"[\r\n\0]", name + value) or not name or ":" in name:
            raise BadInput(f"line break or NUL in field {name[:60]!r}", reason="header_injection")
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines).encode("utf-8", "surrogateescape")


def warcinfo_headers(block: BlockInfo, *, record_id: str, date: datetime, filename: str) -> Headers:
    """The first record of a file. Its date is the crawl's start."""
    return Headers([*_begin("warcinfo", record_id, date, block, WARC_FIELDS), ("WARC-Filename", filename)])


def request_headers(visit: CaptureEvent, block: BlockInfo, *, record_id: str) -> Headers:
    return Headers([*_begin("request", record_id, visit.date, block, HTTP_REQUEST), *_warcinfo(visit), *_where(visit)])


def response_headers(
    visit: CaptureEvent,
    block: BlockInfo,
    *,
    record_id: str,
    concurrent_to: str | None = None,
    truncated: str | None = None,
    payload_type: str | None = None,
) -> Headers:
    """`truncated` is length, time, disconnect or unspecified; `payload_type` the detected media type."""
    return Headers(
        [
            *_begin("response", record_id, visit.date, block, HTTP_RESPONSE),
            *_warcinfo(visit),
            *_id("WARC-Concurrent-To", concurrent_to),
            *_where(visit),
            *_digests(block),
            *_maybe("WARC-Truncated", truncated),
            *_maybe("WARC-Identified-Payload-Type", payload_type),
        ]
    )


def not_modified_headers(
    visit: CaptureEvent,
    block: BlockInfo,
    *,
    record_id: str,
    original: OriginalCapture,
    concurrent_to: str | None = None,
) -> Headers:
    """The server said 304: the content is its head. The digest is the original's: readers find it by that."""
    return Headers(
        [
            *_begin_revisit(visit, block, record_id, original, concurrent_to),
            ("WARC-Profile", NOT_MODIFIED),
            *_maybe("WARC-Payload-Digest", original.payload_digest),
            ("WARC-Block-Digest", block.digest),
        ]
    )


def identical_headers(
    visit: CaptureEvent,
    block: BlockInfo,
    *,
    record_id: str,
    original: OriginalCapture,
    payload_digest: str,
    concurrent_to: str | None = None,
) -> Headers:
    """The page came again unchanged: the content is the new head, the digest that of the payload left out."""
    return Headers(
        [
            *_begin_revisit(visit, block, record_id, original, concurrent_to),
            ("WARC-Profile", IDENTICAL_DIGEST),
            ("WARC-Payload-Digest", payload_digest),
            ("WARC-Block-Digest", block.digest),
        ]
    )


def metadata_headers(
    visit: CaptureEvent, block: BlockInfo, *, record_id: str, concurrent_to: str | None = None
) -> Headers:
    return Headers(
        [
            *_begin("metadata", record_id, visit.date, block, WARC_FIELDS),
            *_warcinfo(visit),
            *_id("WARC-Concurrent-To", concurrent_to),
            ("WARC-Target-URI", escape_uri(visit.uri)),
        ]
    )


def resource_headers(visit: CaptureEvent, block: BlockInfo, *, record_id: str, content_type: str) -> Headers:
    """Something that was had without a protocol exchange worth keeping: the content is the payload."""
    return Headers(
        [
            *_begin("resource", record_id, visit.date, block, content_type),
            *_warcinfo(visit),
            *_where(visit),
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
    """Another form of a response: the plain text of a WET file. `date` is the capture's, `languages` are ISO-639-3."""
    return Headers(
        [
            *_begin_derived("conversion", uri, date, record_id, refers_to),
            ("WARC-Block-Digest", block.digest),
            *_maybe("WARC-Identified-Content-Language", ",".join(languages)),
            ("Content-Type", content_type),
            ("Content-Length", str(block.length)),
        ]
    )


def wat_headers(block: BlockInfo, *, record_id: str, uri: str, date: datetime, refers_to: str) -> Headers:
    """A metadata record of a WAT file: JSON about the record `refers_to`. `date` is when it was made."""
    return Headers(
        [
            *_begin_derived("metadata", uri, date, record_id, refers_to),
            ("Content-Type", "application/json"),
            ("Content-Length", str(block.length)),
        ]
    )


def escape_uri(uri: str) -> str:
    """Control characters and spaces as percent-escapes: they would end the line, or the word in an index."""
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", uri)


def format_warc_date(date: datetime) -> str:
    """Whole seconds in UTC; a date without a time zone means nothing."""
    if date.tzinfo is None:
        raise BadInput("a WARC date needs a time zone", reason="bad_date")
    return f"{date.astimezone(UTC).isoformat()[:19]}Z"


def _begin(kind: str, record_id: str, date: datetime, block: BlockInfo, content_type: str) -> Pairs:
    return [
        ("WARC-Type", kind),
        ("WARC-Date", format_warc_date(date)),
        *_id("WARC-Record-ID", record_id),
        ("Content-Length", str(block.length)),
        ("Content-Type", content_type),
    ]


def _begin_derived(kind: str, uri: str, date: datetime, record_id: str, refers_to: str) -> Pairs:
    """WAT and WET files have an order of their own."""
    return [
        ("WARC-Type", kind),
        ("WARC-Target-URI", escape_uri(uri)),
        ("WARC-Date", format_warc_date(date)),
        *_id("WARC-Record-ID", record_id),
        *_id("WARC-Refers-To", refers_to),
    ]


def _begin_revisit(
    visit: CaptureEvent, block: BlockInfo, record_id: str, original: OriginalCapture, concurrent_to: str | None
) -> Pairs:
    return [
        *_begin("revisit", record_id, visit.date, block, "message/http"),
        *_warcinfo(visit),
        *_id("WARC-Concurrent-To", concurrent_to),
        *_where(visit),
        *_id("WARC-Refers-To", original.record_id),
        *_maybe("WARC-Refers-To-Target-URI", escape_uri(original.uri) if original.uri else None),
        *_maybe("WARC-Refers-To-Date", format_warc_date(original.date) if original.date else None),
    ]


def _warcinfo(visit: CaptureEvent) -> Pairs:
    return _id("WARC-Warcinfo-ID", visit.warcinfo_id)


def _where(visit: CaptureEvent) -> Pairs:
    return [
        *_maybe("WARC-IP-Address", visit.ip),
        ("WARC-Target-URI", escape_uri(visit.uri)),
        *(("WARC-Protocol", protocol) for protocol in visit.protocols),
        *(("WARC-Cipher-Suite", suite) for suite in visit.cipher_suites),
    ]


def _digests(block: BlockInfo) -> Pairs:
    return [*_maybe("WARC-Payload-Digest", block.payload_digest), ("WARC-Block-Digest", block.digest)]


def _maybe(name: str, value: str | None) -> Pairs:
    return [(name, value)] if value else []


def _id(name: str, value: str | None) -> Pairs:
    """Ids stand in angle brackets; they are accepted with and without."""
    return [(name, value if value.startswith("<") else f"<{value}>")] if value else []
