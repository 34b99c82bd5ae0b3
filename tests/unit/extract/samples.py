"""One page, with as much of a head as a test wants."""

from __future__ import annotations

import json
from collections.abc import Iterable

from tests.unit.commoncrawl.triples import CLD2
from webmill.commoncrawl.page import Page, WatRecords
from webmill.formats.warc import record_headers as records
from webmill.formats.warc.typed_records import FileType
from webmill.model import Headers, Record

URL = "http://a.example/dir/page"
HEAD = {
    "Title": "A title",
    "Metas": [
        {"http-equiv": "Content-Type", "content": "text/html; charset=utf-8"},
        {"name": "Description", "content": "What it is about"},
        {"name": "keywords", "content": "one, two"},
        {"name": "keywords", "content": "  "},
        {"property": "og:url", "content": "http://a.example/og"},
        {"property": "og:site_name", "content": "A Site"},
        {"property": "og:type", "content": "article"},
        {"property": "og:image", "content": "http://a.example/og.png"},
        {"property": "og:title", "content": "An og title"},
        {"property": "og:title", "content": "The last og title"},
        {"property": "og:description", "content": "og words"},
    ],
    "Link": [
        {"path": "LINK@/href", "url": "style.css", "rel": "stylesheet"},
        {"path": "LINK@/href", "url": "/page", "rel": "canonical"},
        {"path": "LINK@/href", "url": "icon.png", "rel": "shortcut icon"},
    ],
}
LINKS = [
    {"path": "A@/href", "url": "../next", "text": "Next", "rel": "nofollow"},
    {"path": "A@/href", "url": "mailto:someone@a.example"},
    {"path": "IMG@/src", "url": "http://b.example/i.png"},
]


def record(headers: Iterable[tuple[str, str]], content: bytes, *, offset: int = 100) -> Record:
    length = ("Content-Length", str(len(content)))
    return Record("WARC/1.0", Headers((*headers, length)), content, offset, len(content) + 50)


def response(
    *, http: bytes = b"Content-Type: text/html; charset=utf-8\r\n", body: bytes = b"<p>Hello", status: bytes = b"200 OK"
) -> Record:
    headers = [
        ("WARC-Type", "response"),
        ("WARC-Record-ID", "<urn:uuid:1>"),
        ("WARC-Target-URI", URL),
        ("WARC-Date", "2024-07-12T10:00:02Z"),
        ("WARC-Payload-Digest", "sha1:AAAA"),
        ("WARC-Identified-Payload-Type", "text/html"),
    ]
    return record(headers, b"HTTP/1.1 " + status + b"\r\n" + http + b"\r\n" + body)


def description(head: object = HEAD, links: object = LINKS) -> Record:
    html = {"Head": head, "Links": links}
    payload = {"HTTP-Response-Metadata": {"HTML-Metadata": html}}
    envelope = {"WARC-Header-Metadata": {"WARC-Type": "response"}, "Payload-Metadata": payload}
    return record([("WARC-Type", "metadata")], json.dumps({"Envelope": envelope}).encode())


def metadata() -> Record:
    fields = [("fetchTimeMs", "56"), ("charset-detected", "UTF-8"), ("languages-cld2", CLD2)]
    return record([("WARC-Type", "metadata")], records.encode_warc_fields(fields))


def conversion(text: str = "Grüße\n", languages: str = "deu,eng") -> Record:
    fields = [("WARC-Type", "conversion"), ("WARC-Identified-Content-Language", languages)]
    return record(fields, text.encode())


def page(
    capture: Record | None = None,
    *,
    wat: Record | None = None,
    wet: Record | None = None,
    meta: Record | None = None,
    files: str = "WARC WAT WET",
) -> Page:
    offsets = {FileType[name]: (100, 200) for name in files.split()}
    return Page(
        capture=capture or response(),
        metadata=meta,
        wat=WatRecords(capture=wat),
        wet=wet,
        offsets=offsets,
        resume=dict.fromkeys(offsets, 200),
    )


def full() -> Page:
    return page(wat=description(), wet=conversion(), meta=metadata())
