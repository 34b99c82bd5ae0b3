"""What is read from captures that are no HTML pages: plain text, feeds, PDF; and from pages without a head of HTTP.

Everything here is bounded as pages are: `parse_limit` beyond `MAX_PAGE` characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice

import msgspec

from webmill.errors import BadInput
from webmill.extract.composite import Composite
from webmill.extract.head import Head
from webmill.extract.kinds import READABLE, Kind, LeftOut, content_type_of, kind_of
from webmill.formats.charset import decode_page, decode_plain, spelled
from webmill.formats.feed import JSON_FEED, Feed, read_feed
from webmill.formats.html import MAX_PAGE, read_html
from webmill.formats.html_links import Link, Meta
from webmill.formats.plain_text import PlainText

_HEADING = re.compile(r"#{1,6}[ \t]+(.+?)[ \t#]*")
_LONGEST = 300  # characters of a heading
_LOOKED_AT = 50  # lines of Markdown in which its title is looked for
_START = 4096  # bytes


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """`head.text` is the text; `language` is what the content itself says: `en-us`."""

    kind: Kind
    head: Head
    charset: str | None = None
    language: str = ""


ReadPdf = Callable[[bytes], Content]


def read_content(page: Composite, *, read_pdf: ReadPdf | None = None) -> Content | LeftOut:
    """BadInput: it is of a kind that could be read, and cannot."""
    kind = kind_of(page)
    if kind not in READABLE:
        return LeftOut(kind)  # its body need not be unpacked
    body, content_type = body_of(page), content_type_of(page)
    if not body:
        return LeftOut("empty")
    match kind:
        case "html":
            text = decode_page(body, content_type=content_type)
            html = read_html(text.text)
            head = Head(html.title, html.base, html.metas, html.head_links, html.links, html.text)
            return Content(kind=kind, head=head, charset=spelled(text.encoding))
        case "text":
            return read_plain(body, content_type=content_type)
        case "feed" | "xml" | "json":
            return read_maybe_feed(body, kind, content_type=content_type)
        case "pdf" if read_pdf:
            return read_pdf(body)
        case _:
            return LeftOut(kind)


def body_of(page: Composite) -> bytes:
    return page.http.content.data if page.http else page.capture.content


# --- plain text ---


def read_plain(body: bytes, *, content_type: str | None = None) -> Content | LeftOut:
    text = decode_plain(body, content_type=content_type)
    if "\0" in text.text[:_START]:
        return LeftOut("binary")
    if len(text.text) > MAX_PAGE:
        raise BadInput(f"a text of {len(text.text):,} characters", reason="parse_limit")
    is_markdown = "markdown" in (content_type or "").lower()
    head = Head(title=heading_of(text.text) if is_markdown else None, text=tidied(text.text))
    return Content(kind="text", head=head, charset=spelled(text.encoding))


def tidied(text: str) -> str:
    """As the text of a page: white space collapsed, no empty lines; the lines stay."""
    out = PlainText()
    for line in text.splitlines():
        out.add(line)
        out.end_line()
    return out.text()


def heading_of(markdown: str) -> str | None:
    for line in islice(markdown.splitlines(), _LOOKED_AT):
        if found := _HEADING.fullmatch(line[:_LONGEST].rstrip()):
            return found[1]
    return None


# --- feeds ---


def read_maybe_feed(body: bytes, kind: Kind, *, content_type: str | None = None) -> Content | LeftOut:
    """Feeds are called XML and JSON more often than by their names."""
    if kind == "json" and JSON_FEED.encode() not in body[:_START]:
        return LeftOut(kind)
    text = decode_page(body, content_type=content_type)
    try:
        feed = read_feed(text.text)
    except BadInput as error:
        if error.reason != "not_feed":
            raise
        return LeftOut("xml" if kind == "feed" else kind)
    return Content(kind="feed", head=head_of(feed), charset=spelled(text.encoding), language=feed.language)


def head_of(feed: Feed) -> Head:
    """Each entry is a link."""
    return Head(
        title=feed.title or None,
        metas=(Meta(name="description", content=feed.about),) if feed.about else (),
        links=tuple(Link("ENTRY@/link", url=one.url, text=one.title or None) for one in feed.entries if one.url),
        text=feed.text,
    )
