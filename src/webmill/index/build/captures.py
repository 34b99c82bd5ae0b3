"""From records to index lines: one line per capture, as pywb and Common Crawl write them (docs/reference/cdxj.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from json.encoder import encode_basestring_ascii as quoted

import msgspec

from webmill.errors import BadInput, Misconfigured
from webmill.formats.cdx.cdxj import MAX_LINE
from webmill.formats.http import end_of_head
from webmill.formats.url.surt import surt, without_surrogates
from webmill.formats.warc.quick_head import RawFields
from webmill.formats.warc.scan import ScannedRecord
from webmill.index.build.capture_fields import (
    decode_header,
    http_fields,
    is_http,
    parse_description,
    payload_digest,
    resolve_redirect,
    status_of,
    timestamp_of,
    url_of,
)
from webmill.index.build.request_body import body_to_query, url_with_body
from webmill.model import Damage

FIELDS = (
    *("url", "mime", "mime-detected", "status", "digest", "length", "offset", "filename"),
    *("charset", "languages", "truncated", "redirect", "method", "requestBody", "metadata", "usage"),
)
PROFILES = {
    "commoncrawl": FIELDS,  # in Common Crawl's order
    "pywb": (
        *("metadata", "url", "mime", "mime-detected", "status", "digest", "length", "offset"),
        *("method", "requestBody", "filename"),
    ),
    "minimal": ("metadata", "url", "mime", "digest", "length", "offset", "filename"),  # see `parse_http`
}


class CaptureOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which records are indexed, with which fields. `fields` are written in their order, where they have a value."""

    fields: tuple[str, ...] = FIELDS
    all_records: bool = False  # also requests and metadata about captures (application/warc-fields)
    post_append: bool = False  # the request's method and body become part of the key
    parse_http: bool = True  # else no type, status and redirect: HTTP headers are not read (pywb's minimal index)
    revisit_status: bool = False  # as Common Crawl and cdxj-indexer; pywb writes none on revisits

    def __post_init__(self) -> None:
        unknown = set(self.fields) - set(FIELDS)
        if unknown or not self.fields:
            raise Misconfigured(f"unknown field {', '.join(sorted(unknown))}; choose from {', '.join(FIELDS)}")


class _Capture(msgspec.Struct):
    urlkey: str
    timestamp: str
    values: dict[str, str]
    record_id: bytes | None
    concurrent_to: bytes | None

    def line(self, names: tuple[str, ...]) -> bytes | Damage:
        """Return the line as pywb writes it, without fields that are empty or `-`; but always with the URL."""
        values = self.values
        members = ", ".join(
            [
                f'"{name}": {quoted(values[name])}'
                for name in names
                if values.get(name, "-") not in _NOTHING or name == "url"
            ]
        )
        line = f"{self.urlkey} {self.timestamp} {{{members}}}\n".encode()
        if len(line) > MAX_LINE:  # no tool could read the index
            start = int(values["offset"])
            return Damage(
                start, start + int(values["length"]), "too_large", f"not indexed: a line of {len(line)} bytes"
            )
        return line


class _Request(msgspec.Struct):
    url: str
    method: str
    query: str
    record_id: bytes | None
    concurrent_to: bytes | None


HTTP_RECORDS = (b"response", b"revisit", b"request")
WITHOUT_DIGEST = (b"revisit", b"request", b"warcinfo")  # nobody computes one for these
SHARED = "records share one gzip member: they are indexed with length 0, since no byte range holds one alone"
UNDIGESTED = "no digest: the record has none, and its block is too long to compute one"
_NOTHING = ("", "-")
_MIME_END = re.compile(r"[; ]")


class CaptureIndexer:
    """Turns the records of one file into lines.

    The request of a capture may come before or after it, and its metadata after it: so each capture is held until the
    next one comes.
    """

    def __init__(self, *, filename: str, options: CaptureOptions) -> None:
        self._filename = without_surrogates(filename)
        self._options = options
        self._described = not {"charset", "languages", "usage"}.isdisjoint(options.fields)
        self._held: _Capture | None = None
        self._request: _Request | None = None
        self._shared = -1  # offset of the last gzip member that holds several records

    def enough(self, fields: RawFields, block: bytes) -> bool:
        """Whether these first bytes of the block are enough to write a line (see `scan_records`)."""
        kind = fields.get(b"WARC-Type", b"")
        if kind == b"request" and not self._options.all_records:
            return not self._options.post_append or block.startswith(b"GET ")
        if kind == b"metadata" and self._described and _is_description(fields):
            return False
        if not self._is_indexed(kind, fields):
            return True
        if kind not in WITHOUT_DIGEST and not fields.get(b"WARC-Payload-Digest"):
            return False
        return not self._options.parse_http or kind not in HTTP_RECORDS or end_of_head(block) is not None

    def lines(self, items: Iterable[ScannedRecord | Damage]) -> Iterator[bytes | Damage]:
        for item in items:
            if isinstance(item, Damage):
                yield item
                continue
            kind = item.fields.get(b"WARC-Type", b"")
            if kind == b"request" and self._options.post_append:
                self._note_request(item)
            elif kind == b"metadata" and self._described and _is_description(item.fields):
                self._note_description(item)
            if self._is_indexed(kind, item.fields):
                yield from self._indexed(kind, item)
        if self._held:
            yield self._held.line(self._options.fields)

    def _indexed(self, kind: bytes, item: ScannedRecord) -> Iterator[bytes | Damage]:
        if not item.length and item.offset != self._shared:
            self._shared = item.offset
            yield Damage(item.offset, item.offset, "shared_member", SHARED)
        made = self._capture(kind, item)
        if isinstance(made, Damage):
            yield made
        elif made is not None:
            if "digest" not in made.values and kind not in WITHOUT_DIGEST:
                yield _damage(item, UNDIGESTED, reason="too_large")
            ready: _Capture | None = made
            if kind in (b"response", b"revisit", b"resource"):
                ready, self._held = self._held, self._joined(made)
            if ready is not None:
                yield ready.line(self._options.fields)

    def _is_indexed(self, kind: bytes, fields: RawFields) -> bool:
        """Whether a record is indexed: as in pywb, if it has content of its own."""
        if kind in (b"warcinfo", b"arc_header"):
            return False
        if kind == b"metadata" and fields.get(b"Content-Type") == b"text/anvl":  # Heritrix 1 on a capture
            return False
        return self._options.all_records or (kind != b"request" and not _is_description(fields))

    # --- one capture --------------------------------------------------------------------------------------------

    def _capture(self, kind: bytes, item: ScannedRecord) -> _Capture | Damage | None:
        fields = item.fields
        target = fields.get(b"WARC-Target-URI")
        if target is None:
            if kind in (b"metadata", b"continuation"):
                return None  # not about a page, or the rest of one
            return _damage(item, f"not indexed: a {decode_header(kind)} record without WARC-Target-URI")
        url = url_of(target, is_arc=item.is_arc)
        try:
            timestamp = timestamp_of(fields.get(b"WARC-Date", b""), is_arc=item.is_arc)
        except BadInput as error:
            return _damage(item, f"not indexed: its date is {error.message}")
        values = {"url": url, "length": str(item.length), "offset": str(item.offset), "filename": self._filename}
        key = surt(url)
        if kind == b"revisit":
            values["mime"] = "warc/revisit"
            if self._options.revisit_status:
                values["status"] = status_of(item.block)
        else:
            if self._options.parse_http:
                self._describe(kind, item, url, values)
            if kind == b"request" and self._options.post_append and self._request:
                key = surt(url_with_body(url, self._request.method, self._request.query))
        stated = fields.get(b"WARC-Payload-Digest", b"")
        if stated:
            values["digest"] = decode_header(stated).removeprefix("sha1:")
        elif kind not in WITHOUT_DIGEST and item.whole:
            values["digest"] = payload_digest(item, is_http=kind in HTTP_RECORDS and is_http(url))
        if truncated := fields.get(b"WARC-Truncated"):
            values["truncated"] = decode_header(truncated)
        if metadata := fields.get(b"WARC-JSON-Metadata"):
            values["metadata"] = decode_header(metadata)
        return _Capture(key, timestamp, values, fields.get(b"WARC-Record-ID"), fields.get(b"WARC-Concurrent-To"))

    def _describe(self, kind: bytes, item: ScannedRecord, url: str, values: dict[str, str]) -> None:
        fields = item.fields
        content_type = fields.get(b"Content-Type", b"")
        if kind in HTTP_RECORDS and is_http(url):
            head = http_fields(item.block)
            if not item.is_arc:  # the line of the ARC record has it
                content_type = head.get(b"content-type", b"")
            if kind == b"response":
                values["status"] = status = status_of(item.block)
                if status.startswith("3") and status != "304" and b"location" in head:
                    values["redirect"] = resolve_redirect(url, decode_header(head[b"location"]))
        mime = _MIME_END.split(decode_header(content_type), maxsplit=1)[0]
        values["mime"] = mime or ("" if kind == b"request" else "unk")
        if detected := fields.get(b"WARC-Identified-Payload-Type"):
            values["mime-detected"] = decode_header(detected)

    # --- requests and metadata of a capture ---------------------------------------------------------------------

    def _joined(self, capture: _Capture) -> _Capture:
        request, self._request = self._request, None
        if request and request.record_id and capture.concurrent_to == request.record_id:
            _join(capture, request)
        return capture

    def _note_request(self, item: ScannedRecord) -> None:
        fields, block = item.fields, item.block
        end = end_of_head(block) or len(block)
        head = http_fields(block)
        method = decode_header(block.partition(b" ")[0]).upper()
        length = head.get(b"content-length", b"")
        body = block[end : end + int(length)] if length.isdigit() and len(length) < 18 else b""
        request = _Request(
            url_of(fields.get(b"WARC-Target-URI", b""), is_arc=False),
            method,
            body_to_query(method, decode_header(head.get(b"content-type", b"")), body),
            fields.get(b"WARC-Record-ID"),
            fields.get(b"WARC-Concurrent-To"),
        )
        self._request = request
        if self._held and self._held.record_id and request.concurrent_to == self._held.record_id:
            _join(self._held, request)

    def _note_description(self, item: ScannedRecord) -> None:
        held = self._held
        if held and held.record_id and item.fields.get(b"WARC-Concurrent-To") == held.record_id:
            held.values.update(parse_description(item.block))


def _join(capture: _Capture, request: _Request) -> None:
    url = capture.values["url"]
    if request.url != url or request.method == "GET":
        return
    capture.urlkey = surt(url_with_body(url, request.method, request.query))
    capture.values["method"] = request.method
    capture.values["requestBody"] = request.query


def _damage(item: ScannedRecord, message: str, *, reason: str = "bad_header") -> Damage:
    return Damage(item.offset, item.offset + item.length, reason, message)


def _is_description(fields: RawFields) -> bool:
    return fields.get(b"Content-Type") == b"application/warc-fields"
