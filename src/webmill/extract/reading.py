"""What is read from the content of a capture, by its kind: pages, plain text, feeds, PDF."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from importlib.util import find_spec

import msgspec

from webmill.extract import pdf
from webmill.extract.content import Content, read_maybe_feed, read_plain
from webmill.extract.extractors import WITHOUT_HTML, text_by
from webmill.extract.head import Link, absolute, clean
from webmill.extract.kinds import Kind, LeftOut
from webmill.extract.recipe import Recipe
from webmill.formats.charset import decode_page, spelled
from webmill.formats.html import HtmlPage, read_html
from webmill.formats.html_head import read_head
from webmill.formats.html_published import published_of
from webmill.model import DocumentLink

PDF_CPU = 60.0  # seconds: books have a thousand pages


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a capture, codings undone. `content_type` is the server's, with its charset."""

    data: bytes
    url: str
    content_type: str | None = None
    wet_text: str | None = None
    allow: Callable[[float], None]  # asks for so many seconds of CPU


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What a page says about itself. These are columns of `Document`, by the same names."""

    title: str | None = None
    description: str | None = None
    published: datetime | None = None
    keywords: str | None = None
    canonical: str | None = None
    icon: str | None = None
    site_name: str | None = None


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """`text` is None where none was asked for. `source` is what languages are told by where there is little text, and
    `language` what the content says of itself: `en-us`."""

    kind: Kind
    text: str | None = None
    extractor: str | None = None
    about: About = About()
    charset: str | None = None
    links: tuple[DocumentLink, ...] = ()
    source: str = ""
    language: str = ""


class NoReader(msgspec.Struct, frozen=True):
    """A content of which no text can be made. `error` says what is not installed."""

    kind: Kind
    error: str | None = None


def read_body(kind: Kind, body: Body, recipe: Recipe) -> Found | NoReader:
    """Return what was found. BadInput: it is of a kind that could be read, and cannot."""
    if kind == "html":
        return _read_page(body, recipe)
    if recipe.extractor in WITHOUT_HTML:
        text = None if recipe.extractor == "none" else body.wet_text or ""
        return Found(kind=kind, text=text, extractor=recipe.extractor)
    if not body.data:
        return Found(kind=kind, text="", extractor=kind if kind in ("text", "feed", "pdf") else None)
    content = _read_other(kind, body)
    if isinstance(content, NoReader):
        return content
    return Found(
        kind=content.kind,
        text=clean(content.head.text) or "",
        extractor=content.kind,
        about=About(title=clean(content.head.title), description=content.head.meta("description")),
        charset=content.charset,
        links=tuple(_links(body.url, content.head.links)) if recipe.links else (),
        language=content.language,
    )


def _read_page(body: Body, recipe: Recipe) -> Found:
    decoded = decode_page(body.data, content_type=body.content_type)
    html = decoded.text
    head = read_head(html)
    base = absolute(body.url, head.base) or body.url
    parsed = read_html(html) if recipe.links else None
    return Found(
        kind="html",
        text=_text(html, parsed, body, recipe),
        extractor=None if recipe.extractor == "none" else recipe.extractor,
        about=About(
            title=clean(head.title),
            description=clean(head.meta("description")),
            published=published_of(html, head),
            keywords=clean(head.meta("keywords")),
            canonical=absolute(base, head.related("canonical")),
            icon=absolute(base, head.related("icon", "apple-touch-icon")),
            site_name=clean(head.meta("og:site_name")),
        ),
        charset=spelled(decoded.encoding),
        links=tuple(_links(base, parsed.links)) if parsed else (),
        source=html,
    )


def _text(html: str, parsed: HtmlPage | None, body: Body, recipe: Recipe) -> str | None:
    match recipe.extractor:
        case "none":
            return None
        case "wet":
            return clean(body.wet_text) or ""
        case "plain" if parsed:
            return clean(parsed.text)
        case extractor:
            return clean(text_by(extractor, html))


def _read_other(kind: Kind, body: Body) -> Content | NoReader:
    match kind:
        case "text":
            read = read_plain(body.data, content_type=body.content_type)
        case "pdf":
            if not find_spec(pdf.PACKAGE):
                return NoReader(kind, "no reader for application/pdf: pip install 'webmill[pdf]'")
            body.allow(PDF_CPU)
            read = pdf.content_of(pdf.read_pdf(body.data))
        case _:
            read = read_maybe_feed(body.data, kind, content_type=body.content_type)
    return NoReader(read.kind) if isinstance(read, LeftOut) else read


def _links(base: str, links: Iterable[Link]) -> Iterator[DocumentLink]:
    for link in links:
        if url := absolute(base, link.url):
            yield DocumentLink(url, clean(link.text), clean(link.rel), clean(link.path))
