"""WARC files made for the tests, by the builders that a crawl uses."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from webmill.formats.warc import record_headers as warc_records
from webmill.formats.warc.writer import compress_record, encode_record
from webmill.model import Headers

DATE = datetime(2024, 7, 12, 9, 42, 14, tzinfo=UTC)
INFO_ID = "<urn:uuid:11111111-1111-4111-8111-111111111111>"
Record = tuple[Headers, bytes]


def record_id(name: str) -> str:
    return f"<{uuid5(NAMESPACE_URL, name).urn}>"


def info(filename: str = "made.warc.gz") -> Record:
    content = warc_records.encode_warc_fields([("isPartOf", "TEST-2024"), ("publisher", "us"), ("robots", "obeyed")])
    block = warc_records.describe_block(content)
    return warc_records.warcinfo_headers(block, record_id=INFO_ID, date=DATE, filename=filename), content


def request(name: str) -> Record:
    content = f"GET /{name} HTTP/1.1\r\nHost: site.example\r\n\r\n".encode()
    return warc_records.request_headers(
        visit(name), warc_records.describe_http_block(content), record_id=record_id(f"q {name}")
    ), content


def response(
    name: str, body: bytes, *, head: str = "Content-Type: text/html", payload_type: str | None = None
) -> Record:
    content = f"HTTP/1.1 200 OK\r\n{head}\r\n\r\n".encode("latin-1") + body
    block = warc_records.describe_http_block(content)
    headers = warc_records.response_headers(
        visit(name), block, record_id=record_id(name), concurrent_to=record_id(f"q {name}"), payload_type=payload_type
    )
    return headers, content


def metadata(name: str, *fields: tuple[str, str], of: str | None = None) -> Record:
    content = warc_records.encode_warc_fields(fields)
    block = warc_records.describe_block(content)
    number = record_id(f"m {name}")
    return warc_records.metadata_headers(
        visit(name), block, record_id=number, concurrent_to=record_id(of or name)
    ), content


def visit(name: str) -> warc_records.CaptureEvent:
    return warc_records.CaptureEvent(
        uri=f"http://site.example/{name}", date=DATE, warcinfo_id=INFO_ID, ip="192.0.2.1", protocols=("h2", "tls/1.3")
    )


def write_warc(path: Path, *records: Record) -> Path:
    encode = compress_record if path.suffix == ".gz" else encode_record
    path.write_bytes(b"".join(encode(*record) for record in records))
    return path
