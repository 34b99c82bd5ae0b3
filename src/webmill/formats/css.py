"""Find the URLs of a style sheet: `url(…)`, `@import "…"` and the strings of `image-set(…)`.

    for found in read_css_urls(sheet):
        unescape_css(found.written), found.is_import, sheet[found.start : found.end]

The tokens of https://www.w3.org/TR/css-syntax-3/#tokenization as far as they decide what is a URL: comments and strings
hide what they contain, `@namespace` and `@document` name URLs that are not fetched, and `1url(a)` and `#url(a)` are no
functions. What has no end ends with the sheet, as in browsers.

It works on decoded text and on bytes held as Latin-1: above ASCII, all characters are parts of names. Every repetition
is possessive, so that nothing is read twice, whatever the sheet contains.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import NamedTuple

from webmill.formats.encodings import decode_as, lookup_encoding

_S = r"[ \t\r\n\f]"
_HEX = r"\\[0-9a-fA-F]{1,6}+(?:\r\n|[ \t\r\n\f])?+"
_ESCAPE = rf"(?:{_HEX}|\\(?:[^0-9a-fA-F\r\n\f]|\Z))"
_LETTERS = r"A-Za-z0-9_\-\x00\x80-\U0010ffff"
_NAME = rf"(?:[{_LETTERS}]++|{_ESCAPE})++"
_COMMENT = r"/\*(?:[^*]++|\*(?!/))*+(?:\*/)?+"


def _string(quote: str) -> str:
    """A string up to its closing quote, or to the end of the sheet; one that a line break cuts is without a quote."""
    return rf"{quote}(?:[^{quote}\\\r\n\f]++|\\(?:\r\n|.|\Z))*+(?:{quote}|\Z)?+"


_STRING = rf"(?:{_string(chr(34))}|{_string(chr(39))})"
_WANTED = r"(?:[uU][rR][lL]|(?:-[wW][eE][bB][kK][iI][tT]-)?[iI][mM][aA][gG][eE]-[sS][eE][tT])\("
_SKIPPED = "|".join(
    (
        rf"[^\"'/@#<\\{_LETTERS}]++",
        rf"(?!{_WANTED})[{_LETTERS}]++(?!\\)",
        _COMMENT,
        r"/(?!\*)",
        r"<(?:!--)?+",
        _STRING,
        rf"\#(?:{_NAME})?+",
    )
)
# All that is skipped, then an at-keyword, or the name of a function that is wanted or perhaps wanted: it has escapes.
_NEXT = re.compile(rf"(?:{_SKIPPED})*+(?:@(?P<rule>{_NAME})?+|(?P<name>{_NAME})(?P<open>\()?+|\\)?+", re.DOTALL)
_BLANK = re.compile(rf"(?:{_S}++|{_COMMENT})*+")
_BARE = rf"""(?:[^ \t\r\n\f"'()\\\x01-\x08\x0b\x0e-\x1f\x7f]++|{_ESCAPE})++"""
# `url(` as one token, with its URL or without a valid one; or the beginning of a function with a string.
_URL = re.compile(
    rf"""{_S}*+(?:(?P<string>{_STRING})|(?P<bare>{_BARE}){_S}*+(?:\)|\Z)|(?:[^)\\]++|\\.|\\\Z)*+\)?+)""", re.DOTALL
)
_IMPORT = re.compile(rf"(?P<string>{_STRING})|(?P<name>{_NAME})\(", re.DOTALL)
_UNQUOTED = r"""[uU][rR][lL]\((?!\s*+["'])(?:[^)\\]++|\\.)*+"""
_PRELUDE = re.compile(rf"(?:{_COMMENT}|{_STRING}|{_UNQUOTED}|[^;{{/\"'uU]++|[/\"'uU])*+", re.DOTALL)
_IN_SET = re.compile(
    rf"(?:[^\"'/#\\(){{}};{_LETTERS}]++|(?![uU][rR][lL]\()[{_LETTERS}]++(?!\\)|{_COMMENT}|/(?!\*)|\#(?:{_NAME})?+)*+"
    rf"(?:(?P<string>{_STRING})|(?P<name>{_NAME})(?P<open>\()?+|(?P<bracket>[()])|(?P<stray>[;{{}}]|\\))?+",
    re.DOTALL,
)
_ESCAPED = re.compile(rf"({_HEX})|\\(?:\r\n|[\r\n\f]|(.)|(\Z))", re.DOTALL)
_NOT_FETCHED = frozenset({"namespace", "document", "-moz-document"})
_SETS = frozenset({"image-set", "-webkit-image-set"})
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xfe\xff", "utf-16be"), (b"\xff\xfe", "utf-16le"))
_CHARSET = re.compile(rb'@charset "([^"]{1,64})";')


class CssUrl(NamedTuple):
    """A URL in a style sheet. A string that contains another URL may be put in its place."""

    start: int  # with quotes, if it has them
    end: int
    written: str  # without quotes, with escapes
    is_import: bool


def find_sheet_encoding(data: bytes, *, label: str | None) -> str:
    """Return the encoding of a style sheet: by its byte order mark, the HTTP label, or `@charset`; otherwise UTF-8.

    https://www.w3.org/TR/css-syntax-3/#input-byte-stream. That of the page which uses the sheet is not known here.
    """
    if marked := next((name for mark, name in _BOMS if data.startswith(mark)), None):
        return marked
    if encoding := lookup_encoding(label or ""):
        return encoding
    rule = _CHARSET.match(data)
    declared = lookup_encoding(rule[1].decode("latin-1")) if rule else None
    return declared if declared and not declared.startswith("utf-") else "utf-8"


def decode_sheet(data: bytes, encoding: str) -> str:
    """Return the text of a style sheet, without its byte order mark."""
    return decode_as(data, encoding).removeprefix("\ufeff")


def read_css_urls(sheet: str) -> Iterator[CssUrl]:
    """Yield the URLs of a sheet, or of the declarations of a `style` attribute, in their order."""
    at = 0
    while at < len(sheet):
        found = _NEXT.match(sheet, at)
        assert found  # it matches nothing, too
        if found.end() == at:
            return
        at = found.end()
        if found["rule"]:
            at = yield from _read_rule(sheet, at, unescape_css(found["rule"]).lower())
        elif found["open"]:
            at = yield from _read_function(sheet, at, unescape_css(found["name"]).lower())


def unescape_css(written: str) -> str:
    """Return what a name, a string or a URL with escapes means."""
    return (_ESCAPED.sub(_unescape, written) if "\\" in written else written).replace("\0", "\ufffd")


def _read_rule(sheet: str, at: int, name: str) -> Generator[CssUrl, None, int]:
    """Yield the URL of an @import; skip the prelude of rules that do not fetch theirs. Return where to go on."""
    if name in _NOT_FETCHED:
        return _PRELUDE.match(sheet, at).end()  # type: ignore[union-attr]  # it matches nothing, too
    if name != "import":
        return at
    blank = _BLANK.match(sheet, at)
    found = _IMPORT.match(sheet, blank.end() if blank else at)
    if found is None:
        return at
    if found["string"]:
        yield from _quoted(found, is_import=True)
        return found.end()
    return (yield from _read_function(sheet, found.end(), unescape_css(found["name"]).lower(), is_import=True))


def _read_function(sheet: str, at: int, name: str, *, is_import: bool = False) -> Generator[CssUrl, None, int]:
    """Yield the URLs of a function whose bracket ends at `at`. Return where to go on."""
    if name in _SETS:
        return (yield from _read_set(sheet, at))
    if name != "url":
        return at
    found = _URL.match(sheet, at)
    assert found  # it matches nothing, too
    if found["string"]:
        yield from _quoted(found, is_import=is_import)
    elif found["bare"]:
        yield CssUrl(*found.span("bare"), found["bare"], is_import)
    return found.end()


def _read_set(sheet: str, at: int) -> Generator[CssUrl, None, int]:
    """Yield the URLs of `image-set("a.avif" type("image/avif"), url(b.png) 2x)`: strings, but not those of functions in
    it (https://www.w3.org/TR/css-images-4/#image-set-notation). One that is not closed ends with its declaration.
    """
    depth = 1
    while depth and (found := _IN_SET.match(sheet, at)) and found.end() > at and not found["stray"]:
        at = found.end()
        if found["string"]:
            if depth == 1:
                yield from _quoted(found, is_import=False)
        elif found["open"] and unescape_css(found["name"]).lower() == "url":
            at = yield from _read_function(sheet, at, "url")
            depth += sheet[at - 1 : at] != ")"  # a function with a string: its end is still to come
        elif found["open"] or found["bracket"]:
            depth += -1 if found["bracket"] == ")" else 1
    return at


def _quoted(found: re.Match[str], *, is_import: bool) -> Iterator[CssUrl]:
    start, end = found.span("string")
    text = found["string"]
    is_closed = len(text) > 1 and text[-1] == text[0] and not _ends_in_backslash(text[1:-1])
    if is_closed or end == len(found.string):
        rest = text[1:-1] if is_closed or _ends_in_backslash(text) else text[1:]
        yield CssUrl(start, end, rest, is_import)


def _ends_in_backslash(text: str) -> bool:
    """Return whether the text ends in a backslash that is not escaped itself."""
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


def _unescape(found: re.Match[str]) -> str:
    if not found[1]:
        return "\ufffd" if found[3] is not None else found[2] or ""
    number = int(found[1][1:].rstrip(), 16)
    return chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"
