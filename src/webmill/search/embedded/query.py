"""Translates queries to those of tantivy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import msgspec
import tantivy

from webmill.search.base import SearchFilters
from webmill.search.embedded.schema import read_stored
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
from webmill.search.query import TIME_COLUMNS, AnyOf, Not, SearchQuery, Term, parse_period
from webmill.search.segmentation import split_words
from webmill.search.spelling import correct_query, max_edits
from webmill.search.term_words import adjacent_words, bigrams_of_run, words_of_term
from webmill.search.word_forms import find_word_forms

FORMS_AT_ONCE = 1000  # words with the same prefix that are checked
CORRECTION_DOCUMENTS = 20  # searched for similar words
FAR = 1 << 40  # seconds since 1970

Must, Should, MustNot = tantivy.Occur.Must, tantivy.Occur.Should, tantivy.Occur.MustNot
Clause = tuple[tantivy.Occur, tantivy.Query]


class TantivyTranslator:
    """Translates queries. `forms` collects other forms of the words, for highlighting."""

    def __init__(self, schema: tantivy.Schema, searcher: tantivy.Searcher, *, languages: Sequence[str]) -> None:
        self._schema, self._searcher, self._languages = schema, searcher, languages
        self.forms: set[str] = set()

    def translate(self, query: SearchQuery, filters: SearchFilters) -> tantivy.Query:
        clauses: list[Clause] = [(Must, _unscored(self._exact("is_document", True)))]
        for part in query.parts:
            if isinstance(part, Not):
                clauses.append((MustNot, self._one(msgspec.structs.replace(part.term, is_exact=True))))
            elif isinstance(part, AnyOf):
                clauses.append((Must, _any(self._one(term) for term in part.terms)))
            else:
                clauses.append((Must, self._one(part)))
        if together := self._together(query):
            clauses.append((Should, together))
        clauses += ((Must, _unscored(each)) for each in self._filtered(filters))
        return tantivy.Query.boolean_query(clauses)

    def _one(self, term: Term) -> tantivy.Query:
        if term.field == "site":
            return self._exact("site", host_of(term.text))
        if term.field == "lang":
            return tantivy.Query.term_set_query(self._schema, "language", codes_of(term.text))
        if term.field in TIME_COLUMNS:
            return self._within(term.field, *(parse_period(term.text) or (1, 1)))
        if term.field:
            return self._in(term.field, term)
        places = [_weighed(field, self._in(field, term)) for field in SEARCHED_COLUMNS]
        return tantivy.Query.disjunction_max_query(places, tie_breaker=0.2)

    def _within(self, field: str, since: int, until: int) -> tantivy.Query:
        kind = tantivy.FieldType.Integer
        return tantivy.Query.range_query(self._schema, field, kind, since, until, include_upper=False)

    def _in(self, field: str, term: Term) -> tantivy.Query:
        wanted = words_of_term(term, field=field)
        clauses: list[Clause] = [(Must, self._run(f"{field}_pairs", run)) for run in wanted.runs]
        if wanted.following:
            clauses.append((Must, self._phrase(f"{field}_pairs", wanted.following)))
        if len(wanted.words) > 1:
            clauses.append((Must, self._phrase(field, wanted.words)))
        elif wanted.words:
            clauses.append((Must, self._word(field, wanted.words[0], term)))
        return tantivy.Query.boolean_query(clauses) if clauses else tantivy.Query.empty_query()

    def _run(self, field: str, run: str) -> tantivy.Query:
        if len(run) == 1:
            return tantivy.Query.regex_query(self._schema, field, f"{re.escape(run)}.?")
        two = bigrams_of_run(run)
        return self._exact(field, two[0]) if len(two) == 1 else self._phrase(field, two)

    def _word(self, field: str, word: str, term: Term) -> tantivy.Query:
        if term.is_prefix:
            return tantivy.Query.regex_query(self._schema, field, f"{re.escape(word)}.*")
        typed = self._exact(field, word)
        if term.is_phrase or term.is_exact or field == "url":
            return typed
        forms = find_word_forms(word, self._words_with(field), languages=self._languages)
        if not forms:
            return typed
        self.forms |= forms
        others = _any(self._exact(field, form) for form in sorted(forms))
        return tantivy.Query.disjunction_max_query([typed, tantivy.Query.boost_query(others, FORM_WEIGHT)])

    def _words_with(self, field: str) -> Callable[[str], list[str]]:
        return lambda start: [word for word, _ in self._searcher.terms_with_prefix(field, start, limit=FORMS_AT_ONCE)]

    def _exact(self, field: str, value: object) -> tantivy.Query:
        return tantivy.Query.term_query(self._schema, field, value)

    def _phrase(self, field: str, following: Sequence[str]) -> tantivy.Query:
        if len(following) == 1:  # tantivy takes no phrase of one
            return self._exact(field, following[0])
        return tantivy.Query.phrase_query(self._schema, field, [*following])

    def _together(self, query: SearchQuery) -> tantivy.Query | None:
        found = adjacent_words(query)
        if not found:
            return None
        phrases = (_weighed(field, self._phrase(field, found), times=ADJACENT_BOOST) for field in TEXT_COLUMNS)
        return _any(phrases)

    def _filtered(self, filters: SearchFilters) -> Iterator[tantivy.Query]:
        wanted = {
            "language": [code for each in filters.languages for code in codes_of(each)],
            "site": [host_of(site) for site in filters.sites],
        }
        for field, values in wanted.items():
            if values:
                yield tantivy.Query.term_set_query(self._schema, field, values)
        for name, chosen in filters.facets.items():
            yield tantivy.Query.term_set_query(self._schema, "facet", [f"{name}={value}" for value in chosen])
        if filters.contents is not None:
            yield tantivy.Query.term_set_query(self._schema, "content", [*filters.contents])
        for name, since, until in periods_of(filters):
            yield self._within(name, since, FAR if until is None else until)

    # --- corrections ---

    def corrected(self, query: SearchQuery) -> SearchQuery | None:
        return correct_query(query, near=self._near, uses=self._uses)

    def _uses(self, word: str) -> int:
        return sum(self._searcher.doc_freq(field, word) for field in TEXT_COLUMNS)

    def _near(self, word: str) -> set[str]:
        """Return the words of documents that have a similar one."""
        most = max_edits(word)
        if not most:
            return set()
        like = _any(tantivy.Query.fuzzy_term_query(self._schema, field, word, distance=most) for field in TEXT_COLUMNS)
        hits = self._searcher.search(like, limit=CORRECTION_DOCUMENTS, count=False).hits
        near: set[str] = set()
        for _, address in islice(hits, CORRECTION_DOCUMENTS):
            document = read_stored(self._searcher, address)
            near.update(split_words(" ".join(getattr(document, name) or "" for name in TEXT_COLUMNS)))
        return near


def _weighed(field: str, query: tantivy.Query, *, times: float = 1.0) -> tantivy.Query:
    return tantivy.Query.boost_query(query, times * WEIGHTS.get(field, 1.0))


def _any(queries: Iterable[tantivy.Query]) -> tantivy.Query:
    return tantivy.Query.boolean_query([(Should, each) for each in queries])


def _unscored(query: tantivy.Query) -> tantivy.Query:
    """Make the query a filter: it does not change the score."""
    return tantivy.Query.const_score_query(query, 0.0)
