"""WAT: everything about a record except its content, as the JSON of Common Crawl's extractor (layout of 2024).

All numbers are strings; a repeated header is a list. Differences from Common Crawl's files: docs/reference/derive.md.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from webmill.archive.capture import CapturedRecord
from webmill.formats.compression.gzip_frame import TRAILER, GzipFrame
from webmill.formats.html.page import HtmlPage
from webmill.formats.warc import digest
from webmill.formats.warc.fields import parse_warc_fields
from webmill.formats.warc.http_records import HttpResponse, read_request
from webmill.formats.warc.writer import encode_header
from webmill.model import Record

Json = dict[str, object]

_TERMINATOR = 4  # the two empty lines behind a record
_encode = msgspec.json.Encoder().encode


def describe_record(capture: CapturedRecord, *, filename: str, frame: GzipFrame | None) -> bytes:
    """Return the JSON about one record of `filename`; `frame` is that of its gzip member, if it has one of its own."""
    record = capture.record
    return _encode(
        {
            "Container": _container(record, filename, frame),
            "Envelope": {
                "Payload-Metadata": {**_payload(capture), **_lengths_and_digest(record)},
                "Format": "WARC/1.0",
                "WARC-Header-Length": str(_header_length(record, frame)),
                "WARC-Header-Metadata": _as_object(record.headers.pairs),
            },
        }
    )


def _container(record: Record, filename: str, frame: GzipFrame | None) -> Json:
    place: Json = {"Filename": filename, "Compressed": not filename.endswith(".warc"), "Offset": str(record.offset)}
    if frame:
        place["Gzip-Metadata"] = {
            "Deflate-Length": str(record.length),
            "Header-Length": str(frame.header),
            "Footer-Length": str(TRAILER),
            "Inflated-CRC": str(frame.crc - (1 << 32) if frame.crc >> 31 else frame.crc),  # signed, as Java has it
            "Inflated-Length": str(frame.inflated),
        }
    return place


def _header_length(record: Record, frame: GzipFrame | None) -> int:
    """Return the length of the header as stored if that is known, else as webmill would write it."""
    whole = frame.inflated if frame else record.length
    length = whole - record.content_length - _TERMINATOR
    return length if length > 0 else len(encode_header(record.headers, version=record.version))


def _lengths_and_digest(record: Record) -> Json:
    if record.cut:
        return {"Actual-Content-Length": str(record.content_length)}
    return {
        "Actual-Content-Length": str(len(record.content)),
        "Trailing-Slop-Length": str(_TERMINATOR),
        "Block-Digest": digest.compute(record.content),
    }


# --- what the block holds, by the type of the record ------------------------------------------------------------------


def _payload(capture: CapturedRecord) -> Json:
    record = capture.record
    if record.cut:
        return {}
    if capture.response:
        kind = "application/http; msgtype=response"
        return {"Actual-Content-Type": kind, "HTTP-Response-Metadata": _response(capture.response, capture.page)}
    if record.type == "request":
        kind = "application/http; msgtype=request"
        return {"Actual-Content-Type": kind, "HTTP-Request-Metadata": _request(record.content)}
    if record.type == "warcinfo":
        return _info(record.content)
    if record.type == "metadata":
        fields = [
            {"Name": _clean(name), "Value": _clean(value)} for name, value in parse_warc_fields(record.content).pairs
        ]
        metadata = {"Metadata-Records": fields} if fields else {}
        return {"Actual-Content-Type": "application/metadata-fields", "WARC-Metadata-Metadata": metadata}
    return {}


def _info(block: bytes) -> Json:
    info: Json = {
        "Actual-Content-Type": "application/warc-fields",
        "WARC-Info-Metadata": _as_object(parse_warc_fields(block).pairs),
    }
    # Common Crawl's parser expects an empty line after the fields; warcinfo blocks have none, and are still valid.
    return info if block.endswith(b"\n\r\n") else {"Headers-Corrupt": True, **info}


def _request(block: bytes) -> Json:
    request = read_request(block)
    if not request.head:
        return {"Headers-Corrupt": True, **_entity(request.body)}
    head = request.head
    return {
        "Request-Message": {"Method": head.method, "Path": head.target, "Version": head.version},
        "Headers-Length": str(len(head.raw) - 2),  # Common Crawl's does not count the end of the request line
        "Headers": _as_object(head.headers.pairs),
        **_entity(request.body),
    }


def _response(response: HttpResponse, page: HtmlPage | None) -> Json:
    described: Json = {}
    if response.head:
        head = response.head
        described = {
            "Response-Message": {"Status": str(head.status), "Version": head.version, "Reason": head.reason},
            "Headers-Length": str(len(head.raw)),
            "Headers": _as_object(head.headers.pairs),
        }
    else:
        described["Headers-Corrupt"] = True
    if page:
        described["HTML-Metadata"] = _html(page)
    return {**described, **_entity(response.body)}


def _entity(body: bytes) -> Json:
    return {
        "Entity-Length": str(len(body)),
        "Entity-Digest": digest.compute(body),
        "Entity-Trailing-Slop-Length": "0",
    }


def _html(page: HtmlPage) -> Json:
    head: Json = {
        name: value
        for name, value in (
            ("Base", page.base),
            ("Title", page.title),
            ("Metas", page.metas or None),
            ("Link", page.head_links or None),
            ("Scripts", page.scripts or None),
        )
        if value is not None
    }
    return {**({"Head": head} if head else {}), **({"Links": page.links} if page.links else {})}


def _as_object(pairs: Iterable[tuple[str, str]]) -> Json:
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(_clean(name), []).append(_clean(value))
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _clean(text: str) -> str:
    """Return text without lone surrogates, which stand for bytes that are not UTF-8 and which JSON cannot hold."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
