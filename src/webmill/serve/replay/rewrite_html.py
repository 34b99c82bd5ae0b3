"""Rewrites links in HTML. Everything else is kept byte for byte; what becomes of scripts is up to the `LinkRewriter`.

A lexer by HTML's own rules (13.2.5), since it must split where browsers do; `formats.html.tokens` splits where Common
Crawl's extractor does. It never backtracks, so time is linear: an unterminated tag, comment or element extends to the
end of the page, as in browsers. Security does not depend on it: missed links stop at the policy of the replay origin.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable

from webmill.crawl.page.tags import RAW, end_of_raw
from webmill.formats.encodings import ASCII_WITHIN, encode_as
from webmill.formats.html.entities import decode_attribute
from webmill.serve.replay.links import SPACE, LinkRewriter, PageEncoding
from webmill.serve.replay.rewrite_css import rewrite_css

_S = r"\t\n\f\r "
_OPENING = re.compile(rf"<(?:(/?)([A-Za-z][^{_S}/>]*+)|(!--)|[!?/])")
_CLOSE = re.compile(">")
_COMMENT_END = re.compile(r"(?<=<!--)-?>|--!?>")
_VALUE = rf"""(?:"[^"]*+"?|'[^']*+'?|[^{_S}>"'][^{_S}>]*+)"""  # an unterminated quote takes the rest
_ONE = rf"([^{_S}/>][^{_S}/>=]*+)(?:[{_S}]*+=[{_S}]*+({_VALUE})?+)?+"
_ATTRIBUTE = re.compile(_ONE)
_ATTRIBUTES = re.compile(rf"(?:[{_S}/]++|{_ONE})*+")

_URLS = frozenset(
    {
        *("href", "src", "action", "formaction", "poster", "data", "background", "cite", "longdesc", "xlink:href"),
        *("codebase", "lowsrc", "icon"),
    }
)
_SETS = frozenset({"srcset", "imagesrcset", "data-srcset"})
_DROPPED_METAS = frozenset({"content-security-policy", "content-security-policy-report-only", "x-frame-options"})
_OUTWARD = frozenset({"_blank", "_top", "_parent", "_new"})  # windows that a sandbox may not open
_DEEPEST = 1  # nesting of srcdoc pages; each level of escaping makes them longer
TEXT = PageEncoding()


def rewrite_html(
    page: str, links: LinkRewriter, *, encoding: PageEncoding = TEXT, first: str = "", depth: int = 0
) -> str:
    """Return the page with links rewritten and `first` at the start of its head. BadInput: see `RewriteBudget`."""
    return _HtmlRewriter(page, links, encoding, first, depth).rewrite()


class _HtmlRewriter:
    def __init__(self, page: str, links: LinkRewriter, encoding: PageEncoding, first: str, depth: int) -> None:
        self._page, self._links, self._encoding, self._first, self._depth = page, links, encoding, first, depth
        self._own = links  # before any <base>
        self._out: list[str] = []
        self._done = 0

    def rewrite(self) -> str:
        at = 0
        while found := _OPENING.search(self._page, at):
            at = self._tag(found) if found[2] else self._end_of_markup(found)
        self._replace(len(self._page), len(self._page), self._first)
        return "".join(self._out)

    def _replace(self, start: int, end: int, text: str) -> None:
        self._out += self._page[self._done : start], text
        self._done = end

    def _end_of_markup(self, found: re.Match[str]) -> int:
        """Return the end of a comment, a declaration, or what browsers treat as a comment."""
        end = (_COMMENT_END if found[3] else _CLOSE).search(self._page, found.end())
        return end.end() if end else self._skip_unterminated(found.start())

    def _tag(self, found: re.Match[str]) -> int:
        """Rewrite a tag; return where to continue."""
        name = found[2].lower()
        attributes = _ATTRIBUTES.match(self._page, found.end())
        end = attributes.end() if attributes else found.end()
        if not self._page.startswith(">", end):
            return self._skip_unterminated(found.start())
        if found[1]:
            return end + 1
        if name not in ("html", "head"):
            self._put_first(found.start())
        raw = self._page[found.end() : end]
        if raw and (rewritten := self._attributes(name, raw)) is not None:
            self._replace(found.end(), end, rewritten)
        if name == "head":
            self._put_first(end + 1)
        return self._after_tag(name, raw, end + 1)

    def _skip_unterminated(self, start: int) -> int:
        """Treat unterminated markup as the rest of the page; nothing may follow it, or it would end there."""
        self._put_first(start)
        return len(self._page)

    def _put_first(self, place: int) -> None:
        if self._first:
            self._replace(place, place, self._first)
            self._first = ""

    def _after_tag(self, name: str, raw: str, at: int) -> int:
        """Return the end of a raw text element; rewrite style sheets and scripts."""
        if name not in RAW:
            return at
        stop = end_of_raw(self._page, name, at)
        if name == "style":
            self._replace(at, stop, self._style(self._page[at:stop]))
        elif name == "script" and stop > at:
            kind = self._read_attributes(raw).get("type", "").strip(SPACE).lower()
            script = self._in_encoding(self._page[at:stop], lambda text: self._links.rewrite_script(text, kind))
            if script is not None:
                self._replace(at, stop, script)
        return stop

    def _style(self, sheet: str) -> str:
        rewritten = self._in_encoding(sheet, lambda text: rewrite_css(text, self._links), if_ambiguous=True)
        return rewrite_css(sheet, self._links, encoding=self._encoding) if rewritten is None else rewritten

    def _in_encoding(self, raw: str, rewrite: Callable[[str], str | None], *, if_ambiguous: bool = False) -> str | None:
        """Rewrite raw text, decoded where a backslash may be half of a character; None to keep it. `if_ambiguous`:
        only there.
        """
        encoding = self._encoding.encoding
        if encoding in ASCII_WITHIN and not raw.isascii():
            try:
                text = rewrite(self._encoding.decode(raw))
                return None if text is None else encode_as(text, encoding).decode("latin-1")
            except UnicodeError:
                pass  # invalid bytes, which stay as they are
        return None if if_ambiguous else rewrite(raw)

    # --- attributes -------------------------------------------------------------------------------------------------

    def _attributes(self, tag: str, raw: str) -> str | None:
        """Return the rewritten attributes, or None if nothing changes."""
        named = self._read_attributes(raw) if tag in ("meta", "base") else {}
        out: list[str] = []
        done = 0
        for found in _ATTRIBUTE.finditer(raw):
            name = found[1].lower()
            new = self._attribute(tag, name, found[2] or "", named)
            if new is not None:
                out += raw[done : found.start()], f'{found[1]}="{_escape_attribute(new)}"'
                done = found.end()
            elif name in self._links.dropped:
                out.append(raw[done : found.start()])
                done = found.end()
        if tag == "base" and "href" in named and self._links is self._own:
            self._links = self._own.with_base(named["href"])
        return "".join((*out, raw[done:])) if done else None

    def _read_attributes(self, raw: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, value in _ATTRIBUTE.findall(raw):
            found.setdefault(name.lower(), self._decode_value(value))
        return found

    def _attribute(self, tag: str, name: str, value: str, named: dict[str, str]) -> str | None:
        """Return the new value, or None to keep it."""
        if name in _URLS:
            links = self._own if tag == "base" else self._links
            return links.rewrite(self._decode_value(value))
        if name in _SETS and (name != "data-srcset" or self._links.rewrites_data):
            return self._links.rewrite_srcset(self._decode_value(value))
        if name == "style" and "(" in value:
            return rewrite_css(self._decode_value(value), self._links)
        if name == "target" and self._decode_value(value).lower() in _OUTWARD:
            return "_self"
        if name == "content" and tag == "meta":
            return self._meta(named)
        if name == "srcdoc" and self._depth < _DEEPEST:
            inner = self._decode_value(value)
            return rewrite_html(inner, self._links, first=self._links.srcdoc_start, depth=self._depth + 1)
        if name.startswith("on"):
            return self._links.rewrite_script(self._decode_value(value), "")
        is_lazy = name.startswith("data-") and self._links.rewrites_data  # an image that a script loads later
        if is_lazy and _unquote(value).startswith(("http://", "https://")):
            return self._links.rewrite(self._decode_value(value))
        return None

    def _meta(self, named: dict[str, str]) -> str | None:
        kind = named.get("http-equiv", "").strip().lower()
        if kind in _DROPPED_METAS or named.get("name", "").strip().lower() == "referrer":
            return ""
        return self._links.rewrite_refresh(named["content"]) if kind == "refresh" else None

    def _decode_value(self, value: str) -> str:
        return decode_attribute(self._encoding.decode(_unquote(value)).replace("\0", "\ufffd"))


def _unquote(value: str) -> str:
    return value[1:-1] if value[:1] in ('"', "'") else value


def _escape_attribute(value: str) -> str:
    """Escape for double quotes, in ASCII: valid in every encoding that a page can have here."""
    return html.escape(value, quote=True).encode("ascii", "xmlcharrefreplace").decode("ascii")
