"""What a style sheet has fetched: `url(…)`, `@import` and the strings of `image-set(…)`.

    [(ref.url, ref.is_import) for ref in read_style(sheet)]

The tokens of CSS (https://www.w3.org/TR/css-syntax-3/#tokenization) as far as they decide what is an address: comments
and strings hide what stands in them, `@namespace` names and does not fetch. Names of XML are no requests.

Every repetition is possessive and every token that begins ends somewhere, at the sheet's end at the latest: nothing is
read twice, whatever the sheet holds.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import NamedTuple

_COMMENT = r"/\*(?:[^*]++|\*(?!/))*+(?:\*/)?+"
_S = r"[ \t\r\n\f]"
_QUOTED = r""""(?:[^"\\\n]++|\\.)*+"?+|'(?:[^'\\\n]++|\\.)*+'?+"""  # one without an end ends with its line
_BARE = r"""(?:[^ \t\r\n\f"'()\\]++|\\(?:[0-9a-f]{1,6}+[ \t\r\n\f]?+|.))++"""
_URL = rf"""(?<![\w-])url\({_S}*+(?P<url>{_QUOTED}|{_BARE}){_S}*+\)
    | (?<![\w-])url\({_S}*+(?!["'])(?:[^)\\]++|\\.)*+"""  # the second is none, and hides what it holds
_TOKEN = re.compile(
    rf"""(?=["'/@iu-])(?:  # a quick no for nearly all of a sheet
    {_COMMENT}
    | @import(?:{_S}++|{_COMMENT})*+(?:url\({_S}*+(?P<imported>{_QUOTED}|{_BARE})|(?P<named>{_QUOTED}))
    | @namespace[^;]*+
    | {_URL}
    | (?P<set>(?<![\w-])(?:-webkit-)?+image-set\()
    | {_QUOTED})""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_IN_SET = re.compile(
    rf"""{_COMMENT} | {_URL} | (?P<string>{_QUOTED}) | (?P<bracket>[()]) | (?P<stray>[;{{}}])""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})(?:\r\n|[ \t\r\n\f])?|\n|(.))", re.DOTALL)


class Reference(NamedTuple):
    """Return an address without its quotes and escapes."""

    url: str
    is_import: bool


def read_style(sheet: str) -> Iterator[Reference]:
    at = 0
    while found := _TOKEN.search(sheet, at):
        at = found.end()
        if found["set"]:
            at = yield from _read_set(sheet, at)
            continue
        imported = found["imported"] or found["named"]
        if value := imported or found["url"]:
            yield Reference(_plain(value), imported is not None)


def _read_set(sheet: str, at: int) -> Generator[Reference, None, int]:
    """Of `image-set("a.avif" type("image/avif"), url(b.png) 2x)`, up to its end, where that is: strings are addresses,
    but not those of functions in it (https://www.w3.org/TR/css-images-4/#image-set-notation)."""
    depth = 1
    while depth and (found := _IN_SET.search(sheet, at)):
        if found["stray"]:  # no declaration has that: the bracket was never closed
            break
        at = found.end()
        if bracket := found["bracket"]:
            depth += 1 if bracket == "(" else -1
        elif value := found["url"] or (found["string"] if depth == 1 else None):
            yield Reference(_plain(value), is_import=False)
    return at


def _plain(value: str) -> str:
    if value[0] in "\"'":
        value = value[1 : -1 if value[-1] == value[0] and len(value) > 1 else None]
    return _ESCAPE.sub(_unescaped, value) if "\\" in value else value


def _unescaped(found: re.Match[str]) -> str:
    if not found[1]:
        return found[2] or ""
    number = int(found[1], 16)
    return chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"
