"""Extract the content of a capture, by its kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec

import msgspec

from webmill.extract.cleaning import absolute_url, clean_text
from webmill.extract.content import (
    PDF_READER,
    ExtractedContent,
    PageMetadata,
    UnreadableContent,
    read_feed_or_refuse,
    read_pdf,
    read_plain,
)
from webmill.extract.extractors import WITHOUT_HTML, extract_text, extract_union
from webmill.extract.ignored_elements import remove_elements
from webmill.extract.kinds import ContentKind
from webmill.extract.recipe import Recipe
from webmill.formats.encodings import iana_name
from webmill.formats.html.author import clean_name, find_author
from webmill.formats.html.charset import decode_page
from webmill.formats.html.head import HtmlHead, read_head
from webmill.formats.html.json_ld import Thing, read_json_ld, site_name_of
from webmill.formats.html.page import HtmlPage, read_html
from webmill.formats.html.published_date import find_modified_date, find_published_date

PDF_CPU = 60.0  # seconds: a book has a thousand pages


class CaptureBody(msgspec.Struct, frozen=True, kw_only=True):
    """The decoded body of a capture. `content_type` is the server's, with its charset. Elements that match `ignored`
    (CSS) are left out of the text."""

    data: bytes
    url: str
    content_type: str | None = None
    wet_text: str | None = None
    ignored: tuple[str, ...] = ()
    allow: Callable[[float], None]  # grants this many seconds of CPU time


def read_body(kind: ContentKind, body: CaptureBody, recipe: Recipe) -> ExtractedContent | UnreadableContent:
    """Return the extracted content. Raise BadInput if it is of a readable kind, but cannot be read."""
    if kind == "html":
        return _read_page(body, recipe)
    if recipe.extractor == "none":
        return ExtractedContent(kind=kind)
    if recipe.extractor in WITHOUT_HTML or not body.data:
        return ExtractedContent(kind=kind, text=clean_text(body.wet_text) or "", extractor=recipe.extractor)
    match kind:
        case "text":
            return read_plain(body.data, content_type=body.content_type)
        case "pdf" if not find_spec(PDF_READER):
            return UnreadableContent(kind, "no reader for application/pdf: pip install 'webmill[pdf]'")
        case "pdf":
            body.allow(PDF_CPU)
            return read_pdf(body.data)
        case _:
            return read_feed_or_refuse(body.data, kind, content_type=body.content_type)


def _read_page(body: CaptureBody, recipe: Recipe) -> ExtractedContent:
    decoded = decode_page(body.data, content_type=body.content_type)
    html = decoded.text
    head = read_head(html)
    base = absolute_url(body.url, head.base) or body.url
    parsed = read_html(html) if recipe.links else None
    text, extractor = _text(html, parsed, body, recipe) if not body.ignored else _remaining_text(html, body, recipe)
    return ExtractedContent(
        kind="html",
        text=text,
        extractor=extractor,
        about=_stated_metadata(html, head, base),
        charset=iana_name(decoded.encoding),
        links=parsed.links if parsed else (),
        base=base,
        source=html,
    )


def _stated_metadata(html: str, head: HtmlHead, base: str) -> PageMetadata:
    things = read_json_ld(html)
    return PageMetadata(
        title=clean_text(head.title),
        description=clean_text(head.meta("description")),
        published=find_published_date(html, head),
        modified=find_modified_date(html, head),
        author=clean_text(find_author(html, head, things)),
        keywords=clean_text(head.meta("keywords")),
        canonical=absolute_url(base, head.related("canonical")),
        icon=absolute_url(base, head.related("icon", "apple-touch-icon")),
        site_name=clean_text(head.meta("og:site_name") or _stated_site_name(head, things)),
    )


def _stated_site_name(head: HtmlHead, things: Sequence[Thing]) -> str | None:
    stated = site_name_of(things)
    return (clean_name(stated) if stated else None) or head.meta("application-name")


def _remaining_text(html: str, body: CaptureBody, recipe: Recipe) -> tuple[str | None, str | None]:
    return _text(remove_elements(html, body.ignored), None, body, recipe)


def _text(html: str, parsed: HtmlPage | None, body: CaptureBody, recipe: Recipe) -> tuple[str | None, str | None]:
    """Return the text of a page, and the extractor or plugin that it comes from."""
    if recipe.extractor != "none" and (given := recipe.load_plugins().extract_text(html, body.url)):
        return clean_text(given[0]), given[1]
    match recipe.extractor:
        case "none":
            return None, None
        case "wet":
            return clean_text(body.wet_text) or "", "wet"
        case "plain" if parsed:
            return clean_text(parsed.text), "plain"
        case "union":
            chosen = extract_union(html)
            return clean_text(chosen.text), chosen.extractor
        case extractor:
            return clean_text(extract_text(extractor, html)), extractor
