"""The title of an archived page, read from its beginning."""

from __future__ import annotations

import re

from webmill.formats.html.charset import decode_page
from webmill.formats.html.entities import decode_text
from webmill.serve.captures.response import parse_content_type
from webmill.serve.replay.content import HTML

TITLE_WITHIN = 64 << 10  # bytes
MOST_OF_TITLE = 500
_TITLE = re.compile(r"<title(?:\s[^<>]*+)?>", re.IGNORECASE)
_TITLE_END = re.compile(r"</title(?=[\s/>])", re.IGNORECASE)


def title_of(content_type: str, page: bytes) -> str:
    """Return the title as a browser would show it; nothing for content that is not HTML."""
    if parse_content_type(content_type)[0] not in HTML:
        return ""
    text = decode_page(page[:TITLE_WITHIN], content_type=content_type).text
    start = _TITLE.search(text)
    end = _TITLE_END.search(text, start.end()) if start else None
    if not start or not end:
        return ""
    return " ".join(decode_text(text[start.end() : end.start()]).split())[:MOST_OF_TITLE]
