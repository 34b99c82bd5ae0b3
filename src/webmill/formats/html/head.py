"""Parse the head of a page: title, base, metas and links to related resources.

    head = read_head(decode_page(body, content_type=…).text)
    head.title, head.meta("description"), head.related("canonical")

Only the head is scanned, and only the tags that are asked for are parsed: `read_html`, which reads the whole page,
costs many times as much. `MAX_HEAD` bounds a head without an end. Tags are split as `tokens` splits them, and no
expression backtracks: no head makes this slow.
"""

from __future__ import annotations

import re

import msgspec

from webmill.formats.html import links as html_links
from webmill.formats.html.entities import decode_text
from webmill.formats.html.tokens import ATTRIBUTES, COMMENT, SPACE, is_self_closing

MAX_HEAD = 256 << 10  # characters
MAX_TITLE = 300  # characters
_CODE = "|".join(rf"{name}\b{ATTRIBUTES}[{SPACE}]*+(?<!/)>(?:[^<]++|<(?!/{name}))*+" for name in ("script", "style"))
# Three groups for a tag: name, attributes, and the text of a title. None for comments, scripts and styles.
_TAGS = re.compile(
    rf"<(?:(meta|link|base|title|body|svg|/svg|/head)(?=[{SPACE}<>=/]|\Z)({ATTRIBUTES})[{SPACE}]*+>?([^<]*+)"
    rf"|{_CODE}|{COMMENT})",
    re.IGNORECASE,
)


class HtmlHead(msgspec.Struct, frozen=True, kw_only=True):
    """The head of a page. The title is cleaned: white space collapsed, entities decoded. Tags are kept as written."""

    title: str | None = None
    base: str | None = None
    metas: tuple[str, ...] = ()
    links: tuple[str, ...] = ()

    def meta(self, name: str) -> str | None:
        """Return the last non-blank content of the <meta> with this name, in whichever attribute the name is."""
        for raw in reversed(self.metas):
            if name in raw.lower():
                meta = html_links.parse_meta(raw)
                names = (meta.name, meta.property, meta.http_equiv) if meta else ()
                if meta and (meta.content or "").strip() and any(other and other.lower() == name for other in names):
                    return meta.content
        return None

    def related(self, *relations: str) -> str | None:
        """Return the URL of the first <link> with one of these relations, tried in order."""
        for relation in relations:
            for raw in self.links:
                link = html_links.parse_head_link(raw) if relation in raw.lower() else None
                if link and link.url and relation in (link.rel or "").lower().split():
                    return link.url
        return None


def read_head(page: str) -> HtmlHead:
    """Parse the head. If the title is not in it, the page is searched on for a title, up to the limit."""
    title: str | None = None
    base: str | None = None
    metas: list[str] = []
    links: list[str] = []
    in_svg = False  # titles in an SVG are not those of the page
    for found in _TAGS.finditer(page, 0, MAX_HEAD):
        name = (found[1] or "").lower()
        if name == "meta":
            metas.append(found[2])
        elif name == "link":
            links.append(found[2])
        elif name == "title" and not title and not in_svg and not is_self_closing(found[2]):
            title = _clean_title(found[3])
        elif name == "base" and base is None:
            base = html_links.parse_base(found[2])
        elif name.endswith("svg"):
            in_svg = name == "svg"
        elif name in ("body", "/head") and title:
            break
    return HtmlHead(title=title, base=base, metas=tuple(metas), links=tuple(links))


def _clean_title(text: str) -> str | None:
    return " ".join(decode_text(text[: 4 * MAX_TITLE]).split())[:MAX_TITLE].rstrip() or None
