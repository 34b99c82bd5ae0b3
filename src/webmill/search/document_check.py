"""Whether a document holds what a part of a query says, for engines that can only narrow it down: Meilisearch knows
which words a document has, but not which follow on one another."""

from __future__ import annotations

from collections.abc import Callable, Collection

from webmill.search.base import IndexedDocument
from webmill.search.fields import host_of, sites_of, texts_of, to_seconds, tokenize
from webmill.search.languages import codes_of
from webmill.search.query import TIME_COLUMNS, AnyOf, Not, Part, Term, parse_period
from webmill.search.segmentation import bigrams, to_nfc
from webmill.search.term_words import TermWords, words_of_term


class DocumentChecker:
    """Of one document. `matching`: the words that a term of one word is found by, and whether by their beginning."""

    def __init__(self, document: IndexedDocument, *, matching: Callable[[str, str, Term], Collection[str]]) -> None:
        self._document = document
        self._texts = {field: to_nfc(text) for field, text in texts_of(document).items()}
        self._words = {field: tokenize(text) for field, text in self._texts.items()}
        self._matching = matching

    def holds(self, part: Part) -> bool:
        if isinstance(part, Not):
            return not self.holds(part.term)
        if isinstance(part, AnyOf):
            return any(self.holds(term) for term in part.terms)
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
        what = words_of_term(term, field=field)
        return (
            bool(what)
            and all(run in self._texts[field] for run in what.runs)
            and (not what.following or _follow(what.following, bigrams(self._texts[field]).split()))
            and self._has_words(field, what, term)
        )

    def _has_words(self, field: str, what: TermWords, term: Term) -> bool:
        if not what.words:
            return True
        if len(what.words) > 1:
            return _follow(what.words, self._words[field])
        if term.is_prefix:
            return any(word.startswith(what.words[0]) for word in self._words[field])
        return not {*self._matching(field, what.words[0], term)}.isdisjoint(self._words[field])


def _follow(few: Collection[str], many: Collection[str]) -> bool:
    """No word has a space in it."""
    return f" {' '.join(few)} " in f" {' '.join(many)} "
