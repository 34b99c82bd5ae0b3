"""What a page or a style sheet needs to be displayed: images, styles, scripts, fonts, videos, frames.

    for resource in read_resources(payload, url=url, content_type="text/html"):
        resource.url, resource.may_hold_more
    links, resources = read_page(payload, url=url, content_type="text/html")  # with what `links.py` finds: one pass

| where | what |
|---|---|
| `<img>`, `<source>` | `src`, `srcset`; `data-src` and `data-srcset`, from which scripts fill them in |
| `<link>` | `href` of stylesheet, icon, preload, modulepreload and manifest; `imagesrcset` |
| `<script>`, `<audio>`, `<video>`, `<track>`, `<input type=image>` | `src`; `poster` |
| `<iframe>`, `<frame>`, `<object>`, `<embed>` | `src`, `srcdoc`, `data` |
| SVG's `<image>`, `<use>`, `<feImage>`, `<script>` | `href`, `xlink:href` |
| any tag | `background`, what its `style` names, and SVG's `fill`, `filter`, `mask` … as far as they say `url(…)` |
| `<style>` and style sheets | `url(…)`, `@import`, `image-set("…")` |
| `<script type=module>` and modules | what they `import`, or `export`, `from "./…"` |
| the HTTP field `Link` | the relations of `<link>` |

Of a set of images (`srcset`) all are taken: which one a browser wants depends on its screen. What scripts put
together is not found. Joined with `<base href>`, normalised, each once, in the order of the page, at most 10,000.
Time is linear, as in `links.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from webmill.crawl.page.links import (
    MAX_LINKS,
    MAX_PAGE,
    LinkReading,
    PageLinks,
    join_written,
    joiner_at,
    joiner_of,
    links_of_field,
)
from webmill.crawl.page.script_modules import read_assets, read_imports
from webmill.crawl.page.tags import attributes_of, read_all_tags
from webmill.crawl.page.url_joining import Joiner
from webmill.formats.css import decode_sheet, find_sheet_encoding, read_css_urls, unescape_css
from webmill.formats.html.charset import charset_label, decode_page
from webmill.formats.html.srcset import read_srcset
from webmill.formats.url.normalise import MAX_URL

_MORE = frozenset({"stylesheet", "modulepreload"})
_RELATIONS = frozenset(
    {
        *("stylesheet", "icon", "apple-touch-icon", "apple-touch-icon-precomposed", "mask-icon"),
        *("preload", "modulepreload", "manifest"),
    }
)
# Attributes that may say `url(…)`: those of SVG, `fill="url(colours.svg#red)"`, and `style`.
_MARKERS = ("marker-start", "marker-mid", "marker-end")
_STYLED = ("style", "fill", "stroke", "filter", "mask", "clip-path", "cursor", *_MARKERS)
_NO_REQUEST = re.compile(r"[\x00-\x20]*+(?:#|\Z|(?!https?:)[a-z][a-z0-9+.-]*+:)", re.IGNORECASE)


class PageResource(NamedTuple):
    url: str
    may_hold_more: bool  # a document, a style sheet or a module, which may have resources of its own


def read_resources(
    payload: bytes, *, url: str, content_type: str | None, link_field: str | None = None
) -> list[PageResource]:
    """Read the resources of HTML without its content coding. The arguments are those of `read_links`."""
    page = decode_page(payload[:MAX_PAGE], content_type=content_type)
    reading = _Reading()
    reading.read(page.text)
    return reading.resolve(url=url, encoding=page.encoding, link_field=link_field)


def read_page(
    payload: bytes, *, url: str, content_type: str | None, link_field: str | None = None
) -> tuple[PageLinks, list[PageResource]]:
    """Read links and resources of a page that is decoded and parsed once."""
    page = decode_page(payload[:MAX_PAGE], content_type=content_type)
    links, needed = LinkReading(), _Reading()
    for tag, raw, text in read_all_tags(page.text):
        links.take(tag, raw, text)
        needed.take(tag, raw, text)
    if len(payload) > MAX_PAGE:
        links.flaws.append("page_too_long")
    found = links.resolve(url=url, encoding=page.encoding, link_field=link_field)
    return found, needed.resolve(url=url, encoding=page.encoding, link_field=link_field)


def read_sheet_resources(payload: bytes, *, url: str, content_type: str | None = None) -> list[PageResource]:
    """Read the resources of a style sheet."""
    encoding = find_sheet_encoding(payload, label=charset_label(content_type))
    reading = _Reading()
    reading.add_style(decode_sheet(payload[:MAX_PAGE], encoding))
    return _listed(_resolved(reading.found, Joiner(url), encoding), url)


def read_module_resources(payload: bytes, *, url: str) -> list[PageResource]:
    """Read the imports of a script that is a module, which is always in UTF-8."""
    reading, text = _Reading(), payload[:MAX_PAGE].decode("utf-8", "replace")
    reading.add_module(text)
    for address in read_assets(text, url=url):
        reading.add(address, may_hold_more=address.partition("?")[0].endswith((".js", ".mjs", ".css")))
    return _listed(_resolved(reading.found, Joiner(url), "utf-8"), url)


def _listed(found: dict[str, bool], own: str) -> list[PageResource]:
    return [PageResource(joined, may_hold_more) for joined, may_hold_more in found.items() if joined != own][:MAX_LINKS]


def _resolved(written: dict[str, bool], join: Joiner, encoding: str) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for address, may_hold_more in written.items():
        joined = join_written(join, address, encoding)
        if joined is not None:
            found[joined] = found.get(joined, False) or may_hold_more
    return found


class _Reading:
    """The addresses that are written in a page, and whether each may hold more."""

    def __init__(self) -> None:
        self.found: dict[str, bool] = {}
        self.base: str | None = None
        self._is_inner = False  # in a page that is an attribute of a page

    def read(self, page: str) -> None:
        for tag, raw, text in read_all_tags(page):
            self.take(tag, raw, text)

    def take(self, tag: str, raw: str, text: str) -> None:
        if tag == "style":
            self.add_style(text)
        read, lower = _READ.get(tag), raw.lower()
        if read or "style" in lower or "background" in lower or "url(" in lower:
            attributes = attributes_of(raw)
            if read:
                read(self, attributes)
            if tag == "script" and text and is_module(attributes):
                self.add_module(text)
            self.add(attributes.get("background"))
            if "(" in lower:
                for name in _STYLED:
                    self.add_style(attributes.get(name, ""))

    def resolve(self, *, url: str, encoding: str, link_field: str | None) -> list[PageResource]:
        own = joiner_at(url)
        found = _resolved(self.found, joiner_of(own, self.base, []), encoding)
        if link_field:
            field = dict.fromkeys(links_of_field(link_field, _RELATIONS), False)
            field |= dict.fromkeys(links_of_field(link_field, _MORE), True)
            for joined, may_hold_more in _resolved(field, own, "utf-8").items():
                found.setdefault(joined, may_hold_more)
        return _listed(found, url)

    def add(self, address: str | None, *, may_hold_more: bool = False) -> None:
        if address and len(address) <= MAX_URL and len(self.found) < MAX_LINKS and not _NO_REQUEST.match(address):
            self.found[address] = self.found.get(address, False) or may_hold_more

    def add_set(self, value: str | None) -> None:
        for start, end in read_srcset(value or ""):
            self.add((value or "")[start:end])

    def add_style(self, text: str) -> None:
        for found in read_css_urls(text):
            self.add(unescape_css(found.written), may_hold_more=found.is_import)

    def add_module(self, text: str) -> None:
        for address in read_imports(text):
            self.add(address, may_hold_more=True)

    def add_picture(self, attributes: dict[str, str]) -> None:
        for name in ("src", "data-src"):
            self.add(attributes.get(name))
        for name in ("srcset", "data-srcset"):
            self.add_set(attributes.get(name))

    def add_source(self, attributes: dict[str, str]) -> None:
        self.add(attributes.get("src"))
        self.add(attributes.get("poster"))

    def add_script(self, attributes: dict[str, str]) -> None:
        address = attributes.get("src") or attributes.get("href") or attributes.get("xlink:href")
        self.add(address, may_hold_more=is_module(attributes))

    def add_button(self, attributes: dict[str, str]) -> None:
        if attributes.get("type", "").strip().lower() == "image":
            self.add(attributes.get("src"))

    def add_drawing(self, attributes: dict[str, str]) -> None:
        self.add(attributes.get("href") or attributes.get("xlink:href"))

    def add_document(self, attributes: dict[str, str]) -> None:
        for name in ("src", "data"):
            self.add(attributes.get(name), may_hold_more=True)
        if attributes.get("srcdoc") and not self._is_inner:
            self._is_inner = True
            self.read(attributes["srcdoc"])
            self._is_inner = False

    def add_link(self, attributes: dict[str, str]) -> None:
        relations = set(attributes.get("rel", "").lower().split())
        if not relations.isdisjoint(_RELATIONS):
            # A sheet that a script turns on when it has come is written as a preload, often as nothing else.
            is_sheet = attributes.get("as", "").strip().lower() == "style"
            self.add(attributes.get("href"), may_hold_more=is_sheet or not relations.isdisjoint(_MORE))
            self.add_set(attributes.get("imagesrcset"))

    def add_base(self, attributes: dict[str, str]) -> None:
        if self.base is None and not self._is_inner:
            self.base = attributes.get("href")


_READ: dict[str, Callable[[_Reading, dict[str, str]], None]] = {
    **dict.fromkeys(("img", "source"), _Reading.add_picture),
    **dict.fromkeys(("audio", "video", "track"), _Reading.add_source),
    **dict.fromkeys(("iframe", "frame", "object", "embed"), _Reading.add_document),
    "script": _Reading.add_script,
    **dict.fromkeys(("image", "use", "feimage"), _Reading.add_drawing),
    "input": _Reading.add_button,
    "link": _Reading.add_link,
    "base": _Reading.add_base,
}


def is_module(attributes: dict[str, str]) -> bool:
    return attributes.get("type", "").strip().lower() == "module"
