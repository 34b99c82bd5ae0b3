"""Checks documents against a query, for engines that only narrow it down: Meilisearch knows which words a document
has, but not which are adjacent."""

from __future__ import annotations

from collections.abc import Callable, Collection

from webmill.search.base import IndexedDocument
from webmill.search.fields import host_of, sites_of, texts_of, to_seconds, tokenize
from webmill.search.languages import codes_of
from webmill.search.query import TIME_COLUMNS, AnyOf, Not, Part, Term, parse_period
from webmill.search.segmentation import bigrams, to_nfc
from webmill.search.term_words import TermWords, words_of_term


class DocumentChecker:
    """Checks one document. `matching` returns the words of the index that match a term of one word."""

    def __init__(self, document: IndexedDocument, *, matching: Callable[[str, str, Term], Collection[str]]) -> None:
        self._document = document
        self._texts = {field: to_nfc(text) for field, text in texts_of(document).items()}
        self._words = {field: tokenize(text) for field, text in self._texts.items()}
        self._matching = matching

    def matches(self, part: Part) -> bool:
        if isinstance(part, Not):
            return not self.matches(part.term)
        if isinstance(part, AnyOf):
            return any(self.matches(term) for term in part.terms)
        if part.field in self._texts or not part.field:
            return any(self._is_in(field, part) for field in ((part.field,) if part.field else self._texts))
        return self._has_value(part)

    def _has_value(self, term: Term) -> bool:
        if term.field == "site":
            return host_of(term.text) in sites_of(host_of(self._document.url))
        if term.field == "lang":
            return (self._document.language or "").lower() in codes_of(term.text)
        period = parse_period(term.text) if term.field in TIME_COLUMNS else None
        return bool(period and period[0] <= to_seconds(getattr(self._document, term.field)) < period[1])

    def _is_in(self, field: str, term: Term) -> bool:
        wanted = words_of_term(term, field=field)
        return (
            bool(wanted)
            and all(run in self._texts[field] for run in wanted.runs)
            and (not wanted.following or _is_adjacent(wanted.following, bigrams(self._texts[field]).split()))
            and self._has_words(field, wanted, term)
        )

    def _has_words(self, field: str, wanted: TermWords, term: Term) -> bool:
        if not wanted.words:
            return True
        if len(wanted.words) > 1:
            return _is_adjacent(wanted.words, self._words[field])
        if term.is_prefix:
            return any(word.startswith(wanted.words[0]) for word in self._words[field])
        return not {*self._matching(field, wanted.words[0], term)}.isdisjoint(self._words[field])


def _is_adjacent(few: Collection[str], many: Collection[str]) -> bool:
    """Whether the few words stand next to each other among the many; no word holds a space."""
    return f" {' '.join(few)} " in f" {' '.join(many)} "
