"""Should a page have a WET record? Common Crawl's extractor writes one for HTML that has some text."""

from __future__ import annotations

import re

from webmill.formats.http_records import read_response
from webmill.model import Record

_HTML = ("text/html", "application/xhtml+xml")
_LOOKED_AT = 1 << 20
# What is not shown; an element that does not end hides the rest.
_HIDDEN = re.compile(
    rb"<!--.*?(?:-->|\Z)|<(script|style)\b.*?(?:</\1|\Z)|<[a-z/!?][^>]*(?:>|\Z)",
    re.IGNORECASE | re.DOTALL,
)


def has_text(capture: Record) -> bool:
    """Whether it is HTML with something to be read outside of tags, scripts and comments."""
    if capture.type != "response":
        return False
    payload_type = capture.headers.get("WARC-Identified-Payload-Type")
    http = read_response(capture.content)
    is_html = payload_type in _HTML if payload_type else "html" in (http.content_type or "").lower()
    return is_html and bool(_HIDDEN.sub(b"", http.content.data[:_LOOKED_AT]).strip())
