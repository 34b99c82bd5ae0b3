"""Which attributes of which tags are links, metas and scripts: the rules of Common Crawl's WAT files."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from webmill.formats.html.entities import decode_attribute
from webmill.formats.html.tokens import parse_attributes

Attributes = dict[str, str | None]


class HtmlLink(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A reference to elsewhere. `path` says where it stood: `A@/href`, `IMG@/src`, `LINK@/href`, `SCRIPT@/src`...

    One found in a style sheet has `href` in the place of `url`.
    """

    path: str
    url: str | None = None
    href: str | None = None
    target: str | None = None
    method: str | None = None
    alt: str | None = None
    title: str | None = None
    rel: str | None = None
    hreflang: str | None = None
    type: str | None = None
    text: str | None = None


class HtmlMeta(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, rename={"http_equiv": "http-equiv"}):
    """A <meta>; `HTML@/lang` and `HTML@/xml:lang` stand for attributes of <html>."""

    name: str | None = None
    rel: str | None = None
    content: str | None = None
    http_equiv: str | None = None
    property: str | None = None


# --- links in attributes ----------------------------------------------------------------------------------------------

# tag -> attributes that hold a link; then what is told along with them
_LINKS: dict[str, tuple[str, ...]] = {
    "APPLET": ("codebase", "cdata"),
    "AREA": ("href",),
    "AUDIO": ("src",),
    "BLOCKQUOTE": ("cite",),
    "BUTTON": ("formaction",),
    "DEL": ("cite",),
    "EMBED": ("src",),
    "FORM": ("action",),
    "FRAME": ("src",),
    "IFRAME": ("src",),
    "IMG": ("src", "longdesc"),
    "INPUT": ("src", "formaction"),
    "INS": ("cite",),
    "MENUITEM": ("icon",),
    "OBJECT": ("codebase", "cdata", "data"),
    "Q": ("cite",),
    "SOURCE": ("src",),
    "TRACK": ("src",),
    "VIDEO": ("src", "poster"),
}
_TOLD_ALONG: dict[tuple[str, str], tuple[str, ...]] = {
    ("AREA", "href"): ("rel",),
    ("FORM", "action"): ("target", "method"),
    ("IMG", "src"): ("alt", "title"),
}
_ANCHOR = ("target", "alt", "title", "rel", "hreflang", "type")
_CLICKED = frozenset({"DIV", "INPUT"})
_ANYWHERE = frozenset({"background", "data-href", "data-uri"})  # on any tag


def parse_tag_links(tag: str, raw: str) -> list[HtmlLink]:
    """The links of a tag, but for <a>, <link> and <script>, which go their own ways."""
    names = _LINKS.get(tag, ())
    lower = raw.lower()
    may_be_anywhere = "background" in lower or "data-href" in lower or "data-uri" in lower
    may_be_clicked = tag in _CLICKED and "onclick" in lower
    if not (names or may_be_anywhere or may_be_clicked):  # what nearly all tags come to
        return []
    attributes = parse_attributes(raw)
    found = [_link(tag, name, attributes) for name in attributes if name in _ANYWHERE] if may_be_anywhere else []
    found += [_link(tag, name, attributes, _TOLD_ALONG.get((tag, name), ())) for name in names]
    links = [link for link in found if link]
    if may_be_clicked:
        links += _clicked(tag, _decoded(attributes, "onclick") or "")
    return links


def parse_anchor(raw: str) -> HtmlLink | None:
    """None for <a> without an address: it holds no link, but a place."""
    return _link("A", "href", parse_attributes(raw), _ANCHOR)


def parse_head_link(raw: str) -> HtmlLink | None:
    return _link("LINK", "href", parse_attributes(raw), ("rel", "type"))


def parse_script(raw: str) -> HtmlLink | None:
    return _link("SCRIPT", "src", parse_attributes(raw), ("type",))


def parse_base(raw: str) -> str | None:
    return _decoded(parse_attributes(raw), "href")


def _link(tag: str, name: str, attributes: Attributes, along: tuple[str, ...] = ()) -> HtmlLink | None:
    url = attributes.get(name)
    if url is None:
        return None
    others = {other: decode_attribute(value) for other in along if (value := attributes.get(other)) is not None}
    return HtmlLink(f"{tag}@/{name}", strip_data_url(decode_attribute(url)), **others)


def _decoded(attributes: Attributes, name: str) -> str | None:
    value = attributes.get(name)
    return None if value is None else decode_attribute(value)


_MOST_OF_DATA_URL = 128


def strip_data_url(url: str) -> str:
    """A `data:` URL up to its comma: what follows is no address, and may be megabytes."""
    if not url.startswith("data:"):
        return url
    comma = url.find(",", 5, _MOST_OF_DATA_URL + 1)
    return url[: comma + 1] if comma >= 0 else url[:_MOST_OF_DATA_URL]


# --- links in scripts and style sheets --------------------------------------------------------------------------------

# Only what is plain to see: a handler that does nothing but go elsewhere, or that begins by opening a window.
_GO = re.compile(r"(?:javascript:)?(?:[a-z]++\.)?location(?:\.href)?\s*+=\s*+'([^'\"]{3,256}+)'\s*+\Z", re.IGNORECASE)
_OPEN = re.compile(r"(?:javascript:)?[a-z]++\.open\((['\"])([^'\"]{3,256}+)\1\s*+[,)]", re.IGNORECASE)
_CSS_URL = re.compile(r"url\s*+\(\s*+([^()\s]{1,8000}+)\s*+\)", re.ASCII)
_CSS_IMPORT = re.compile(r"""@import\s++("[^"]++"|'[^']++'|[^\s;'"()]++)\s*+;""", re.ASCII)
_QUOTES_BEFORE = re.compile(r"""(?:\\?["'])*+""")
_QUOTES_BEHIND = re.compile(r"""(?:["']\\?)*+""")  # read backwards
_MOST_OF_STYLE = 100_000


def parse_style_links(content: str) -> Iterator[HtmlLink]:
    content = decode_attribute(content)
    for pattern in (_CSS_URL, _CSS_IMPORT):
        for found in pattern.finditer(content):
            if url := _unquoted(found[1]):
                yield HtmlLink("STYLE/#text", href=strip_data_url(url))
            if found.end() >= _MOST_OF_STYLE:
                break


def _unquoted(url: str) -> str:
    """Without quotes at its ends, also when they have a backslash. Looking for them from every place inside would take
    the square of the length."""
    url = url[_QUOTES_BEFORE.match(url).end() :]  # type: ignore[union-attr]  # it matches nothing, too
    url = url[::-1]
    return url[_QUOTES_BEHIND.match(url).end() :][::-1]  # type: ignore[union-attr]


def _clicked(tag: str, script: str) -> Iterator[HtmlLink]:
    for pattern in (_GO, _OPEN):
        if found := pattern.match(script):
            yield HtmlLink(f"{tag}@/onclick", strip_data_url(found.groups()[-1]))


# --- metas ------------------------------------------------------------------------------------------------------------


def parse_meta(raw: str) -> HtmlMeta | None:
    """None with less than two things to say: a name without a content, or a content that schema.org names elsewhere."""
    attributes = parse_attributes(raw)
    found = {
        field: value
        for field, name in (
            ("name", "name"),
            ("rel", "rel"),
            ("content", "content"),
            ("http_equiv", "http-equiv"),
            ("property", "property"),
        )
        if (value := _decoded(attributes, name)) is not None
    }
    if found.get("property") == "og:image" and "content" in found:
        found["content"] = strip_data_url(found["content"])
    return HtmlMeta(**found) if len(found) > 1 else None


def parse_html_languages(raw: str) -> Iterator[HtmlMeta]:
    attributes = parse_attributes(raw)
    for name in ("lang", "xml:lang"):
        value = _decoded(attributes, name)
        if value is not None:
            yield HtmlMeta(name=f"HTML@/{name}", content=value)
