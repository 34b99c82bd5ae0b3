"""A cheap look at a page before a tree-building parser is asked: is it deep, or are its tags crowded?

The fast parsers take time by the square of the depth, and of the attributes of a tag: a page of 200 KB can keep one
busy for seconds (docs/decisions/0006-html.md). This look takes linear time. It is no proof, as it knows little of how
HTML is repaired: the parser still runs where it can be killed. `formats.html` builds no tree and does not need it.
"""

from __future__ import annotations

import re

from webmill.errors import BadInput

MAX_BYTES = 8 << 20
MAX_DEPTH = 512
MAX_ATTRIBUTES = 1000

_TAG = re.compile(rb"<(/?)([a-z][a-z0-9]*+)")
_LONG = re.compile(rb"<[A-Za-z][\w:-]*+[\s/][^<>]{%d,}+" % (2 * MAX_ATTRIBUTES))  # an attribute has a name, and a space before it
_QUOTED = re.compile(rb"\"[^\"]*+\"|'[^']*+'")
_VOID = frozenset(b"area base br col embed hr img input link meta source track wbr".split())
_ENDED_BY_OTHERS = frozenset(b"p li dt dd tr td th thead tbody tfoot option optgroup colgroup caption rp rt".split())
_UNCOUNTED = _VOID | _ENDED_BY_OTHERS
# An end tag of one of the others does not reach through these.
_WALLS = frozenset(
    b"address article aside blockquote body button center details div dl fieldset figure footer form h1 h2 h3 h4 h5 h6 "
    b"header html main nav object ol pre section select svg table template ul".split()
)


def check_shape(page: bytes) -> None:
    """Raises BadInput `parse_limit` for a page that a parser could choke on."""
    if len(page) > MAX_BYTES:
        raise BadInput(f"a page of {len(page):,} bytes", reason="parse_limit")
    if any(len(_QUOTED.sub(b" ", tag).split()) > MAX_ATTRIBUTES for tag in _LONG.findall(page)):
        raise BadInput(f"a tag with more than {MAX_ATTRIBUTES:,} attributes", reason="parse_limit")
    if page.count(b"<") > MAX_DEPTH:
        _check_depth(page)


def _check_depth(page: bytes) -> None:
    stack: list[bytes] = []
    for slash, name in _TAG.findall(page.lower()):
        if name in _UNCOUNTED:
            continue
        if slash:
            _close(stack, name)
        else:
            stack.append(name)
            if len(stack) > MAX_DEPTH:
                raise BadInput(f"tags nested deeper than {MAX_DEPTH}", reason="parse_limit")


def _close(stack: list[bytes], name: bytes) -> None:
    """The stack is short, so looking through it is cheap."""
    for depth in range(len(stack) - 1, -1, -1):
        if stack[depth] == name:
            del stack[depth:]
            return
        if stack[depth] in _WALLS and (name not in _WALLS or stack[depth] == b"table"):
            return
