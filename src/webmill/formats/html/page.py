"""Parse an HTML page into what Common Crawl keeps of it: title, metas, links, scripts (WAT), and plain text (WET).

    page = read_html(decode_page(body, content_type=…).text)
    page.title, page.links, page.text

The rules are those of Common Crawl's extractor (ia-web-commons): no tree is built, so nesting does not matter, and time
and memory grow only with the length of the page, which is limited.
"""

from __future__ import annotations

import msgspec

from webmill.errors import BadInput
from webmill.formats.html import links as html_links
from webmill.formats.html.entities import decode_text
from webmill.formats.html.links import HtmlLink, HtmlMeta
from webmill.formats.html.plain_text import PlainText
from webmill.formats.html.tokens import is_self_closing, read_tokens

MAX_PAGE = 8 << 20  # characters; Common Crawl keeps 1 MiB (5 since 2025) of a page
_MAX_TEXT = 128  # characters of a title and of the text of a link

# Elements that end a line, and those that only separate words.
_LINE_NAMES = (
    "ADDRESS ARTICLE ASIDE BLOCKQUOTE BODY BR BUTTON CANVAS CAPTION CENTER COL COLGROUP DD DIV DL DT EMBED FIELDSET "
    "FIGCAPTION FIGURE FOOTER FORM H1 H2 H3 H4 H5 H6 HEADER HGROUP HR LI MAP NOFRAMES NOSCRIPT OBJECT OL OUTPUT P PRE "
    "PROGRESS SECTION TABLE TBODY TEXTAREA TFOOT TH THEAD TITLE TR UL VIDEO"
)
_WORD_NAMES = "CITE DETAILS DATALIST IFRAME IMG INPUT LABEL LEGEND OPTGROUP Q SELECT SUMMARY TD TIME"
_LINES, _WORDS = frozenset(_LINE_NAMES.split()), frozenset(_WORD_NAMES.split())
_SEPARATORS = _LINES | _WORDS
_SPACE = "".join(map(chr, range(0x21)))


class HtmlPage(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a page that WAT and WET files have."""

    text: str
    title: str | None = None
    base: str | None = None
    metas: tuple[HtmlMeta, ...] = ()
    head_links: tuple[HtmlLink, ...] = ()  # <link> elements, wherever they are
    scripts: tuple[HtmlLink, ...] = ()
    links: tuple[HtmlLink, ...] = ()


def read_html(page: str) -> HtmlPage:
    """Parse a page. Raise BadInput (parse_limit) if it is too long."""
    collector = _PageCollector()
    read_tokens(_check_length(page), collector)
    return collector.page()


def read_html_text(page: str) -> HtmlPage:
    """Parse only the text of a page, in half the time of `read_html`."""
    collector = _TextCollector()
    read_tokens(_check_length(page), collector)
    return HtmlPage(text=collector.out.text())


def _check_length(page: str) -> str:
    if len(page) > MAX_PAGE:
        raise BadInput(f"the page has {len(page):,} characters; the limit is {MAX_PAGE:,}", reason="parse_limit")
    return page


class _TextCollector:
    """Collects the text of a page."""

    def __init__(self) -> None:
        self.out = PlainText()
        self.in_pre = False

    def add_text(self, text: str) -> None:
        self.keep(decode_text(text))

    def keep(self, text: str) -> str:
        """Add text, and return what was kept of it."""
        return self.out.add_preformatted(text) if self.in_pre else self.out.add(text)

    def open(self, name: str, attributes: str) -> None:  # noqa: ARG002 - subclasses use them
        if name in _LINES:
            if name == "TITLE":  # it ends a line, but does not begin one
                return
            self.out.end_line()
            if name == "PRE":
                self.in_pre = True
        elif name in _WORDS:
            self.out.end_word()

    def close(self, name: str) -> None:
        if name in _LINES:
            self.out.end_line()
            if name == "PRE":
                self.in_pre = False
        elif name in _WORDS:
            self.out.end_word()

    def add_style(self, text: str) -> None:
        """Ignore the style: it is not text."""


class _PageCollector(_TextCollector):
    """Collects what WAT and WET files have of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.title: str | None = None
        self.base: str | None = None
        self.metas: list[HtmlMeta] = []
        self.head_links: list[HtmlLink] = []
        self.scripts: list[HtmlLink] = []
        self.links: list[HtmlLink] = []
        self.anchors = _AnchorStack(self.links)
        self.in_head = self.in_title = self.in_svg = False
        self.title_text: str | None = None

    def page(self) -> HtmlPage:
        return HtmlPage(
            text=self.out.text(),
            title=self.title,
            base=self.base,
            metas=tuple(self.metas),
            head_links=tuple(self.head_links),
            scripts=tuple(self.scripts),
            links=tuple(self.links),
        )

    def add_text(self, text: str) -> None:
        kept = self.keep(decode_text(text))
        if self.in_title:
            self.title_text = kept[:_MAX_TEXT].strip(_SPACE)
        elif kept:
            self.anchors.add(kept)

    def add_style(self, text: str) -> None:
        self.links += html_links.parse_style_links(text)

    def open(self, name: str, attributes: str) -> None:
        super().open(name, attributes)
        if name in _ON_OPEN:
            _ON_OPEN[name](self, attributes)
        if attributes:
            self.links += html_links.parse_tag_links(name, attributes)

    def close(self, name: str) -> None:
        if self.in_title:
            self.end_title()
        super().close(name)
        if name in _SEPARATORS:
            self.anchors.end_word()
        if name in _ON_CLOSE:
            _ON_CLOSE[name](self)

    def end_title(self) -> None:
        """End the title, at any end tag. Titles in an SVG are not those of the page."""
        self.in_title = False
        if not self.in_svg and (self.in_head or self.title is None):
            self.title = self.title_text
        self.title_text = None


class _AnchorStack:
    """The open <a> elements and their texts.

    Text belongs to all open anchors. It is kept once, with the offset where each anchor begins, and only as much as the
    outermost may have: thousands of unclosed anchors cost no more than one.
    """

    def __init__(self, links: list[HtmlLink]) -> None:
        self._links = links
        self._open: list[tuple[HtmlLink | None, int]] = []
        self._text = ""

    def enter(self, link: HtmlLink | None) -> None:
        self._open.append((link, len(self._text)))

    def add(self, text: str) -> None:
        if self._open and text and len(self._text) < _MAX_TEXT:
            self._text += text[1:_MAX_TEXT] if text[0] == " " and self._text[-1:] in ("", " ") else text[:_MAX_TEXT]

    def end_word(self) -> None:
        if self._text and self._text[-1] not in " \n":
            self._text += " "

    def leave(self) -> None:
        if not self._open:
            return
        link, start = self._open.pop()
        text = self._text[start : start + _MAX_TEXT].strip(_SPACE)
        if not self._open:
            self._text = ""
        if link:
            self._links.append(msgspec.structs.replace(link, text=text) if text else link)


# --- tags with a special meaning --------------------------------------------------------------------------------------


def _enter_anchor(collector: _PageCollector, attributes: str) -> None:
    link = html_links.parse_anchor(attributes)
    if not is_self_closing(attributes):
        collector.anchors.enter(link)
    elif link:
        collector.links.append(link)


def _enter_head(collector: _PageCollector, _: str) -> None:
    collector.in_head = True


def _enter_body(collector: _PageCollector, _: str) -> None:
    collector.in_head = False


def _enter_title(collector: _PageCollector, attributes: str) -> None:
    collector.in_title = not is_self_closing(attributes)


def _enter_svg(collector: _PageCollector, _: str) -> None:
    collector.in_svg = True


def _note_base(collector: _PageCollector, attributes: str) -> None:
    base = html_links.parse_base(attributes)
    collector.base = collector.base if base is None else base


def _note_languages(collector: _PageCollector, attributes: str) -> None:
    collector.metas += html_links.parse_html_languages(attributes)


def _note_meta(collector: _PageCollector, attributes: str) -> None:
    if meta := html_links.parse_meta(attributes):
        collector.metas.append(meta)


def _note_head_link(collector: _PageCollector, attributes: str) -> None:
    if link := html_links.parse_head_link(attributes):
        collector.head_links.append(link)


def _note_script(collector: _PageCollector, attributes: str) -> None:
    if link := html_links.parse_script(attributes):
        collector.scripts.append(link)


_ON_OPEN = {
    "A": _enter_anchor,
    "BASE": _note_base,
    "BODY": _enter_body,
    "HEAD": _enter_head,
    "HTML": _note_languages,
    "LINK": _note_head_link,
    "META": _note_meta,
    "SCRIPT": _note_script,
    "SVG": _enter_svg,
    "TITLE": _enter_title,
}


def _leave_anchor(collector: _PageCollector) -> None:
    collector.anchors.leave()


def _leave_head(collector: _PageCollector) -> None:
    collector.in_head = False


def _leave_svg(collector: _PageCollector) -> None:
    collector.in_svg = False


_ON_CLOSE = {"A": _leave_anchor, "HEAD": _leave_head, "SVG": _leave_svg}
