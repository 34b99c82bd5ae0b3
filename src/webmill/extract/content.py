"""Extract the content of captures that are not HTML: plain text, feeds, PDF.

All are limited like pages: `parse_limit` beyond `MAX_PAGE` characters.
"""

from __future__ import annotations

import io
import logging
import re
from datetime import datetime
from importlib import import_module
from itertools import islice

import msgspec

from webmill.errors import BadInput
from webmill.extract.cleaning import clean_text
from webmill.extract.kinds import ContentKind
from webmill.formats.encodings import iana_name
from webmill.formats.html.charset import decode_page, decode_plain
from webmill.formats.html.links import HtmlLink
from webmill.formats.html.page import MAX_PAGE
from webmill.formats.html.plain_text import PlainText
from webmill.formats.site.feed import JSON_FEED, read_feed

_HEADING = re.compile(r"#{1,6}[ \t]+(.+?)[ \t#]*")
_MAX_HEADING = 300  # characters
_TITLE_LINES = 50  # of Markdown in which a title is searched
_START = 4096  # bytes


class PageMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """What a page states about itself. The fields are columns of `Document` with the same names."""

    title: str | None = None
    description: str | None = None
    published: datetime | None = None
    modified: datetime | None = None
    author: str | None = None
    keywords: str | None = None
    canonical: str | None = None
    icon: str | None = None
    site_name: str | None = None


class ExtractedContent(msgspec.Struct, frozen=True, kw_only=True):
    """The extracted content of a capture. `text` is None if none was requested; `links` are relative to `base`.

    `source` is used to detect languages if there is little text; `language` is what the content states: `en-us`.
    """

    kind: ContentKind
    text: str | None = None
    extractor: str | None = None
    about: PageMetadata = PageMetadata()
    charset: str | None = None
    links: tuple[HtmlLink, ...] = ()
    base: str = ""
    source: str = ""
    language: str = ""


class UnreadableContent(msgspec.Struct, frozen=True):
    """Content that has no text. `error` says which package is missing."""

    kind: ContentKind
    error: str | None = None


# --- plain text ---


def read_plain(body: bytes, *, content_type: str | None = None) -> ExtractedContent | UnreadableContent:
    """Return the content of a plain text; the title of Markdown is its first heading."""
    text = decode_plain(body, content_type=content_type)
    if "\0" in text.text[:_START]:
        return UnreadableContent("binary")
    if len(text.text) > MAX_PAGE:
        raise BadInput(f"the text has {len(text.text):,} characters; the limit is {MAX_PAGE:,}", reason="parse_limit")
    is_markdown = "markdown" in (content_type or "").lower()
    title = first_heading(text.text) if is_markdown else None
    return ExtractedContent(
        kind="text",
        text=tidy_text(text.text),
        extractor="text",
        about=PageMetadata(title=clean_text(title)),
        charset=iana_name(text.encoding),
    )


def tidy_text(text: str) -> str:
    """Return text normalised as that of pages: white space collapsed, no empty lines; line breaks stay."""
    out = PlainText()
    for line in text.splitlines():
        out.add(line)
        out.end_line()
    return clean_text(out.text()) or ""


def first_heading(markdown: str) -> str | None:
    """Return the first heading of a Markdown text."""
    for line in islice(markdown.splitlines(), _TITLE_LINES):
        if found := _HEADING.fullmatch(line[:_MAX_HEADING].rstrip()):
            return found[1]
    return None


# --- feeds ---


def read_feed_or_refuse(
    body: bytes, kind: ContentKind, *, content_type: str | None = None
) -> ExtractedContent | UnreadableContent:
    """Return the content of a feed, with a link for each entry. Feeds are often served as plain XML or JSON."""
    if kind == "json" and JSON_FEED.encode() not in body[:_START]:
        return UnreadableContent(kind)
    text = decode_page(body, content_type=content_type)
    try:
        feed = read_feed(text.text)
    except BadInput as error:
        if error.reason != "not_feed":
            raise
        return UnreadableContent("xml" if kind == "feed" else kind)
    return ExtractedContent(
        kind="feed",
        text=clean_text(feed.text),
        extractor="feed",
        about=PageMetadata(title=clean_text(feed.title) or None, description=clean_text(feed.about) or None),
        charset=iana_name(text.encoding),
        links=tuple(
            HtmlLink("ENTRY@/link", url=entry.url, text=entry.title or None) for entry in feed.entries if entry.url
        ),
        language=feed.language,
    )


# --- PDF, by pypdf, which is optional: `webmill[pdf]` ---

PDF_READER = "pypdf"
_MAX_PDF_PAGES = 2000  # the rest is not read
_MAX_TITLE = 500  # characters


def read_pdf(body: bytes) -> ExtractedContent:
    """Return the text of a PDF file. Raise BadInput `encrypted` if it needs a password, or whatever pypdf raises."""
    logging.getLogger(PDF_READER).setLevel(logging.CRITICAL)  # it logs every oddity of a file
    reader = import_module(PDF_READER).PdfReader(io.BytesIO(body), strict=False)
    if reader.is_encrypted and not reader.decrypt(""):
        raise BadInput("the PDF file needs a password", reason="encrypted")
    texts: list[str] = []
    room = MAX_PAGE
    for page in islice(reader.pages, _MAX_PDF_PAGES):
        texts.append(page.extract_text()[:room])
        room -= len(texts[-1])
        if room <= 0:
            break
    title = reader.metadata.title if reader.metadata else None  # may be of any type
    title = clean_text(title[:_MAX_TITLE].strip() or None) if isinstance(title, str) else None
    return ExtractedContent(
        kind="pdf", text=tidy_text("\n".join(texts)), extractor="pdf", about=PageMetadata(title=title)
    )
