"""Translates queries to those of OpenSearch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from webmill.search.base import SearchFilters
from webmill.search.fields import (
    ADJACENT_BOOST,
    FORM_WEIGHT,
    SEARCHED_COLUMNS,
    TEXT_COLUMNS,
    WEIGHTS,
    host_of,
    periods_of,
)
from webmill.search.languages import codes_of
from webmill.search.opensearch.schema import shorten
from webmill.search.query import TIME_COLUMNS, AnyOf, Not, SearchQuery, Term, parse_period
from webmill.search.term_words import adjacent_words, bigrams_of_run, words_of_term
from webmill.search.word_forms import find_word_forms

Clause: TypeAlias = Mapping[str, Any]
NOTHING: Clause = {"match_none": {}}
FORMS_SCORED = 20  # one by one; more of them, or those of a long query, all score the same
LONG = 8  # terms
_SPECIAL = re.compile(r"([^\w])")


class OpenSearchTranslator:
    """Translates queries. `forms` collects other forms of the words. `dictionary` returns words by prefix."""

    def __init__(self, dictionary: Callable[[str], Sequence[str]], *, languages: Sequence[str]) -> None:
        self._dictionary, self._languages = dictionary, languages
        self._is_long = False
        self.forms: set[str] = set()

    def translate(self, query: SearchQuery, filters: SearchFilters) -> Clause:
        self._is_long = len(query.terms) > LONG
        must: list[Clause] = []
        must_not: list[Clause] = []
        for part in query.parts:
            if isinstance(part, Not):
                must_not.append(self._one(msgspec.structs.replace(part.term, is_exact=True)))
            elif isinstance(part, AnyOf):
                must.append(_any(self._one(term) for term in part.terms))
            else:
                must.append(self._one(part))
        together = adjacent_words(query)
        should = [
            _phrase(field, together, boost=ADJACENT_BOOST * WEIGHTS.get(field, 1.0))
            for field in TEXT_COLUMNS
            if together
        ]
        whole: dict[str, object] = {
            "must": must or [{"match_all": {}}],
            "must_not": must_not,
            "should": should,
            "filter": [*_translate_filters(filters)],
        }
        return {"bool": whole}

    def _one(self, term: Term) -> Clause:
        if term.field == "site":
            return _exact("site", host_of(term.text))
        if term.field == "lang":
            return {"terms": {"language": [shorten(code) for code in codes_of(term.text)]}}
        if term.field in TIME_COLUMNS:
            return _within(term.field, *(parse_period(term.text) or (1, 1)))
        if term.field:
            return self._in(term.field, term)
        places = [_boosted(self._in(field, term), WEIGHTS.get(field, 1.0)) for field in SEARCHED_COLUMNS]
        return {"dis_max": {"queries": places, "tie_breaker": 0.2}}

    def _in(self, field: str, term: Term) -> Clause:
        wanted = words_of_term(term, field=field)
        clauses = [_run(f"{field}_pairs", run) for run in wanted.runs]
        if wanted.following:
            clauses.append(_phrase(f"{field}_pairs", wanted.following))
        if len(wanted.words) > 1:
            clauses.append(_phrase(field, wanted.words))
        elif wanted.words:
            clauses.append(self._word(field, wanted.words[0], term))
        return {"bool": {"must": clauses}} if clauses else NOTHING

    def _word(self, field: str, word: str, term: Term) -> Clause:
        if term.is_prefix:
            return _beginning(field, word)
        typed = _exact(field, word)
        if term.is_phrase or term.is_exact or field == "url":
            return typed
        forms = sorted(find_word_forms(word, self._dictionary, languages=self._languages))
        if not forms:
            return typed
        self.forms.update(forms)
        count_alike = self._is_long or len(forms) > FORMS_SCORED
        others = {"terms": {field: forms}} if count_alike else _any(_exact(field, form) for form in forms)
        return {"dis_max": {"queries": [typed, _boosted(others, FORM_WEIGHT)]}}


def _translate_filters(filters: SearchFilters) -> Iterator[Clause]:
    if filters.languages:
        yield {"terms": {"language": [shorten(code) for each in filters.languages for code in codes_of(each)]}}
    if filters.sites:
        yield {"terms": {"site": [host_of(site) for site in filters.sites]}}
    for name, chosen in filters.facets.items():
        yield {"terms": {"facet": [shorten(f"{name}={value}") for value in chosen]}}
    if filters.contents is not None:
        yield {"terms": {"content": [*filters.contents]}}
    for name, since, until in periods_of(filters):
        yield _within(name, since, until)


def _within(field: str, since: int, until: int | None) -> Clause:
    return {"range": {field: {"gte": since, **({} if until is None else {"lt": until})}}}


def similar_words(word: str, *, letters: int) -> Clause:
    """Match words of title and text with some letters wrong."""
    return _any({"fuzzy": {field: {"value": word, "fuzziness": letters}}} for field in TEXT_COLUMNS)


def with_word(word: str) -> Clause:
    return _any(_exact(field, word) for field in TEXT_COLUMNS)


def prefix_pattern(text: str) -> str:
    """Return a Lucene regular expression for words with this prefix."""
    return _SPECIAL.sub(r"\\\1", text) + ".*"


def _run(field: str, run: str) -> Clause:
    if len(run) == 1:
        return _beginning(field, run)
    two = bigrams_of_run(run)
    return _exact(field, two[0]) if len(two) == 1 else _phrase(field, two)


def _beginning(field: str, start: str) -> Clause:
    return {"prefix": {field: {"value": start, "rewrite": "constant_score"}}}


def _exact(field: str, value: str) -> Clause:
    return {"term": {field: {"value": value}}}


def _phrase(field: str, following: Sequence[str], *, boost: float = 1.0) -> Clause:
    """Match adjacent tokens, none of which holds a space."""
    return {"match_phrase": {field: {"query": " ".join(following), "boost": boost}}}


def _any(clauses: Iterable[Clause]) -> Clause:
    return {"bool": {"should": [*clauses], "minimum_should_match": 1}}


def _boosted(clause: Clause, boost: float) -> Clause:
    return {"bool": {"must": [clause], "boost": boost}}
