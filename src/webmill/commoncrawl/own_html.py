"""What Common Crawl's extractor would say of a capture: where the WAT or WET file is not at hand, or has lost it."""

from __future__ import annotations

import msgspec

from webmill.errors import BadInput
from webmill.formats.html import HtmlPage, read_html, read_html_text
from webmill.formats.http_records import HttpResponse, read_response
from webmill.formats.lenient import build
from webmill.formats.wat import Head, HtmlMetadata, Link, Meta, Script
from webmill.model import Record

_HTML = ("text/html", "application/xhtml+xml")


def is_html(capture: Record, http: HttpResponse) -> bool:
    """The extractor's rule: by what the crawler found it to be, or else by what the server called it."""
    if capture.type != "response":
        return False
    found = capture.headers.get("WARC-Identified-Payload-Type")
    return found in _HTML if found else "html" in (http.content_type or "").lower()


def read_own_html(capture: Record, http: HttpResponse) -> HtmlMetadata | None:
    """Title, metas and links of the page itself. Raises BadInput for one that is too long."""
    return _as_metadata(read_html(http.text.text)) if is_html(capture, http) else None


def read_own_text(capture: Record, http: HttpResponse) -> str | None:
    """The page's plain text, None when there is none. Raises BadInput for a page that is too long."""
    return (read_html_text(http.text.text).text or None) if is_html(capture, http) else None


def has_text(capture: Record) -> bool:
    """Should there be a WET record?"""
    try:
        return read_own_text(capture, read_response(capture.content)) is not None
    except BadInput:
        return True


def _as_metadata(page: HtmlPage) -> HtmlMetadata:
    head = Head(
        title=page.title,
        base=page.base,
        metas=tuple(build(Meta, msgspec.to_builtins(meta)) for meta in page.metas),
        links=tuple(build(Link, msgspec.to_builtins(link)) for link in page.head_links),
        scripts=tuple(build(Script, msgspec.to_builtins(script)) for script in page.scripts),
    )
    return HtmlMetadata(head=head, links=tuple(build(Link, msgspec.to_builtins(link)) for link in page.links))
