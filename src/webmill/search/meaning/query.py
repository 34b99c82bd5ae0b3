"""What a query says, and what it demands. Its plain words say something that can be said by other words; the rest of it
must hold, in every mode: "phrases", -words, field:values, prefix* and filters."""

from __future__ import annotations

import msgspec

from webmill.search.query import AnyOf, Not, Part, SearchQuery, Term


class SpokenQuery(msgspec.Struct, frozen=True):
    """A query in its parts. `text` is what is embedded: it has the words of phrases and titles, too."""

    text: str
    words: tuple[Term, ...]  # the plain ones
    demands: SearchQuery

    @classmethod
    def of(cls, query: SearchQuery) -> SpokenQuery:
        words = [term for part in query.parts if _is_plain(part) for term in _terms_of(part)]
        text = " ".join(term.text for term in query.terms if term.field in ("", "title"))
        return cls(text, tuple(words), SearchQuery([part for part in query.parts if not _is_plain(part)]))

    def with_any_word(self) -> SearchQuery:
        """Return the query for documents with at least one of the plain words."""
        return SearchQuery([*self.demands.parts, AnyOf(self.words)] if self.words else self.demands.parts)


def _terms_of(part: Part) -> tuple[Term, ...]:
    return tuple(part.terms) if isinstance(part, AnyOf) else () if isinstance(part, Not) else (part,)


def _is_plain(part: Part) -> bool:
    terms = _terms_of(part)
    return bool(terms) and not any(term.field or term.is_phrase or term.is_prefix for term in terms)
