"""What is read from the content of a capture, by its kind."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import msgspec

from webmill.extract.content import (
    PDF_READER,
    ExtractedContent,
    PageMetadata,
    UnreadableContent,
    read_maybe_feed,
    read_pdf,
    read_plain,
)
from webmill.extract.extractors import WITHOUT_HTML, text_by
from webmill.extract.head import absolute, clean
from webmill.extract.kinds import ContentKind
from webmill.extract.recipe import Recipe
from webmill.formats.html.charset import decode_page, spelled
from webmill.formats.html.head import read_head
from webmill.formats.html.page import HtmlPage, read_html
from webmill.formats.html.published_date import published_of

PDF_CPU = 60.0  # seconds: books have a thousand pages


class CaptureBody(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a capture, codings undone. `content_type` is the server's, with its charset."""

    data: bytes
    url: str
    content_type: str | None = None
    wet_text: str | None = None
    allow: Callable[[float], None]  # asks for so many seconds of CPU


def read_body(kind: ContentKind, body: CaptureBody, recipe: Recipe) -> ExtractedContent | UnreadableContent:
    """Return what was found. BadInput: it is of a kind that could be read, and cannot."""
    if kind == "html":
        return _read_page(body, recipe)
    if recipe.extractor == "none":
        return ExtractedContent(kind=kind)
    if recipe.extractor in WITHOUT_HTML or not body.data:
        return ExtractedContent(kind=kind, text=clean(body.wet_text) or "", extractor=recipe.extractor)
    match kind:
        case "text":
            return read_plain(body.data, content_type=body.content_type)
        case "pdf" if not find_spec(PDF_READER):
            return UnreadableContent(kind, "no reader for application/pdf: pip install 'webmill[pdf]'")
        case "pdf":
            body.allow(PDF_CPU)
            return read_pdf(body.data)
        case _:
            return read_maybe_feed(body.data, kind, content_type=body.content_type)


def _read_page(body: CaptureBody, recipe: Recipe) -> ExtractedContent:
    decoded = decode_page(body.data, content_type=body.content_type)
    html = decoded.text
    head = read_head(html)
    base = absolute(body.url, head.base) or body.url
    parsed = read_html(html) if recipe.links else None
    return ExtractedContent(
        kind="html",
        text=_text(html, parsed, body, recipe),
        extractor=None if recipe.extractor == "none" else recipe.extractor,
        about=PageMetadata(
            title=clean(head.title),
            description=clean(head.meta("description")),
            published=published_of(html, head),
            keywords=clean(head.meta("keywords")),
            canonical=absolute(base, head.related("canonical")),
            icon=absolute(base, head.related("icon", "apple-touch-icon")),
            site_name=clean(head.meta("og:site_name")),
        ),
        charset=spelled(decoded.encoding),
        links=parsed.links if parsed else (),
        base=base,
        source=html,
    )


def _text(html: str, parsed: HtmlPage | None, body: CaptureBody, recipe: Recipe) -> str | None:
    match recipe.extractor:
        case "none":
            return None
        case "wet":
            return clean(body.wet_text) or ""
        case "plain" if parsed:
            return clean(parsed.text)
        case extractor:
            return clean(text_by(extractor, html))
