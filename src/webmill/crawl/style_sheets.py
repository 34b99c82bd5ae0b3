"""What a style sheet has fetched: `url(…)` and `@import`.

    [(ref.url, ref.is_import) for ref in read_style(sheet)]

The tokens of CSS (https://www.w3.org/TR/css-syntax-3/#tokenization) as far as they decide what is an address: comments
and strings hide what stands in them, `@namespace` names and does not fetch. Names of XML are no requests.

Every repetition is possessive and every token that begins ends somewhere, at the sheet's end at the latest: nothing is
read twice, whatever the sheet holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_S = r"[ \t\r\n\f]"
_QUOTED = r""""(?:[^"\\\n]++|\\.)*+"?+|'(?:[^'\\\n]++|\\.)*+'?+"""  # one without an end ends with its line
_BARE = r"""(?:[^ \t\r\n\f"'()\\]++|\\(?:[0-9a-f]{1,6}+[ \t\r\n\f]?+|.))++"""
_TOKEN = re.compile(
    rf"""/\*(?:[^*]++|\*(?!/))*+(?:\*/)?+
    | @import{_S}*+(?:url\({_S}*+(?P<imported>{_QUOTED}|{_BARE})|(?P<named>{_QUOTED}))
    | @namespace[^;]*+
    | \burl\({_S}*+(?P<url>{_QUOTED}|{_BARE}){_S}*+\)
    | \burl\({_S}*+(?!["'])(?:[^)\\]++|\\.)*+
    | {_QUOTED}""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})(?:\r\n|[ \t\r\n\f])?|\n|(.))", re.DOTALL)


class Reference(NamedTuple):
    """As it is written, without its quotes and escapes."""

    url: str
    is_import: bool


def read_style(sheet: str) -> Iterator[Reference]:
    for found in _TOKEN.finditer(sheet):
        imported = found["imported"] or found["named"]
        if value := imported or found["url"]:
            bare = value[1 : -1 if value[-1] == value[0] and len(value) > 1 else None] if value[0] in "\"'" else value
            yield Reference(_ESCAPE.sub(_unescaped, bare) if "\\" in bare else bare, imported is not None)


def _unescaped(found: re.Match[str]) -> str:
    if not found[1]:
        return found[2] or ""
    number = int(found[1], 16)
    return chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"
