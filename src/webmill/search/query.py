"""The query language: words, "phrases", -not, OR, field:value, prefix*. Any text is a query; none is an error.

annual report -draft            all words, without another
"annual report" OR budget       a phrase or a word; OR binds closer than a space
title:budget site:example.org lang:kor report*
date:2024 date:2024-05..2024-07     in a period, or from one to another
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from webmill.errors import BadInput
from webmill.formats.timestamps import earliest, latest, to_datetime
from webmill.model import columns

MAX_QUERY = 2_000  # characters; the rest is ignored
MAX_TERMS = 64
# The searchable columns: those that hold times, and those that hold words.
TIME_COLUMNS = tuple(each.name for each in columns() if each.searchable and each.is_time)
WORD_COLUMNS = tuple(each.name for each in columns() if each.searchable and not each.is_time)
QUERY_FIELDS = (*(name for name in WORD_COLUMNS if name != "text"), *TIME_COLUMNS, "site", "lang")

_TOKEN = re.compile(
    rf"""(?P<not>-)?
        (?:(?P<field>{"|".join(QUERY_FIELDS)}):)?
        (?: ["“„](?P<phrase>[^"“”]*)["”]? | (?P<word>[^\s"“”„()]+) )""",
    re.VERBOSE | re.IGNORECASE,
)
_HAS_WORD = re.compile(r"[^\W_]")


class Term(msgspec.Struct, frozen=True, tag=True):
    """A word as it was typed, or adjacent words (`is_phrase`). `field`: "" is title and text."""

    text: str
    field: str = ""
    is_phrase: bool = False
    is_prefix: bool = False
    is_exact: bool = False  # other forms of the word do not match


class Not(msgspec.Struct, frozen=True, tag=True):
    term: Term


class AnyOf(msgspec.Struct, frozen=True, tag=True):
    terms: Sequence[Term]


Part: TypeAlias = Term | Not | AnyOf


class SearchQuery(msgspec.Struct, frozen=True):
    """All parts must match; without parts, everything does. `was_cut`: it was too long, and cut."""

    parts: Sequence[Part] = ()
    was_cut: bool = False

    @property
    def terms(self) -> list[Term]:
        """The terms to find, and so to highlight."""
        found: list[Term] = []
        for part in self.parts:
            found += [part] if isinstance(part, Term) else part.terms if isinstance(part, AnyOf) else ()
        return found


def parse(text: str) -> SearchQuery:
    parts: list[Part] = []
    joins = False  # the last token was OR
    count = 0
    for match in _TOKEN.finditer(replace_surrogates(text[:MAX_QUERY])):
        if match[0] == "OR":
            joins = bool(parts)
            continue
        term = _term(match)
        if term is None:
            continue
        if count == MAX_TERMS:
            return SearchQuery(parts, was_cut=True)
        count += 1
        if match["not"]:
            parts.append(Not(term))
        elif joins and not isinstance(parts[-1], Not):
            last = parts.pop()
            parts.append(AnyOf((*(last.terms if isinstance(last, AnyOf) else (last,)), term)))
        else:
            parts.append(term)
        joins = False
    return SearchQuery(parts, was_cut=len(text) > MAX_QUERY)


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates (bytes of an argument that are not UTF-8) by question marks: no engine takes them."""
    return text.encode(errors="replace").decode()


def _term(match: re.Match[str]) -> Term | None:
    field = (match["field"] or "").lower()
    if match["phrase"] is not None:
        text, field = match["phrase"].strip(), "" if field in TIME_COLUMNS else field
        return Term(text, field, is_phrase=True) if _HAS_WORD.search(text) else None
    word = match["word"]
    if field in TIME_COLUMNS and not parse_period(word):  # words with a colon in them
        word, field = f"{match['field']}:{word}", ""
    is_prefix = word.endswith("*")
    text = word.rstrip("*")
    return Term(text, field, is_prefix=is_prefix) if _HAS_WORD.search(text) else None


def parse_period(text: str) -> tuple[int, int] | None:
    """Return the first second of a period and the one after its last (`2024`, `2024-05..2024-07`), or None."""
    first, _, last = text.partition("..")
    try:
        since, until = (to_datetime(each).timestamp() for each in (earliest(first), latest(last or first)))
    except BadInput:
        return None
    return (max(1, int(since)), int(until) + 1) if since <= until else None  # 0 is no time


def format_query(query: SearchQuery) -> str:
    """Return the query as somebody would type it."""
    return " ".join(_format_part(part) for part in query.parts)


def _format_part(part: Part) -> str:
    if isinstance(part, Not):
        return f"-{_format_part(part.term)}"
    if isinstance(part, AnyOf):
        return " OR ".join(map(_format_part, part.terms))
    text = f'"{part.text}"' if part.is_phrase else part.text + "*" * part.is_prefix
    return f"{part.field}:{text}" if part.field else text
