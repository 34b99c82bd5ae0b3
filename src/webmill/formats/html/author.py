"""Find the authors that a page states.

Searched in this order: JSON-LD, `<meta>` (author, citation_author and similar), microdata, and links with `rel=author`.
What is an address and no name is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from webmill.formats.html.entities import decode_text
from webmill.formats.html.head import MAX_HEAD, HtmlHead
from webmill.formats.html.json_ld import Thing, authors_of

METAS = (
    "author", "dc.creator", "dcterms.creator", "citation_author", "parsely-author", "sailthru.author", "article:author",
    "byl",
)  # fmt: skip
SEPARATOR = "; "
MAX_AUTHORS = 20
MAX_NAME = 120  # characters: what is longer is no name
CONTEXT = 600  # characters behind a mark that are searched
WORD = "author"
MAX_OCCURRENCES = 200  # of the word that are looked at
_MARK = re.compile(r"""(?:itemprop|rel)\s?=\s?["']?author\b""", re.IGNORECASE)
_MARK_START = 12  # characters of a mark before the word, at most
# Every repetition is bounded: pages are hostile.
_STATED = (
    re.compile(r"""[^<>]{0,200}?\bcontent\s?=\s?["']([^"'<>]{1,200})"""),
    re.compile(r"""itemprop\s?=\s?["']?name["']?[^<>]{0,200}?(?:\bcontent\s?=\s?["']|>)([^"<>]{1,200})"""),
    re.compile(r"""[^<>]{0,300}>\s{0,50}(?:<[^<>]{1,300}>\s{0,50}){0,3}([^<>]{1,200})<"""),
)
_BY = re.compile(r"by\s+(?=\S)", re.IGNORECASE)
_ADDRESS = re.compile(r"://|^www\.|@|^/")


def find_author(html: str, head: HtmlHead, things: Sequence[Thing]) -> str | None:
    """Return the names of the authors, joined; None if the page states none. `things` are those of its JSON-LD."""
    for stated in (authors_of(things), _metas(head), _marked(html)):
        if names := list(dict.fromkeys(filter(None, map(clean_name, stated)))):
            return SEPARATOR.join(names[:MAX_AUTHORS])
    return None


def clean_name(text: str) -> str | None:
    """Return a name without white space around it and "By" before it; None if it is an address, or too long."""
    name = " ".join(decode_text(text[: 2 * MAX_NAME]).split())
    if begins := _BY.match(name):
        name = name[begins.end() :]
    if not name or len(name) > MAX_NAME or _ADDRESS.search(name):
        return None
    return name


def _metas(head: HtmlHead) -> Iterable[str]:
    stated = " ".join(head.metas).lower()
    found = (head.meta(name) for name in METAS if name in stated)
    return next(([one] for one in found if one and clean_name(one)), [])


def _marked(html: str) -> Iterator[str]:
    """Yield what stands at the first mark that has a name."""
    for end in _marks(html):
        part = html[end : end + CONTEXT]
        inside = part.partition("</")[0] + "<"
        for pattern in _STATED:
            found = pattern.search(inside) if pattern is _STATED[1] else pattern.match(inside)
            if found and clean_name(found[1]):
                yield found[1]
                return


def _marks(html: str) -> Iterator[int]:
    """Yield where marks end. Finding the word first is many times as fast as the expression alone."""
    at, seen = html.find(WORD, 0, MAX_HEAD), 0
    while at >= 0 and seen < MAX_OCCURRENCES:
        end = at + len(WORD)
        if _MARK.search(html, max(0, at - _MARK_START), end + 1):
            yield end
        at, seen = html.find(WORD, end, MAX_HEAD), seen + 1
