"""Translates queries to filters of Meilisearch.

Its own query language has neither OR nor fields, so documents are found by a filter over our words and bigrams. A
filter knows nothing of order: for a phrase, and for a run of three characters and more, it finds all documents that
have the pieces, which may be too many. Such parts are `unsure`: their hits are checked (`document_check`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from webmill.search.base import SearchFilters
from webmill.search.fields import SEARCHED_COLUMNS, host_of, periods_of
from webmill.search.languages import codes_of
from webmill.search.meilisearch.schema import encode_value
from webmill.search.query import TIME_COLUMNS, AnyOf, Not, Part, SearchQuery, Term, parse_period
from webmill.search.term_words import bigrams_of_run, words_of_term
from webmill.search.word_forms import find_word_forms

NOTHING = "is_document = false"
EVERYTHING = "is_document = true"
PIECES = 40  # of one phrase in the filter: its hits are checked anyway
_NO_WORD = re.compile(r"[^\w\s]|_")


class MeilisearchFilter(msgspec.Struct):
    filters: list[str]  # all of them hold, …
    unsure: list[Part] = []  # … and documents must also match these parts


class MeilisearchTranslator:
    """Translates queries. `forms` collects other forms of words. `dictionary` returns words of a field by prefix."""

    def __init__(self, dictionary: Callable[[str, str], Sequence[str]], *, languages: Sequence[str]) -> None:
        self._dictionary, self._languages = dictionary, languages
        self._known: dict[tuple[str, str], list[str]] = {}
        self.forms: set[str] = set()

    def translate(self, query: SearchQuery, filters: SearchFilters) -> MeilisearchFilter:
        whole = MeilisearchFilter([EVERYTHING, *_translate_filters(filters)])
        for part in query.parts:
            text, is_sure = self._part(part)
            if isinstance(part, Not):
                part = Not(_exact(part.term))
                text = f"NOT ({text})" if is_sure else EVERYTHING
            whole.filters.append(text)
            whole.unsure += [] if is_sure else [part]
        return whole

    def _part(self, part: Part) -> tuple[str, bool]:
        if isinstance(part, Not):
            return self.one(_exact(part.term))
        if isinstance(part, Term):
            return self.one(part)
        return _any(self.one(term) for term in part.terms)

    def one(self, term: Term) -> tuple[str, bool]:
        """Return the filter of a term, and whether it is exact."""
        if term.field == "site":
            return _one_of("site", [host_of(term.text)]), True
        if term.field == "lang":
            return _one_of("language", codes_of(term.text)), True
        if term.field in TIME_COLUMNS:
            since, until = parse_period(term.text) or (1, 1)
            return f"{term.field} >= {since} AND {term.field} < {until}", True
        return _any(self._in(field, term) for field in ((term.field,) if term.field else SEARCHED_COLUMNS))

    def _in(self, field: str, term: Term) -> tuple[str, bool]:
        wanted = words_of_term(term, field=field)
        if not wanted:
            return NOTHING, True
        pieces: list[str] = []
        for run in wanted.runs:
            pieces += (_is(f"pairs.{field}", each) for each in ([run] if len(run) < 3 else bigrams_of_run(run)))
        if len(wanted.words) > 1:
            pieces += (_is(f"words.{field}", word) for word in wanted.words)
        elif wanted.words:
            pieces.append(self._word(field, wanted.words[0], term))
        is_sure = not wanted.following and len(wanted.words) < 2 and all(len(run) < 3 for run in wanted.runs)
        return " AND ".join(list(dict.fromkeys(pieces))[: None if is_sure else PIECES]), is_sure

    def _word(self, field: str, word: str, term: Term) -> str:
        if term.is_prefix:
            return f'words.{field} STARTS WITH "{encode_value(word)}"'
        return _one_of(f"words.{field}", self.matching(field, word, term))

    def matching(self, field: str, word: str, term: Term) -> list[str]:
        """Return the word, with its other forms where they match too."""
        if term.is_phrase or term.is_exact or field == "url":
            return [word]
        if (field, word) not in self._known:
            forms = find_word_forms(word, lambda start: self._dictionary(field, start), languages=self._languages)
            self.forms |= forms
            self._known[field, word] = [word, *sorted(forms)]
        return self._known[field, word]


def to_plain_text(terms: Iterable[Term]) -> str:
    """Return what Meilisearch ranks by: words, and quoted phrases, without any other syntax."""
    texts = ((_NO_WORD.sub(" ", term.text).strip(), term) for term in terms if term.field in ("", "title"))
    return " ".join(f'"{text}"' if term.is_phrase else text for text, term in texts if text)


def alternatives(query: SearchQuery) -> Iterator[tuple[Term | None, str]]:
    """Yield each alternative of the query, with its text; without alternatives, None and the whole text."""
    always = [part for part in query.parts if isinstance(part, Term)]
    choices = [term for part in query.parts if isinstance(part, AnyOf) for term in part.terms]
    if not choices:
        yield None, to_plain_text(always)
    for term in choices:
        yield term, to_plain_text([term, *always])


def _translate_filters(filters: SearchFilters) -> Iterator[str]:
    if filters.languages:
        yield _one_of("language", [code for each in filters.languages for code in codes_of(each)])
    if filters.sites:
        yield _one_of("site", [host_of(site) for site in filters.sites])
    for name, chosen in filters.facets.items():
        yield _one_of("facet", [f"{name}={value}" for value in chosen])
    if filters.contents is not None:
        yield _one_of("content", filters.contents)
    for name, since, until in periods_of(filters):
        yield f"{name} >= {since}" + ("" if until is None else f" AND {name} < {until}")


def _exact(term: Term) -> Term:
    return msgspec.structs.replace(term, is_exact=True)


def _is(field: str, value: str) -> str:
    return f'{field} = "{encode_value(value)}"'


def _one_of(field: str, values: Iterable[str]) -> str:
    names = ", ".join(f'"{encode_value(value)}"' for value in values if value)
    return f"{field} IN [{names}]" if names else NOTHING


def _any(found: Iterable[tuple[str, bool]]) -> tuple[str, bool]:
    texts, sure = zip(*found, strict=True)
    some = [text for text in texts if text != NOTHING] or [NOTHING]
    return " OR ".join(f"({text})" for text in some), all(sure)
