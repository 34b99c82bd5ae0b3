"""Read what a page states about itself in JSON-LD (JSON-LD 1.1, in the vocabulary of schema.org).

    things = read_json_ld(html)
    authors_of(things), site_name_of(things)

Only what is certain to be about the page is read: the outermost things, those of a `@graph`, and `mainEntity`. JSON
that is broken, nested too deeply or too long is skipped, as are things beyond the limits: no page makes this slow.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

Thing = dict[str, object]

MARK = "ld+json"
MAX_PAGE = 1 << 20  # characters of the page that are searched
MAX_SCRIPT = 256 << 10  # characters of a script; a longer one is skipped
MAX_SCRIPTS = 20
MAX_THINGS = 500
MAX_VALUES = 50  # of a list, such as of authors
_END = re.compile("</script", re.IGNORECASE)
_OTHERS = frozenset(
    ("Review", "Comment", "Answer", "Rating", "AggregateRating", "Quotation")
)  # not by the page's author


def read_json_ld(html: str) -> list[Thing]:
    """Return the things that a page describes, in its order."""
    things: list[Thing] = []
    for script in _scripts(html):
        try:
            things += _things(msgspec.json.decode(script))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
    return things[:MAX_THINGS]


def authors_of(things: Sequence[Thing]) -> list[str]:
    """Return the names of the authors, of an article rather than of a page or a site; names as written."""
    known = {id_: thing for thing in things if isinstance(id_ := thing.get("@id"), str)}
    for thing in sorted(things, key=_is_no_article):
        if not _OTHERS & _types(thing):
            for key in ("author", "creator"):
                if names := list(_names(thing.get(key), known)):
                    return names
    return []


def site_name_of(things: Sequence[Thing]) -> str | None:
    """Return the name of the site that a page belongs to, or else of its publisher."""
    known = {id_: thing for thing in things if isinstance(id_ := thing.get("@id"), str)}
    sites: list[object] = [thing for thing in things if "WebSite" in _types(thing)]
    publishers = [thing.get("publisher") for thing in sorted(things, key=_is_no_article)]
    return next((name for one in sites + publishers for name in _names(one, known)), None)


def _scripts(html: str) -> Iterator[bytes]:
    at, seen = html.find(MARK, 0, MAX_PAGE), 0
    while at >= 0 and seen < MAX_SCRIPTS:
        start = html.find(">", at, at + 1000) + 1
        end = _END.search(html, start, start + MAX_SCRIPT) if start else None
        if end:
            yield html[start : end.start()].encode("utf-8", "replace")
        at, seen = html.find(MARK, end.end() if end else at + 1, MAX_PAGE), seen + 1


def _things(value: object) -> Iterator[Thing]:
    waiting, seen = deque([value]), 0
    while waiting and seen < MAX_THINGS:
        one, seen = waiting.popleft(), seen + 1
        if isinstance(one, list):
            waiting.extend(one[:MAX_THINGS])
        elif isinstance(one, dict):
            yield one
            waiting.extend(one[key] for key in ("@graph", "mainEntity") if key in one)


def _types(thing: Thing) -> frozenset[str]:
    stated = thing.get("@type")
    values = stated[:MAX_VALUES] if isinstance(stated, list) else [stated]
    return frozenset(one.rpartition("/")[2] for one in values if isinstance(one, str))


def _is_no_article(thing: Thing) -> bool:
    return not any(one.endswith(("Article", "Posting", "Report")) for one in _types(thing))


def _names(value: object, known: dict[str, Thing]) -> Iterator[str]:
    """Yield the names in a value: a text, a thing with a name, a reference to one, or a list of these."""
    for one in value[:MAX_VALUES] if isinstance(value, list) else [value]:
        if isinstance(one, dict):
            id_ = one.get("@id")
            referred = known.get(id_, one) if isinstance(id_, str) and "name" not in one else one
            name = referred.get("name")
            one = name[0] if isinstance(name, list) and name else name
        if isinstance(one, str) and one.strip():
            yield one
