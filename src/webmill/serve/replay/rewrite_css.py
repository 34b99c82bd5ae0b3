"""Links in style sheets: `url(…)` and `@import "…"`. Everything else is kept.

Every repetition is possessive, so that time is linear for any input.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from webmill.serve.replay.links import LinkRewriter, PageEncoding

_QUOTED = r""" "(?:[^"\\\n]|\\.)*+" | '(?:[^'\\\n]|\\.)*+' """
_LINK = re.compile(
    rf"""(?P<before> \burl\(\s*+ ) (?P<url> {_QUOTED} | (?:[^\s"'()\\]|\\.)++ ) (?P<behind> \s*+\) )
    | (?P<import> @import\s*+ ) (?P<imported> {_QUOTED} )""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})[ \t\n\f]?|(.))", re.DOTALL)
_ASCII = "".join(map(chr, range(0x80)))
TEXT = PageEncoding()


def rewrite_css(sheet: str, links: LinkRewriter, *, encoding: PageEncoding = TEXT) -> str:
    def rewrite(found: re.Match[str]) -> str:
        value = found["url"] or found["imported"]
        there = links.rewrite(encoding.decode(_ESCAPE.sub(_unescape, value[1:-1] if value[0] in "\"'" else value)))
        if there is None:
            return found[0]
        quoted = '"' + there.replace("\\", "%5C").replace('"', "%22") + '"'
        return f"{found['import']}{quoted}" if found["import"] else f"{found['before']}{quoted}{found['behind']}"

    return _LINK.sub(rewrite, sheet)


def _unescape(found: re.Match[str]) -> str:
    """Return the escaped character, percent-encoded beyond ASCII: in an undecoded sheet it would be a byte."""
    if not found[1]:
        return found[2]
    number = int(found[1], 16)
    is_character = 0 < number < 0x110000 and not 0xD800 <= number < 0xE000
    return quote(chr(number) if is_character else "\ufffd", safe=_ASCII)
