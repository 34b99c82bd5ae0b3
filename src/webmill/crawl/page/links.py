"""A page to what a crawler wants of it: where it points, what it is called, and whether it may be followed.

    page = read_links(payload, url="https://example.com/", content_type="text/html; charset=utf-8")
    page.links, page.canonical, page.meta_robots

Links are `<a href>`, `<area href>`, `<iframe src>`, `<frame src>`, `<link rel="next|prev|canonical|alternate">`, the
target of `<meta http-equiv=refresh>` and the HTTP field `Link` with the same relations; joined with `<base href>`,
normalised, each once, in the order of the page, at most 10,000. Other schemes than http and https are no links.

It runs in the crawler's own process for every page, so no page may make it slow: see `tags.py`, benchmarks/links.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from webmill.crawl.page.tags import attributes_of, href_of, read_encoded_tags
from webmill.crawl.page.url_joining import Joiner, join_or_none, normalise, without_user
from webmill.errors import BadInput
from webmill.formats.html.charset import find_encoding
from webmill.formats.html.entities import decode_text
from webmill.formats.url.query_encoding import encode_query

MAX_LINKS = 10_000
MAX_PAGE = 8 << 20  # bytes that are looked at
_MAX_TITLE = 1000
_MAX_ROBOTS, _MAX_ROBOTS_CONTENT = 10, 4096  # of these <meta>, and characters of each
_MAX_FIELD = 16_384

_RELATIONS = ("next", "prev", "canonical", "alternate")
_SCHEME = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*+:", re.IGNORECASE)
_REFRESH = re.compile(
    r"""\s*+[0-9.]++\s*+[;,]?\s*+(?:url\s*+=\s*+)?+(?:"([^"]*+)|'([^']*+)|(\S[^\n]*+))""", re.IGNORECASE | re.ASCII
)
_FIELD_LINK = re.compile(r"""<([^<>]*+)>((?:\s*+;\s*+[\w*-]++\s*+(?:=\s*+(?:"[^"]*+"|[^\s";,]*+))?+)*+)""")
_FIELD_REL = re.compile(r"""(?:\A|;)\s*+rel\s*+=\s*+(?:"([^"]*+)"|([^\s";,]*+))""", re.IGNORECASE)
_EDGES = "".join(map(chr, range(0x21)))


class PageLinks(msgspec.Struct, frozen=True, kw_only=True):
    """`nofollow` are those of `links` to which no link without `rel=nofollow` leads.

    | flaw | what was left out |
    |---|---|
    | bad_link | links that are no URLs: `http://`, `http://a b/` or too long |
    | bad_base | a <base href> that is no http(s) URL |
    | page_too_long | what stands behind the first 8 MiB, or the first 100,000 tags of interest |
    | too_many_links | all links after the ten thousandth |
    """

    links: list[str]
    nofollow: frozenset[str] = frozenset()
    title: str | None = None
    charset: str
    meta_robots: str = ""  # of all <meta name=robots>, lower case, with commas between
    canonical: str | None = None
    refresh: str | None = None
    flaws: tuple[str, ...] = ()


def read_links(payload: bytes, *, url: str, content_type: str | None, link_field: str | None = None) -> PageLinks:
    """Read the links of a page. `payload` is HTML without its content coding. BadInput only when `url` is not one.

    `link_field` is the HTTP field `Link` as it came (Latin-1), several joined with commas.
    """
    page, reading = payload[:MAX_PAGE], LinkReading()
    encoding = find_encoding(page, content_type=content_type)
    for tag, attributes, inner in read_encoded_tags(page[encoding.mark :], encoding.name):
        if tag == "a":  # nearly all of them
            reading.add_anchor(attributes, inner)
        else:
            reading.take(tag, attributes, inner)
    if len(payload) > MAX_PAGE:
        reading.flaws.append("page_too_long")
    return reading.resolve(url=url, encoding=encoding.name, link_field=link_field)


class LinkReading:
    """What stands in a page, before it is known what its links are relative to: <base> counts for those before it."""

    def __init__(self) -> None:
        self.found: dict[str, bool] = {}  # link as written -> whether it may be followed
        self.base: str | None = None
        self.title: str | None = None
        self.robots: list[str] = []
        self.canonical: str | None = None
        self.refresh: str | None = None
        self.flaws: list[str] = []

    def take(self, tag: str, raw: str, inner: str) -> None:
        if tag == "a":
            self.add_anchor(raw, inner)
        elif tag in _READ:
            _READ[tag](self, raw, inner)

    def resolve(self, *, url: str, encoding: str, link_field: str | None) -> PageLinks:
        own = joiner_at(url)
        join = joiner_of(own, self.base, self.flaws)
        followed: dict[str, bool] = {}
        _follow(self.found, followed, join=join, encoding=encoding, flaws=self.flaws)
        if link_field:  # for which <base> does not count (RFC 8288, 3.2)
            field = dict.fromkeys(links_of_field(link_field, _RELATIONS), True)
            _follow(field, followed, join=own, encoding="utf-8", flaws=self.flaws)
        return PageLinks(
            links=list(followed),
            nofollow=frozenset(link for link, follow in followed.items() if not follow),
            title=self.title,
            charset=encoding,
            meta_robots=", ".join(self.robots),
            canonical=join_written(join, self.canonical, encoding) if self.canonical else None,
            refresh=join_written(join, self.refresh, encoding) if self.refresh else None,
            flaws=tuple(dict.fromkeys(self.flaws)),
        )

    def add_anchor(self, raw: str, address: str = "") -> None:
        """Add the link of an <a>. `address`: where it leads, if that is known already."""
        href = address or href_of(raw)
        if href is None:
            return
        if "follow" in raw.lower() and "nofollow" in attributes_of(raw).get("rel", "").lower().split():
            self.found.setdefault(href, False)
        else:
            self.found[href] = True

    def note_cut(self, _raw: str, _text: str) -> None:
        self.flaws.append("page_too_long")

    def add_area(self, raw: str, _: str) -> None:
        self.add_anchor(raw)

    def add_frame(self, raw: str, _: str) -> None:
        if source := attributes_of(raw).get("src"):
            self.found[source] = True

    def add_link(self, raw: str, _: str) -> None:
        lower = raw.lower()
        if not any(relation in lower for relation in _RELATIONS):
            return  # most, which need not be taken apart
        attributes = attributes_of(raw)
        href, relations = attributes.get("href"), set(attributes.get("rel", "").lower().split())
        if not href or relations.isdisjoint(_RELATIONS) or "stylesheet" in relations:
            return
        kind = attributes.get("type", "").lower()
        if "alternate" in relations and ("oembed" in kind or "json" in kind):
            return  # descriptions for machines: three on every page of a blog
        if "canonical" in relations and self.canonical is None:
            self.canonical = href
        self.found[href] = True

    def add_meta(self, raw: str, _: str) -> None:
        lower = raw.lower()
        if "robots" not in lower and "refresh" not in lower:
            return
        attributes = attributes_of(raw)
        content = attributes.get("content", "")
        if attributes.get("name", "").strip().lower() == "robots" and len(self.robots) < _MAX_ROBOTS:
            self.robots.append(content.strip().lower()[:_MAX_ROBOTS_CONTENT])
        if attributes.get("http-equiv", "").lower() == "refresh" and self.refresh is None:
            found = _REFRESH.match(content)
            target = (found[1] or found[2] or found[3]) if found else None
            if target:
                self.refresh = target
                self.found[target] = True

    def add_base(self, raw: str, _: str) -> None:
        if self.base is None:
            self.base = attributes_of(raw).get("href")

    def add_title(self, _: str, inner: str) -> None:
        """Keep the first title with words in it. Titles of images come later: a page's own stands in its head."""
        if not self.title:
            self.title = " ".join(decode_text(inner[: 4 * _MAX_TITLE]).split())[:_MAX_TITLE]


_READ = {
    "": LinkReading.note_cut,
    "area": LinkReading.add_area,
    "base": LinkReading.add_base,
    "frame": LinkReading.add_frame,
    "iframe": LinkReading.add_frame,
    "link": LinkReading.add_link,
    "meta": LinkReading.add_meta,
    "title": LinkReading.add_title,
}


def _follow(
    found: dict[str, bool], followed: dict[str, bool], *, join: Joiner, encoding: str, flaws: list[str]
) -> None:
    for href, follow in found.items():
        try:
            joined = join.short(href)
        except BadInput:
            joined = None
        if joined is None:
            if _SCHEME.match(href):  # what is written with white space before it is found out by join
                continue
            joined = join_written(join, href, encoding)
        if joined is None:
            flaws.append("bad_link")
        elif len(followed) < MAX_LINKS or joined in followed:
            followed[joined] = followed.get(joined, False) or follow
        else:
            flaws.append("too_many_links")
            break


def joiner_at(url: str) -> Joiner:
    """Return the joiner of a page without a <base>."""
    return Joiner(without_user(normalise(url)) if "@" in url else url)


def joiner_of(own: Joiner, base: str | None, flaws: list[str]) -> Joiner:
    """Return the joiner of a page with this <base href>; `own` is that of its URL."""
    if base is None or not base.strip(_EDGES):
        return own
    try:
        return Joiner(without_user(own(base)))
    except BadInput:
        flaws.append("bad_base")
        return own


def join_written(join: Joiner, href: str, encoding: str) -> str | None:
    return join_or_none(join, encode_query(href, encoding))


def links_of_field(value: str, relations: Iterable[str]) -> Iterator[str]:
    """RFC 8288, as far as it is used: `<https://example.com/2>; rel="next"; title="more"`. In UTF-8, as browsers do."""
    text = value[:_MAX_FIELD].encode("latin-1", "replace").decode("utf-8", "replace")
    for target, parameters in _FIELD_LINK.findall(text):
        relation = _FIELD_REL.search(parameters)
        if relation and not {*(relation[1] or relation[2] or "").lower().split()}.isdisjoint(relations):
            yield target
