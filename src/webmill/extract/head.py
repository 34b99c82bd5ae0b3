"""What a page says about itself: title, metas, links. From the WAT file, or from its HTML where there is none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from webmill.errors import BadInput
from webmill.extract.composite import Composite
from webmill.formats import urls
from webmill.formats.html import HtmlPage, read_html
from webmill.formats.typed_records import FileType

HTML = ("text/html", "application/xhtml+xml")


class Meta(Protocol):
    @property
    def name(self) -> str | None: ...
    @property
    def http_equiv(self) -> str | None: ...
    @property
    def content(self) -> str | None: ...
    @property
    def property(self) -> str | None: ...  # the last: from here on the word means this


class Link(Protocol):
    @property
    def path(self) -> str | None: ...
    @property
    def url(self) -> str | None: ...
    @property
    def text(self) -> str | None: ...
    @property
    def rel(self) -> str | None: ...


class Head(msgspec.Struct, frozen=True):
    title: str | None = None
    base: str | None = None
    metas: Sequence[Meta] = ()
    head_links: Sequence[Link] = ()
    links: Sequence[Link] = ()
    text: str | None = None  # when all this was read from HTML: its plain text, too

    def meta(self, name: str) -> str | None:
        """The last that is not blank, whichever attribute has the name."""
        found = None
        for meta in self.metas:
            named = (meta.name, meta.property, meta.http_equiv)
            if meta.content and meta.content.strip() and any(part and part.lower() == name for part in named):
                found = meta.content
        return clean(found)

    def related(self, *relations: str) -> str | None:
        """The address of the first <link> with the first of these relations that there is."""
        for relation in relations:
            for link in self.head_links:
                if link.url and relation in (link.rel or "").lower().split():
                    return link.url
        return None


def read_head(page: Composite) -> Head:
    if FileType.WAT in page.offsets:
        return _from_wat(page)
    html = parse_html(page)
    return Head(html.title, html.base, html.metas, html.head_links, html.links, html.text) if html else Head()


def _from_wat(page: Composite) -> Head:
    html = page.description.html if page.description else None
    return Head(html.head.title, html.head.base, html.head.metas, html.head.links, html.links) if html else Head()


def parse_html(page: Composite) -> HtmlPage | None:
    """None when the capture is no HTML page. BadInput `parse_limit` when it is too long."""
    return read_html(page.http.text.text) if page.http and is_html(page) else None


def is_html(page: Composite) -> bool:
    """As the crawler identified it; else as the server said."""
    if not page.http or page.capture.type == "revisit":
        return False
    identified = page.capture.headers.get("WARC-Identified-Payload-Type")
    return identified in HTML if identified else "html" in (page.http.content_type or "").lower()


def media_type(content_type: str | None) -> str | None:
    """`text/html` of `Text/HTML; charset=utf-8`."""
    return clean((content_type or "").partition(";")[0].strip().lower() or None)


def base_of(page: Composite, head: Head) -> str:
    """What the page's links are relative to."""
    return absolute(page.target_uri or "", head.base) or page.target_uri or ""


def absolute(base: str, url: str | None) -> str | None:
    """None for what is no http or https address."""
    if not url:
        return None
    try:
        return urls.join(base, url.strip())
    except BadInput:
        return None


def clean(text: str | None) -> str | None:
    """Without lone surrogates, which no UTF-8 file can hold: they become U+FFFD."""
    if text is None or text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def clean_all(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(clean(text) or "" for text in texts)
