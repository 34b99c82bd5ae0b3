"""Parse the links, metas and scripts of tags, by the rules of Common Crawl's WAT files."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from webmill.formats.html.entities import decode_attribute
from webmill.formats.html.tokens import parse_attributes

Attributes = dict[str, str | None]


class HtmlLink(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A link of a page. `path` says where it was found: `A@/href`, `IMG@/src`, `LINK@/href`, `SCRIPT@/src`...

    A link in a style sheet has `href` instead of `url`.
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
    """A <meta>; `HTML@/lang` and `HTML@/xml:lang` are attributes of <html>."""

    name: str | None = None
    rel: str | None = None
    content: str | None = None
    http_equiv: str | None = None
    property: str | None = None


# --- links in attributes ----------------------------------------------------------------------------------------------

# tag -> attributes that hold a link; then attributes that are kept along with it
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
_KEPT_ALONG: dict[tuple[str, str], tuple[str, ...]] = {
    ("AREA", "href"): ("rel",),
    ("FORM", "action"): ("target", "method"),
    ("IMG", "src"): ("alt", "title"),
}
_ANCHOR = ("target", "alt", "title", "rel", "hreflang", "type")
_CLICKED = frozenset({"DIV", "INPUT"})
_ANYWHERE = frozenset({"background", "data-href", "data-uri"})  # on any tag


def parse_tag_links(tag: str, raw: str) -> list[HtmlLink]:
    """Return the links of a tag other than <a>, <link> and <script>, which have their own functions."""
    names = _LINKS.get(tag, ())
    lower = raw.lower()
    may_be_anywhere = "background" in lower or "data-href" in lower or "data-uri" in lower
    may_be_clicked = tag in _CLICKED and "onclick" in lower
    if not (names or may_be_anywhere or may_be_clicked):  # as for nearly all tags
        return []
    attributes = parse_attributes(raw)
    found = [_link(tag, name, attributes) for name in attributes if name in _ANYWHERE] if may_be_anywhere else []
    found += [_link(tag, name, attributes, _KEPT_ALONG.get((tag, name), ())) for name in names]
    links = [link for link in found if link]
    if may_be_clicked:
        links += _onclick_links(tag, _decoded(attributes, "onclick") or "")
    return links


def parse_anchor(raw: str) -> HtmlLink | None:
    """Return the link of an <a>; None without a URL: then it is only an anchor."""
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


_MAX_DATA_URL = 128


def strip_data_url(url: str) -> str:
    """Return a `data:` URL up to its comma: the data may have megabytes. Other URLs are unchanged."""
    if not url.startswith("data:"):
        return url
    comma = url.find(",", 5, _MAX_DATA_URL + 1)
    return url[: comma + 1] if comma >= 0 else url[:_MAX_DATA_URL]


# --- links in scripts and style sheets --------------------------------------------------------------------------------

# Only obvious cases: a handler that only sets the location, or that begins with opening a window.
_GO = re.compile(r"(?:javascript:)?(?:[a-z]++\.)?location(?:\.href)?\s*+=\s*+'([^'\"]{3,256}+)'\s*+\Z", re.IGNORECASE)
_OPEN = re.compile(r"(?:javascript:)?[a-z]++\.open\((['\"])([^'\"]{3,256}+)\1\s*+[,)]", re.IGNORECASE)
_CSS_URL = re.compile(r"url\s*+\(\s*+([^()\s]{1,8000}+)\s*+\)", re.ASCII)
_CSS_IMPORT = re.compile(r"""@import\s++("[^"]++"|'[^']++'|[^\s;'"()]++)\s*+;""", re.ASCII)
_QUOTES_BEFORE = re.compile(r"""(?:\\?["'])*+""")
_QUOTES_BEHIND = re.compile(r"""(?:["']\\?)*+""")  # read backwards
_MAX_STYLE = 100_000


def parse_style_links(content: str) -> Iterator[HtmlLink]:
    content = decode_attribute(content)
    for pattern in (_CSS_URL, _CSS_IMPORT):
        for found in pattern.finditer(content):
            if url := _unquote(found[1]):
                yield HtmlLink("STYLE/#text", href=strip_data_url(url))
            if found.end() >= _MAX_STYLE:
                break


def _unquote(url: str) -> str:
    """Strip quotes at both ends, also escaped ones. One expression that searches from every place would take quadratic
    time."""
    url = url[_QUOTES_BEFORE.match(url).end() :]  # type: ignore[union-attr]  # it also matches nothing
    url = url[::-1]
    return url[_QUOTES_BEHIND.match(url).end() :][::-1]  # type: ignore[union-attr]


def _onclick_links(tag: str, script: str) -> Iterator[HtmlLink]:
    for pattern in (_GO, _OPEN):
        if found := pattern.match(script):
            yield HtmlLink(f"{tag}@/onclick", strip_data_url(found.groups()[-1]))


# --- metas ------------------------------------------------------------------------------------------------------------


def parse_meta(raw: str) -> HtmlMeta | None:
    """Parse a <meta>; return None if it has only one attribute of interest: a name or a content alone."""
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
