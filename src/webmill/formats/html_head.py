"""What a page says about itself in its head: title, base, metas, links to what belongs to it.

    head = read_head(decode_page(body, content_type=…).text)
    head.title, head.meta("description"), head.related("canonical")

No more of the page is looked at than its head, of that only the tags that say something, and of those only the ones
that are asked for: `read_html`, which reads all of a page, costs thirty times as much. `LIMIT` bounds a head without
an end.
"""

from __future__ import annotations

import msgspec

from webmill.formats import html_links
from webmill.formats.html_entities import decode_text
from webmill.formats.html_links import Meta
from webmill.formats.html_tokens import is_empty, markup_of, read_tokens

LIMIT = 256 << 10  # characters
LONGEST_TITLE = 300  # characters
_TAGS = markup_of("HEAD", "BODY", "TITLE", "META", "LINK", "BASE", "SVG", "SCRIPT", "STYLE")


class HtmlHead(msgspec.Struct, frozen=True, kw_only=True):
    """The title is as people see it: white space collapsed, entities decoded. Tags are kept as they were written."""

    title: str | None = None
    base: str | None = None
    metas: tuple[str, ...] = ()
    links: tuple[str, ...] = ()

    def meta(self, name: str) -> str | None:
        """Return the last content of this name that is not blank, whichever attribute has the name."""
        for raw in reversed(self.metas):
            meta = html_links.meta_of(raw) if name in raw.lower() else None
            if meta and meta.content and meta.content.strip() and name in _names(meta):
                return meta.content
        return None

    def related(self, *relations: str) -> str | None:
        """Return the address of the first <link> with the first of these relations that there is."""
        for relation in relations:
            for raw in self.links:
                link = html_links.head_link_of(raw) if relation in raw.lower() else None
                if link and link.url and relation in (link.rel or "").lower().split():
                    return link.url
        return None


def _names(meta: Meta) -> tuple[str, ...]:
    return tuple((part or "").lower() for part in (meta.name, meta.property, meta.http_equiv))


def read_head(page: str) -> HtmlHead:
    """Return what the head says. A page that has its title elsewhere is read on to that, up to the limit."""
    heard = _Heard()
    try:
        read_tokens(page[:LIMIT], heard, markup=_TAGS)
    except _Enough:
        pass
    return HtmlHead(title=heard.title, base=heard.base, metas=tuple(heard.metas), links=tuple(heard.links))


class _Enough(Exception):
    """The head is over."""


class _Heard:
    """Hears the tags of a head."""

    def __init__(self) -> None:
        self.title: str | None = None
        self.base: str | None = None
        self.metas: list[str] = []
        self.links: list[str] = []
        self._in_title = self._in_svg = False

    def add_text(self, text: str) -> None:
        if self._in_title:
            self.title = " ".join(decode_text(text[: 4 * LONGEST_TITLE]).split())[:LONGEST_TITLE] or None

    def add_style(self, text: str) -> None:
        """Says nothing about the page."""

    def open(self, name: str, attributes: str) -> None:
        self._in_title = False
        if name == "META":
            self.metas.append(attributes)
        elif name == "LINK":
            self.links.append(attributes)
        elif name == "TITLE":  # a picture (SVG) has titles that are not the page's
            self._in_title = self.title is None and not self._in_svg and not is_empty(attributes)
        elif name == "BASE":
            self.base = html_links.base_of(attributes) if self.base is None else self.base
        elif name == "SVG":
            self._in_svg = True
        elif name == "BODY":
            self._end()

    def close(self, name: str) -> None:
        self._in_title = False
        if name == "HEAD":
            self._end()
        elif name == "SVG":
            self._in_svg = False

    def _end(self) -> None:
        if self.title:
            raise _Enough
