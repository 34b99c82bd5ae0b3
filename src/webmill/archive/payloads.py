"""Find out what payloads are: their media types and, of pages, charset and languages.

Charset and languages are detected in the first `MAX_PAGE_BYTES` of a page. CLD2 costs more than all else together
(benchmarks/archiving.py); of 1,119 pages of Common Crawl 1,109 keep their main language, 1,117 without the limit.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from webmill.archive.identify import HTML, XHTML, identify_media_type
from webmill.archive.language_detection import LanguageDetector
from webmill.errors import BadInput
from webmill.formats.cld2 import MAX_HINT, DetectorInput, top_level_domain
from webmill.formats.encodings import decode_as, iana_name
from webmill.formats.html.charset import FoundEncoding, find_encoding
from webmill.formats.http import parse_response_head
from webmill.formats.http.head import end_of_head
from webmill.formats.warc.capture import Capture, PayloadDescription
from webmill.model import Headers

MAX_PAGE_BYTES = 1 << 17
PAGES = frozenset({HTML, XHTML})


def describe_captures(captures: Sequence[Capture], detect: LanguageDetector | None) -> list[Capture]:
    """Return the captures, each whose payload is going to be stored with the description of it. To describe many at
    once costs less."""
    stored = [capture for capture in captures if capture.kind == "response" and capture.description is None]
    found = iter(describe_payloads(stored, detect))
    return [
        msgspec.structs.replace(capture, description=next(found))
        if capture.kind == "response" and capture.description is None
        else capture
        for capture in captures
    ]


def describe_payloads(captures: Sequence[Capture], detect: LanguageDetector | None) -> list[PayloadDescription]:
    """Return what is found in each payload; languages only with a detector."""
    descriptions: list[PayloadDescription] = []
    samples: dict[int, DetectorInput] = {}
    for number, capture in enumerate(captures):
        fields = _parse_fields(capture.exchange.response) if capture.headers is None else capture.headers
        content_type = fields.get("Content-Type")
        media_type, charset = identify_media_type(capture.payload, content_type), ""
        if media_type in PAGES and capture.payload:
            page = capture.payload[:MAX_PAGE_BYTES]
            encoding = find_encoding(page, content_type=content_type)
            charset = iana_name(encoding.name)
            # Only successful pages have languages: Common Crawl has none for error pages.
            if detect and capture.subset == "warc":
                hints = top_level_domain(capture.exchange.url), (fields.get("Content-Language") or "")[:MAX_HINT]
                samples[number] = DetectorInput(_to_utf8(page, encoding), *hints)
        descriptions.append(PayloadDescription(media_type, charset))
    if detect and samples:
        for number, found in zip(samples, detect(list(samples.values())), strict=True):
            descriptions[number] = msgspec.structs.replace(descriptions[number], languages=found)
    return descriptions


def _to_utf8(page: bytes, encoding: FoundEncoding) -> bytes:
    """Return a page in UTF-8, without its byte order mark. What is UTF-8 already may hold invalid bytes."""
    text = page[encoding.mark :]
    return text if encoding.name == "utf-8" else decode_as(text, encoding.name).encode("utf-8", "replace")


def _parse_fields(response: bytes) -> Headers:
    """Return the headers of a response; none for an invalid head, whose bytes are stored all the same."""
    try:
        return parse_response_head(response[: end_of_head(response) or len(response)]).headers
    except BadInput:
        return Headers()
