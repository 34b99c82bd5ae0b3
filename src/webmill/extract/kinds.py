"""The kind of content of a capture: by the type that the crawler identified, else by the type that the server stated.

| kind | read as |
|---|---|
| html | pages, XHTML as well |
| text | plain text, Markdown |
| feed | RSS, Atom, JSON Feed |
| pdf | PDF, if a reader is installed (`webmill[pdf]`) |
| xml json | feeds, if they turn out to be one |
| image css script font audio video binary other | never: they have no text |
| robots | never: a robots.txt is for crawlers |
"""

from __future__ import annotations

import re
from typing import Literal

from webmill.extract.cleaning import HTML

ContentKind = Literal[
    "html", "text", "feed", "pdf", "xml", "json",
    "image", "css", "script", "font", "audio", "video", "binary", "other", "robots",
]  # fmt: skip
READABLE: frozenset[ContentKind] = frozenset(("html", "text", "feed", "pdf", "xml", "json"))

_KINDS: dict[str, ContentKind] = {
    **dict.fromkeys(HTML, "html"),
    **dict.fromkeys(("text/plain", "text/markdown", "text/x-markdown"), "text"),
    **dict.fromkeys(("application/rss+xml", "application/atom+xml", "application/feed+json"), "feed"),
    "application/pdf": "pdf",
    "text/css": "css",
    "text/json": "json",
    "text/xml": "xml",
    "application/octet-stream": "binary",
    "application/vnd.ms-fontobject": "font",
}
# The first match counts; anything else is `other`.
_FAMILIES: tuple[tuple[re.Pattern[str], ContentKind], ...] = (
    (re.compile(r"image/.*"), "image"),
    (re.compile(r"audio/.*"), "audio"),
    (re.compile(r"video/.*"), "video"),
    (re.compile(r"font/.*|application/(?:x-)?font.*"), "font"),
    (re.compile(r"(?:text|application)/(?:x-)?(?:java|ecma)script.*"), "script"),
    (re.compile(r"application/(?:json|[^/]*\+json)"), "json"),
    (re.compile(r"application/(?:xml|[^/]*\+xml)"), "xml"),
)
_ROBOTS = re.compile(r"https?://[^/?#]*/robots\.txt", re.IGNORECASE)


def content_kind(*, identified: str | None, declared: str | None) -> ContentKind:
    """Return the kind of content by the media types that the crawler identified and the server declared."""
    if not identified and "html" in (declared or ""):
        return "html"
    return kind_of_media_type(identified or declared or "")


def is_robots_url(url: str) -> bool:
    """Return whether this is a robots.txt, which foreign archives may have among their pages."""
    return _ROBOTS.fullmatch(url) is not None


def kind_of_media_type(type_: str) -> ContentKind:
    """Return the kind of a media type."""
    if found := _KINDS.get(type_):
        return found
    return next((kind for pattern, kind in _FAMILIES if pattern.fullmatch(type_)), "other")
