"""The links of a page with their names, as menus and site maps have them. Pages are hostile: call it in a sandbox."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from webmill.boards.links import clean_link_or_empty
from webmill.boards.listing import Node, one_line, parse_page, text_of
from webmill.formats.html.charset import decode_page

MAX_LINKS = 2000
MAX_NAME = 200  # characters
HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5"})


class NamedLink(Struct, frozen=True, omit_defaults=True):
    """A link; `name` is its text, or what stands for its image, `heading` the last heading before it."""

    url: str
    name: str = ""
    heading: str = ""


class NamedLinks(Struct, frozen=True):
    """The links of a page that can be fetched, in its order; the first `MAX_LINKS`."""

    title: str
    links: tuple[NamedLink, ...]


def read_named_links(html: bytes, *, url: str, content_type: str) -> NamedLinks:
    tree = parse_page(decode_page(html, content_type=content_type).text)
    return NamedLinks(text_of(tree.css_first("title"), MAX_NAME), tuple(_links(tree, url)))


def _links(tree: Node, url: str) -> Iterator[NamedLink]:
    heading, count = "", 0
    for node in tree.css(f"a[href], {', '.join(sorted(HEADINGS))}"):  # in the order of the page
        if node.tag in HEADINGS:
            heading = text_of(node, MAX_NAME)
            continue
        link = clean_link_or_empty(url, node.attributes.get("href") or "")
        if link and count < MAX_LINKS:
            count += 1
            yield NamedLink(link, _name(node), heading)


def _name(anchor: Node) -> str:
    written = text_of(anchor, MAX_NAME)
    if written:
        return written
    picture = anchor.css_first("img[alt]")
    said = (anchor.attributes.get("title"), picture.attributes.get("alt") if picture is not None else "")
    return one_line(next(filter(None, said), "") or "", MAX_NAME)
