"""Split HTML into tags and texts, in one pass and in linear time, whatever it holds.

This is only a lexer: no tree, no repair, no nesting. It splits pages where Common Crawl's extractor does (an SGML-like
lexer, older than the rules of HTML5), because that defines WAT and WET files. Why no parser is used:
docs/decisions/0006-html.md.

Every repetition below is possessive (`*+`, `++`): the expressions never backtrack, so no input makes them slow.
"""

from __future__ import annotations

import re
from typing import Protocol

# White space of that lexer: Unicode's, without the no-break spaces and NEL.
WIDE_SPACE = "\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000"
SPACE = rf"\t-\r\x1c-\x20{WIDE_SPACE}"

_VALUE = rf"""(?:"[^"]*+"?|'[^']*+'?|[^{SPACE}>"'][^{SPACE}>]*+)"""
_ASSIGNED = rf"[{SPACE}]*+=[{SPACE}]*+{_VALUE}?+"
ATTRIBUTES = rf"(?:{_ASSIGNED})?+(?:[{SPACE}]*+[^{SPACE}<>][^{SPACE}<>=]*+(?:{_ASSIGNED})?+)*+"
# A comment ends at `--`, then dashes, white space and `!` in any mix, then `>`. Without an end it is the rest.
COMMENT = rf"!--(?:>|(?:[^-]++|-(?!-)|--[{SPACE}\-!]*+(?!>))*+(?:--[{SPACE}\-!]*+>)?+)"
_CODE = r"[?%][^<>]*+>"  # processing instructions and the remains of templates

# Three groups for a tag: slash, name, attributes. None for comments, declarations (`<!doctype`), `</>` and `<?code?>`.
# Another `<` is text. A tag ends at `>`, before the next `<`, or with the page.
_MARKUP = re.compile(
    rf"<(?:(/?)([^\W\d_][^{SPACE}<>=]*+)({ATTRIBUTES})[{SPACE}]*+>?"
    rf"|{COMMENT}|!>|[/!](?!-){ATTRIBUTES}[{SPACE}]*+>?|{_CODE})"
)
_ATTRIBUTE = re.compile(rf"([^{SPACE}<>][^{SPACE}<>=]*+)(?:[{SPACE}]*+=[{SPACE}]*+({_VALUE})?+)?+")


# What ends a script or style: its end tag, unless that is inside a comment, as scripts were once hidden.
_RAW_ENDS = {name: re.compile(rf"<!--|</{name}(?=[{SPACE}<>=/]|\Z)", re.IGNORECASE) for name in ("SCRIPT", "STYLE")}


class TokenListener(Protocol):
    """Receives the parts of a page in order. Calls instead of token objects, since a page has thousands."""

    def add_text(self, text: str) -> None:
        """Take the text between tags, with entities not decoded."""

    def open(self, name: str, attributes: str) -> None:
        """Take a start tag. `name` is in upper case; `attributes` are raw, see `parse_attributes`."""

    def close(self, name: str) -> None: ...

    def add_style(self, text: str) -> None:
        """Take the content of a style element. Scripts are skipped."""


def read_tokens(page: str, to: TokenListener) -> None:
    """Call the listener `to` for all parts of the page."""
    search, add_text, open_, close = _MARKUP.search, to.add_text, to.open, to.close
    at = 0
    while found := search(page, at):
        start = found.start()
        if start > at:
            add_text(page[at:start])
        at = found.end()
        slash, name, attributes = found.groups()
        if name is None:
            continue
        name = name.upper()
        if name[-1] == "/":
            name, attributes = name.rstrip("/"), f"/{attributes}"
        if slash:
            close(name)
            continue
        open_(name, attributes)
        if name in _RAW_ENDS and not is_self_closing(attributes):
            start, at = at, _end_of_raw(page, name, at)
            if name == "STYLE":
                to.add_style(page[start:at])
    if at < len(page):
        add_text(page[at:])


def _end_of_raw(page: str, name: str, at: int) -> int:
    while found := _RAW_ENDS[name].search(page, at):
        if found[0] != "<!--":
            return found.start()
        at = page.find("-->", found.end())
        if at < 0:
            break
    return len(page)


def parse_attributes(raw: str) -> dict[str, str | None]:
    """Return attributes by their names in lower case, the first of a name; None without a value. Entities stay."""
    found: dict[str, str | None] = {}
    for name, value in _ATTRIBUTE.findall(raw):
        found.setdefault(name.lower(), _unquote(value))
    return found


def _unquote(value: str) -> str | None:
    if not value:
        return None
    quote = value[0]
    if quote not in "\"'":
        return value
    return value[1:-1] if len(value) > 1 and value[-1] == quote else value[1:]


def is_self_closing(attributes: str) -> bool:
    """Return whether a tag closes itself: `<a/>`, `<a href="x"/>`, but not `<a href=x/>`."""
    if not attributes.endswith("/"):
        return False
    *_, last = _ATTRIBUTE.finditer(attributes)
    return last[0] == last[1]
